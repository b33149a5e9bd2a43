// `tokens/create` and `tokens/register` (wire-protocol.md 9.2): addresses of web couriers, which carry their own authority.

import Crypto
import HTTPServer
import JSON
import Records
import ServiceKit
import WebServices

extension Gateway {
  static let clientIDByteLimit = 255

  /// - Parameter isNew: `create`, which implies registration; `register` has nothing left to do.
  func pushToken(_ request: HTTPRequest, isNew: Bool, _ address: Address, user: String) async throws(RecordError) -> HTTPResponse {
    guard let container = address.container, let environment = address.environment else { throw RecordError(.internalError, "The route has no container") }
    let document = try JSONValue.request(request.body)
    let apnsEnvironment = try Self.text(document, "apnsEnvironment", byteLimit: 64) ?? environment.rawValue
    let clientID = try Self.text(document, "clientId", byteLimit: Self.clientIDByteLimit) ?? random.uuid()
    guard isNew else {
      guard document["apnsToken"]?.string != nil else { throw RecordError(.badRequest, "apnsToken is missing or not a string") }
      return Self.json(Array("{}".utf8))
    }
    let token = CourierToken(container: container, environment: environment, userRecordName: user, clientID: clientID)
      .text(signedWith: try await secrets.signingKey())
    var writer = JSONWriter()
    writer.beginObject()
    writer.member("apnsEnvironment", apnsEnvironment)
    // What stands for the device with Apple's push service: opaque to clients, and the same for the same client.
    writer.member("apnsToken", Base64.encode(SHA256.hash(token)))
    writer.member("webcourierURL", "\(options.notifierURL)/courier/1/\(token)")
    writer.endObject()
    return Self.json(writer.bytes)
  }

  private static func text(_ document: JSONValue, _ key: String, byteLimit: Int) throws(RecordError) -> String? {
    guard let value = document[key], !value.isNull else { return nil }
    guard let text = value.string, text.utf8.count <= byteLimit else { throw RecordError(.badRequest, "\(key) is not a string of at most \(byteLimit) bytes") }
    return text
  }
}
