// `users/…` (docs/protocol/record-plane.md#users), answered from the directory.

import Authentication
import HTTPServer
import JSON
import Records
import ServiceBus
import WebServices

/// Writes users in the two shapes that clients read.
enum UserAnswer {
  /// The identity at the top level (CloudKit JS) and as the only element of `users` (the reference).
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

  /// `users/discover`.
  static func discovered(_ found: [People.Found]) -> [UInt8] {
    list(found) { found, writer in
      writer.member("userRecordName", found.user.userRecordName)
      writeName(found.user, to: &writer)
      writer.key("lookupInfo")
      writer.beginObject()
      // Only the key of the question, so that the answer reveals nothing else.
      if let address = found.lookup.emailAddress {
        writer.member("emailAddress", address)
      } else if let number = found.lookup.phoneNumber {
        writer.member("phoneNumber", number)
      } else {
        writer.member("userRecordName", found.user.userRecordName)
      }
      writer.endObject()
    }
  }

  /// `users/lookup/…`.
  static func lookedUp(_ found: [People.Found]) -> [UInt8] {
    list(found) { found, writer in
      writer.member("userRecordName", found.user.userRecordName)
      writeText(found.user.givenName, "firstName", to: &writer)
      writeText(found.user.familyName, "lastName", to: &writer)
      if let address = found.user.emailAddress { writer.member("emailAddress", address) }
    }
  }

  private static func list(_ found: [People.Found], _ write: (People.Found, inout JSONWriter) -> Void) -> [UInt8] {
    var writer = JSONWriter()
    writer.beginObject()
    writer.key("users")
    writer.beginArray()
    for user in found {
      writer.beginObject()
      write(user, &writer)
      writer.endObject()
    }
    writer.endArray()
    writer.endObject()
    return writer.bytes
  }

  private static func writeIdentity(_ user: LookUpUser.Reply, to writer: inout JSONWriter) {
    writer.member("userRecordName", user.userRecordName)
    writeName(user, to: &writer)
    writer.key("lookupInfo")
    writer.beginObject()
    if let emailAddress = user.emailAddress { writer.member("emailAddress", emailAddress) }
    if let phoneNumber = user.phoneNumber { writer.member("phoneNumber", phoneNumber) }
    writer.endObject()
  }

  private static func writeName(_ user: LookUpUser.Reply, to writer: inout JSONWriter) {
    writer.key("nameComponents")
    writer.beginObject()
    if let givenName = user.givenName { writer.member("givenName", givenName) }
    if let familyName = user.familyName { writer.member("familyName", familyName) }
    writer.endObject()
  }

  private static func writeText(_ text: String?, _ name: String, to writer: inout JSONWriter) {
    writer.key(name)
    if let text { writer.string(text) } else { writer.null() }
  }
}

/// Asks the share service about users.
struct People: Sendable {
  static let lookupLimit = 200
  static let textByteLimit = 320

  /// A user and the key of the question that found them.
  struct Found: Sendable {
    let lookup: DiscoverUsers.Lookup
    let user: LookUpUser.Reply
  }

  let share: ShareCalls

  func user(_ name: String) async throws(RecordError) -> LookUpUser.Reply {
    try await share.call(LookUpUser(userRecordName: name))
  }

  /// `users/discover`: the users that can be found. The protocol leaves the others out.
  func discover(_ request: HTTPRequest, caller: String) async throws(RecordError) -> [UInt8] {
    // The GET form searches the caller's address book; the server has none.
    if request.method == .get { return UserAnswer.discovered([]) }
    return UserAnswer.discovered(
      try await find(
        try Self.lookups(request.body, list: "lookupInfos", by: ["userRecordName", "emailAddress", "phoneNumber"]),
        caller))
  }

  /// `users/lookup/email`, `users/lookup/id`, and `users/lookup/contacts`, which is always empty: there is no address
  /// book.
  func lookUp(_ request: HTTPRequest, caller: String) async throws(RecordError) -> [UInt8] {
    switch request.pathSegments.last {
    case "email":
      UserAnswer.lookedUp(try await find(try Self.lookups(request.body, list: "users", by: ["emailAddress"]), caller))
    case "id":
      UserAnswer.lookedUp(try await find(try Self.lookups(request.body, list: "users", by: ["userRecordName"]), caller))
    default: UserAnswer.lookedUp([])
    }
  }

  private func find(_ lookups: [DiscoverUsers.Lookup], _ caller: String) async throws(RecordError) -> [Found] {
    guard !lookups.isEmpty else { return [] }
    let users = try await share.call(DiscoverUsers(caller: caller, lookups: lookups)).users
    return zip(lookups, users).compactMap { lookup, user in user.map { Found(lookup: lookup, user: $0) } }
  }

  /// Reads `{"<list>":[{"<key>":…}]}`. Of several keys in one item the first of `keys` counts; items without a key are
  /// left out.
  static func lookups(_ body: [UInt8], list: String, by keys: [String]) throws(RecordError) -> [DiscoverUsers.Lookup] {
    let document = try JSONValue.request(body)
    guard let items = document[list], items.kind == .array else {
      throw RecordError(.badRequest, "\(list) is missing or not an array")
    }
    let elements = items.elements
    guard elements.count <= lookupLimit else {
      throw RecordError(.badRequest, "\(list) has \(elements.count) items, the limit is \(lookupLimit)")
    }
    var lookups: [DiscoverUsers.Lookup] = []
    for element in elements {
      guard let key = keys.first(where: { element[$0]?.isNull == false }) else { continue }
      guard let text = element[key]?.string else { throw RecordError(.badRequest, "\(key) must be a string") }
      // No user has a longer one.
      guard text.utf8.count <= textByteLimit else { continue }
      switch key {
      case "userRecordName": lookups.append(DiscoverUsers.Lookup(userRecordName: text))
      case "emailAddress": lookups.append(DiscoverUsers.Lookup(emailAddress: text))
      case "phoneNumber": lookups.append(DiscoverUsers.Lookup(phoneNumber: text))
      default: break
      }
    }
    return lookups
  }
}
