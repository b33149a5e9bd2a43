// `tokens/create` and `tokens/register` (docs/protocol/record-plane.md#push-tokens): addresses of web couriers,
// which carry their own authority, and devices that vendors wake.

import Authentication
import Crypto
import HTTPServer
import JSON
import Records
import ServiceBus
import ServiceKit
import WebServices

extension Gateway {
  static let clientIDByteLimit = 255

  /// - Parameter isNew: true for `create`, which also registers. `register` makes the user's courier deliver this
  ///   container's notifications too, and adds this client to those that poll it.
  func pushToken(_ exchange: IncomingRequest, isNew: Bool, _ address: Address, user: String) async throws(RecordError)
    -> HTTPResponse
  {
    let request = exchange.request
    guard let container = address.container, let environment = address.environment else {
      throw RecordError(.internalError, "The route has no container")
    }
    let document = try JSONValue.request(request.body)
    let apnsEnvironment = try Self.text(document, "apnsEnvironment", byteLimit: 64) ?? environment.rawValue
    let clientID = try clientID(exchange, document, user: user)
    guard let grant = exchange.authentication?.reply.grant else {
      throw RecordError(.internalError, "The credentials have no name")
    }
    let courier: String
    if isNew {
      courier = CourierToken(
        container: container, environment: environment, userRecordName: user, clientID: clientID, grant: grant,
        expiry: CourierToken.expiry(at: wallClock.now)
      ).text(signedWith: try await secrets.signingKey())
    } else {
      let request = try SleepingDeviceRequest(document, apnsEnvironment: apnsEnvironment)
      guard let known = try await own(request.token, of: user) else {
        try await register(
          request,
          RegisterForPush.Device(
            container: container, environment: environment, userRecordName: user, clientID: clientID, grant: grant))
        return Self.json(Array("{}".utf8))
      }
      courier = known
    }
    try await couriers.open(
      OpenCourier(courier: courier, container: container, environment: environment, clientID: clientID, grant: grant))
    if !isNew { return Self.json(Array("{}".utf8)) }
    var writer = JSONWriter()
    writer.beginObject()
    writer.member("apnsEnvironment", apnsEnvironment)
    // Takes the place of Apple's device token: opaque to clients, the same for the same client, and sufficient for
    // `register`.
    writer.member("apnsToken", Base64.encode(Array(courier.utf8)))
    writer.member("webcourierURL", "\(options.notifierURL)/courier/1/\(courier)")
    writer.endObject()
    return Self.json(writer.bytes)
  }

  private func clientID(_ exchange: IncomingRequest, _ document: JSONValue, user: String) throws(RecordError) -> String
  {
    let drawn = Self.name(drawnFor: try Self.requestID(exchange, Caller(userRecordName: user)))
    return try Self.text(document, "clientId", byteLimit: Self.clientIDByteLimit)
      ?? exchange.request.query("clientId").flatMap {
        (1...Self.clientIDByteLimit).contains($0.utf8.count) ? $0 : nil
      } ?? drawn
  }

  /// The courier that an `apnsToken` of this installation stands for.
  /// - Returns: nil for a token that was made elsewhere or for another user, or that has expired.
  private func own(_ apnsToken: String?, of user: String) async throws(RecordError) -> String? {
    guard let apnsToken, let bytes = Base64.decode(apnsToken), let text = String(validating: bytes, as: UTF8.self)
    else { return nil }
    guard let token = CourierToken(text: text, verifiedWith: try await secrets.signingKey(), now: wallClock.now),
      token.userRecordName == user
    else { return nil }
    return text
  }

  static func text(_ document: JSONValue, _ key: String, byteLimit: Int) throws(RecordError) -> String? {
    guard let value = document[key], !value.isNull else { return nil }
    guard let text = value.string, text.utf8.count <= byteLimit else {
      throw RecordError(.badRequest, "\(key) is not a string of at most \(byteLimit) bytes")
    }
    return text
  }
}

/// Opens the queue of a courier at every notifier before the client learns the courier's address.
struct Couriers: Sendable {
  let bus: any Bus

  static let deadline = Duration.seconds(1)

  /// Asks all connected notifiers. One that does not answer makes the queue at the first poll, and misses earlier
  /// notifications.
  /// - Throws: `throttled` when the user has as many couriers as allowed.
  func open(_ message: OpenCourier) async throws(RecordError) {
    let bus = bus
    let isFull = await withTaskGroup(of: Bool.self) { group in
      for peer in bus.peers where peer.role == .notifier {
        group.addTask {
          do throws(BusError) {
            return !(try await bus.call(message, to: .peer(peer.name), within: Self.deadline).isOpen)
          } catch {
            // Dropped because a notifier that is away or starting is no reason to refuse the client.
            return false
          }
        }
      }
      return await group.contains(true)
    }
    if isFull {
      throw RecordError(
        .throttled, "You have too many web couriers; the notifier forgets a courier that nobody polls", retryAfter: 60)
    }
  }
}
