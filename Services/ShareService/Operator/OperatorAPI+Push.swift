// Push services and registrations of devices over HTTP.

import Crypto
import JSON
import Records
import ServiceBus

extension OperatorAPI {
  /// `GET` (with `?container=` those that serve it), `POST` with the members of `PushServiceObject`, `DELETE /{name}`.
  func pushServices(_ request: Request) async throws -> OperatorAnswer {
    switch (request.method, request.rest.count) {
    case ("GET", 0):
      let container = try request.query["container"].map { name throws(RecordError) in try Self.container(name) }
      return OperatorAnswer(list: "pushServices", try await directory.pushServices(of: container)) { row, writer in
        Self.write(row.entry, to: &writer)
        writer.member("created", row.created)
      }
    case ("POST", 0):
      let entry = try PushServiceObject(request.body).entry()
      try await directory.addPushService(entry)
      await publish(DirectoryChanged(credentials: true, schemas: []))
      return OperatorAnswer { Self.write(entry, to: &$0) }
    case ("DELETE", 1):
      try await directory.removePushService(request.rest[0])
      await publish(DirectoryChanged(credentials: true, schemas: []))
      return OperatorAnswer { $0.member("removed", true) }
    default: throw Self.noSuchCall(request)
    }
  }

  /// No secret is shown.
  private static func write(_ entry: PushServiceEntry, to writer: inout JSONWriter) {
    writer.member("name", entry.name)
    if let container = entry.container { writer.member("container", container.rawValue) }
    switch entry.kind {
    case .apns(let teamID, let keyID, _, let topic, let url):
      writer.member("kind", "apns")
      writer.member("teamID", teamID)
      writer.member("keyID", keyID)
      writer.member("topic", topic)
      if let url { writer.member("url", url) }
    case .webPush(let contact, let scalar):
      writer.member("kind", "web")
      writer.member("contact", contact)
      if let point = P256PrivateKey(scalar: scalar)?.publicPoint {
        writer.member("applicationServerKey", Base64URL.encode(point))
      }
    case .webhook: writer.member("kind", "webhook")
    }
  }

  /// `GET` with `?container=` and `?user=`, `DELETE /{id}`. The notifiers tell of the pushes.
  func registrations(_ request: Request) async throws -> OperatorAnswer {
    switch (request.method, request.rest.count) {
    case ("GET", 0):
      let container = try request.query["container"].map { name throws(RecordError) in try Self.container(name) }
      let rows = try await directory.pushRegistrations(of: container, ofUser: request.query["user"])
      let records = await pushRecords(rows.map(\.registration.id))
      return OperatorAnswer { writer in
        writer.key("registrations")
        writer.beginArray()
        for row in rows { Self.write(row, records, to: &writer) }
        writer.endArray()
        if let since = records.since { writer.member("countedSince", since) }
        writer.member("silent", records.silent)
      }
    case ("DELETE", 1):
      guard let id = Int64(request.rest[0]) else {
        throw RecordError(.badRequest, "A registration's name is a number, not '\(request.rest[0])'")
      }
      try await directory.endPushRegistration(named: id)
      await publish(DirectoryChanged(credentials: true, schemas: []))
      return OperatorAnswer { $0.member("ended", true) }
    default: throw Self.noSuchCall(request)
    }
  }
}

extension OperatorAPI {
  private static func write(
    _ row: Directory.PushRegistrationRow, _ records: PushRecordList, to writer: inout JSONWriter
  ) {
    let registration = row.registration
    writer.beginObject()
    writer.member("id", registration.id)
    writer.member("container", registration.device.container.rawValue)
    writer.member("environment", registration.device.environment.rawValue)
    writer.member("user", row.userName)
    writer.member("device", registration.device.clientID)
    writer.member("address", registration.address.label)
    writer.member("hearsEveryZone", registration.hearsEveryZone)
    writer.member("renewed", row.renewed)
    records.write(registration.id, to: &writer)
    writer.endObject()
  }
}

/// A push service as an operator describes it.
private struct PushServiceObject {
  private let object: RequestObject

  private static let textByteLimit = 2048

  init(_ body: [UInt8]) throws(RecordError) {
    object = try RequestObject(
      body, keys: "name", "container", "kind", "teamID", "keyID", "privateKey", "topic", "url", "contact")
  }

  func entry() throws(RecordError) -> PushServiceEntry {
    let name = try object.required("name")
    guard PlainName.isName(name) else { throw RecordError(.badRequest, "'name' \(PlainName.rule)") }
    let container = try object.text("container").map { name throws(RecordError) in try OperatorAPI.container(name) }
    let kind: PushServiceEntry.Kind
    switch try object.required("kind") {
    case "apns": kind = try apns()
    case "web": kind = .webPush(contact: try contact(), privateKey: try webKey())
    case "webhook": kind = .webhook
    case let other: throw RecordError(.badRequest, "'kind' must be apns, web or webhook, not '\(other)'")
    }
    return PushServiceEntry(name: name, container: container, kind: kind)
  }

  private func apns() throws(RecordError) -> PushServiceEntry.Kind {
    let key = try object.required("privateKey", limit: 4096, allowsLines: true)
    guard P256PrivateKey(pem: key) != nil else {
      throw RecordError(.badRequest, "'privateKey' is not a P-256 private key, as a .p8 file has it")
    }
    let url = try object.text("url", limit: Self.textByteLimit)
    if let url, !WebAddress.isIssuer(url) {
      throw RecordError(.badRequest, "'url' must be an https address (http only for 127.0.0.1), without a query")
    }
    return .apns(
      teamID: try object.required("teamID"), keyID: try object.required("keyID"), privateKey: key,
      topic: try object.required("topic"), url: url)
  }

  private func contact() throws(RecordError) -> String {
    let contact = try object.required("contact", limit: Self.textByteLimit)
    guard contact.hasPrefix("mailto:") || contact.hasPrefix("https://") else {
      throw RecordError(.badRequest, "'contact' must be a mailto: or https: address, such as mailto:ops@example.org")
    }
    return contact
  }

  /// The key that the operator brings, so that browsers stay subscribed after a move; else a fresh one.
  private func webKey() throws(RecordError) -> [UInt8] {
    guard let text = try object.text("privateKey") else { return P256PrivateKey.make().scalar }
    guard let scalar = Base64URL.decode(text), P256PrivateKey(scalar: scalar) != nil else {
      throw RecordError(.badRequest, "'privateKey' is not the base64url of a P-256 private key's 32 bytes")
    }
    return scalar
  }
}
