// `users/caller`, `users/current` and `users/discover` (wire-protocol.md 6.4), answered from the directory.

import JSON
import Records
import ServiceBus
import WebServices

/// Renders people as the two shapes that clients read.
enum UserAnswer {
  /// The identity at top level (CloudKit JS) and as the only element of `users` (the reference).
  static func caller(_ user: LookUpUser.Reply) -> [UInt8] {
    var writer = JSONWriter()
    writer.beginObject()
    writeIdentity(user, to: &writer)
    writer.key("users")
    writer.beginArray()
    writer.beginObject()
    writeIdentity(user, to: &writer)
    writer.endObject()
    writer.endArray()
    writer.endObject()
    return writer.bytes
  }

  static func current(_ user: LookUpUser.Reply) -> [UInt8] {
    var writer = JSONWriter()
    writer.beginObject()
    writer.member("userRecordName", user.userRecordName)
    writeText(user.givenName, "firstName", to: &writer)
    writeText(user.familyName, "lastName", to: &writer)
    writer.endObject()
    return writer.bytes
  }

  static func discovered(_ users: [LookUpUser.Reply]) -> [UInt8] {
    var writer = JSONWriter()
    writer.beginObject()
    writer.key("users")
    writer.beginArray()
    for user in users {
      writer.beginObject()
      writeIdentity(user, to: &writer)
      writer.endObject()
    }
    writer.endArray()
    writer.endObject()
    return writer.bytes
  }

  private static func writeIdentity(_ user: LookUpUser.Reply, to writer: inout JSONWriter) {
    writer.member("userRecordName", user.userRecordName)
    writer.key("nameComponents")
    writer.beginObject()
    if let givenName = user.givenName { writer.member("givenName", givenName) }
    if let familyName = user.familyName { writer.member("familyName", familyName) }
    writer.endObject()
    writer.key("lookupInfo")
    writer.beginObject()
    if let emailAddress = user.emailAddress { writer.member("emailAddress", emailAddress) }
    writer.endObject()
  }

  private static func writeText(_ text: String?, _ name: String, to writer: inout JSONWriter) {
    writer.key(name)
    if let text { writer.string(text) } else { writer.null() }
  }
}

/// Asks the share service about people.
struct People: Sendable {
  static let lookupLimit = 200

  let share: ShareCalls

  func user(_ name: String) async throws(RecordError) -> LookUpUser.Reply { try await share.call(LookUpUser(userRecordName: name)) }

  /// The people of a `users/discover` body that can be found; the others are left out, as the protocol wants it.
  func discover(_ body: [UInt8]) async throws(RecordError) -> [LookUpUser.Reply] {
    var found: [LookUpUser.Reply] = []
    for name in try Self.lookedUpNames(body) {
      do throws(RecordError) {
        found.append(try await user(name))
      } catch {
        guard error.code == .notFound else { throw error }
      }
    }
    return found
  }

  /// The record names in `{"lookupInfos":[{"userRecordName":…}]}`. People who are looked up by e-mail address or phone number are
  /// discoverable to nobody here.
  static func lookedUpNames(_ body: [UInt8]) throws(RecordError) -> [String] {
    let document = try JSONValue.request(body)
    guard let infos = document["lookupInfos"], infos.kind == .array else { throw RecordError(.badRequest, "lookupInfos is missing or not an array") }
    let elements = infos.elements
    guard elements.count <= lookupLimit else { throw RecordError(.badRequest, "lookupInfos has \(elements.count) items, the limit is \(lookupLimit)") }
    return elements.compactMap { $0["userRecordName"]?.string }
  }
}
