// Devices that a vendor's push service wakes (docs/protocol/record-plane.md#sleeping-devices): their registration, its
// end, and the key that browsers ask for.

import Authentication
import Crypto
import HTTPServer
import JSON
import Records
import ServiceBus
import ServiceKit
import WebServices

/// The body of `tokens/register` and `tokens/unregister`.
struct SleepingDeviceRequest {
  /// `apnsToken`: Apple's device token, or a courier's.
  let token: String?
  /// nil for a token that is neither.
  let address: PushAddress?
  let hearsEveryZone: Bool

  private static let urlByteLimit = 2048
  private static let deviceTokenByteRange = 16...100
  private static let secretByteRange = 16...256
  private static let keyByteCount = 65
  private static let authByteCount = 16
  private static let tokenByteLimit = 8192

  /// - Throws: `badRequest` naming the member.
  init(_ document: JSONValue, apnsEnvironment: String) throws(RecordError) {
    if let flag = document["everyZone"], !flag.isNull {
      guard let flag = flag.bool else { throw RecordError(.badRequest, "everyZone is neither true nor false") }
      hearsEveryZone = flag
    } else {
      hearsEveryZone = false
    }
    if let browser = document["webPush"], !browser.isNull {
      (token, address) = (nil, try Self.browser(browser))
    } else if let server = document["webhook"], !server.isNull {
      (token, address) = (nil, try Self.server(server))
    } else {
      guard let text = try Gateway.text(document, "apnsToken", byteLimit: Self.tokenByteLimit) else {
        throw RecordError(.badRequest, "apnsToken is missing: name it, webPush or webhook")
      }
      token = text
      address = Hex.decode(text.lowercased()).flatMap { bytes in
        Self.deviceTokenByteRange.contains(bytes.count)
          ? .apns(deviceToken: Hex.encode(bytes), isSandbox: apnsEnvironment == "development") : nil
      }
    }
  }

  /// A browser's `PushSubscription` as it writes itself, or a UnifiedPush distributor's endpoint and keys.
  private static func browser(_ value: JSONValue) throws(RecordError) -> PushAddress {
    let endpoint = try url(value["endpoint"], "webPush.endpoint")
    guard let key = value["keys"]?["p256dh"]?.string.flatMap(bytes), key.count == keyByteCount, key[0] == 4 else {
      throw RecordError(.badRequest, "webPush.keys.p256dh is not the base64url of \(keyByteCount) bytes")
    }
    guard let secret = value["keys"]?["auth"]?.string.flatMap(bytes), secret.count == authByteCount else {
      throw RecordError(.badRequest, "webPush.keys.auth is not the base64url of \(authByteCount) bytes")
    }
    return .web(endpoint: endpoint, receiverKey: key, secret: secret)
  }

  private static func server(_ value: JSONValue) throws(RecordError) -> PushAddress {
    let url = try url(value["url"], "webhook.url")
    guard let secret = value["secret"]?.string, secretByteRange.contains(secret.utf8.count) else {
      throw RecordError(
        .badRequest,
        "webhook.secret is not a string of \(secretByteRange.lowerBound) to \(secretByteRange.upperBound) bytes")
    }
    return .webhook(url: url, secret: secret)
  }

  /// Some browsers pad the text.
  private static func bytes(_ text: String) -> [UInt8]? {
    text.utf8.count > 200 ? nil : Base64URL.decode(text.prefix { $0 != "=" })
  }

  private static func url(_ value: JSONValue?, _ name: String) throws(RecordError) -> String {
    guard let text = value?.string, text.hasPrefix("https://"), text.utf8.count <= urlByteLimit,
      text.utf8.allSatisfy({ (0x21...0x7e).contains($0) }), !PushAddress.host(of: text).isEmpty,
      !PushAddress.host(of: text).contains("@")
    else {
      throw RecordError(.badRequest, "\(name) is not an https URL of at most \(urlByteLimit) bytes")
    }
    return text
  }
}

extension Gateway {
  /// - Parameter device: who registers it.
  func register(_ request: SleepingDeviceRequest, _ device: RegisterForPush.Device) async throws(RecordError) {
    // As with CloudKit, a token that means nothing here is accepted.
    guard let address = request.address else { return }
    let reply = try await share.call(
      RegisterForPush(device: device, address: address, hearsEveryZone: request.hearsEveryZone))
    guard reply.isServed else {
      if case .apns = address { return }
      throw RecordError(
        .badRequest, "The container has no push service for \(address.label): the operator adds one (aquifer push add)")
    }
    if reply.isChanged { await couriers.registrationsChanged() }
  }

  /// `tokens/unregister`
  func unregisterPush(_ exchange: IncomingRequest, _ address: Address, user: String) async throws(RecordError)
    -> HTTPResponse
  {
    guard let container = address.container, let environment = address.environment else {
      throw RecordError(.internalError, "The route has no container")
    }
    let document = try JSONValue.request(exchange.request.body)
    let request = try SleepingDeviceRequest(document, apnsEnvironment: environment.rawValue)
    if let target = request.address?.target {
      _ = try await share.call(
        UnregisterFromPush(container: container, environment: environment, userRecordName: user, target: target))
      await couriers.registrationsChanged()
    }
    return Self.json(Array("{}".utf8))
  }

  /// `tokens/key`
  func pushKey(_ address: Address) async throws(RecordError) -> HTTPResponse {
    guard let container = address.container else { throw RecordError(.internalError, "The route has no container") }
    guard let key = try await share.call(FetchApplicationServerKey(container: container)).key else {
      throw RecordError(.notFound, "The container has no Web Push: the operator adds it (aquifer push add)")
    }
    var writer = JSONWriter()
    writer.beginObject()
    writer.member("applicationServerKey", Base64URL.encode(key))
    writer.endObject()
    return Self.json(writer.bytes)
  }
}

extension Couriers {
  /// Tells all connected notifiers that registrations have changed. One that does not answer looks within a minute.
  func registrationsChanged() async {
    let bus = bus
    await withTaskGroup(of: Void.self) { group in
      for peer in bus.peers where peer.role == .notifier {
        // Dropped because the notifier looks by itself.
        group.addTask {
          _ = try? await bus.call(PushRegistrationsChanged(), to: .peer(peer.name), within: Self.deadline)
        }
      }
    }
  }
}
