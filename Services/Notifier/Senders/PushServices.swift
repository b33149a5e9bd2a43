// The senders of the push services that the operator has set up.

import Crypto
import HTTPClient
import ServiceBus
import ServiceKit

/// Makes senders, and finds the one of an address.
struct PushServices: Sendable {
  private var entries: [PushServiceEntry] = []
  private var senders: [PushServiceEntry: any PushSender] = [:]

  /// Takes the entries; services that stay keep their senders, and with them their tokens and connections.
  /// - Parameter make: makes the sender of an entry; nil for an entry that this release can't read.
  mutating func set(_ entries: [PushServiceEntry], _ make: (PushServiceEntry) -> (any PushSender)?) {
    self.entries = entries
    senders = entries.reduce(into: [:]) { known, entry in known[entry] = senders[entry] ?? make(entry) }
  }

  /// The service that wakes a device; nil when the operator has removed it.
  func service(of registration: PushRegistration) -> (entry: PushServiceEntry, sender: any PushSender)? {
    guard let entry = entries.service(for: registration.address, of: registration.device.container),
      let sender = senders[entry]
    else { return nil }
    return (entry, sender)
  }
}

/// The clients of senders, made with the first of them, because each has a thread.
struct PushClients: Sendable {
  private let clock: any WallClock
  private let reach: HTTPClient.Reach
  private let authorities: String?
  private var vendors: HTTPClient?
  private var strangers: HTTPClient?

  private static let answerByteLimit = 64 * 1024

  /// - Parameters:
  ///   - reach: the addresses of servers that clients have named.
  ///   - authorities: a PEM file of the authorities to trust; nil: the system's.
  init(clock: any WallClock, reach: HTTPClient.Reach, authorities: String?) {
    self.clock = clock
    self.reach = reach
    self.authorities = authorities
  }

  mutating func sender(of entry: PushServiceEntry) -> (any PushSender)? {
    switch entry.kind {
    case .apns(let teamID, let keyID, let pem, let topic, let url):
      guard let key = P256PrivateKey(pem: pem) else { return nil }
      let client = vendors ?? makeClient(reach: .everywhere)
      vendors = client
      return APNsSender(
        client: client, clock: clock, teamID: teamID, keyID: keyID, key: key, topic: topic, url: url)
    case .webPush(let contact, let scalar):
      guard let key = P256PrivateKey(scalar: scalar) else { return nil }
      return WebPushSender(client: strangersClient(), clock: clock, contact: contact, key: key)
    case .webhook: return WebhookSender(client: strangersClient(), clock: clock)
    }
  }

  private mutating func strangersClient() -> HTTPClient {
    let client = strangers ?? makeClient(reach: reach, resolver: NameResolver(reach: reach))
    strangers = client
    return client
  }

  private func makeClient(reach: HTTPClient.Reach, resolver: NameResolver? = nil) -> HTTPClient {
    HTTPClient(
      certificateAuthorityFile: authorities, bodyByteLimit: Self.answerByteLimit, reach: reach, sharesConnections: true,
      resolver: resolver)
  }
}

extension PushAddress {
  /// The most bytes of a push's content.
  var byteLimit: Int {
    switch self {
    case .apns: APNsSender.byteLimit
    case .web: WebPushEncryption.byteLimit
    case .webhook: WebhookSender.byteLimit
    }
  }
}
