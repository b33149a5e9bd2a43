// The HTTP requests behind the commands, as pure values: from an invocation to method, path and body.

import JSON
import WebServices

/// A request to the gateway's operator routes.
struct AdminCall: Hashable, Sendable {
  enum Kind: Hashable, Sendable {
    case createContainer, setContainer, listContainers, deleteContainer
    case createUser, updateUser, setPassword, listUsers, showUser, disableUser, enableUser, signOutUser,
      createUserToken, setUserQuota
    case grantRole, revokeRole, listRoles
    case listSessions, revokeSession, listSignIns
    case addIdentity, listIdentities, removeIdentity, setIdentityIcon
    case invite, listInvitations, withdrawInvitation
    case setMail, showMail, endMail, listMail, allowMail, exportMailTemplate, importMailTemplate
    case addPushService, listPushServices, removePushService, listRegistrations, endRegistration
    case createToken, listTokens, revokeToken
    case addKey, listKeys, revokeKey
    case exportSchema, importSchema, promoteSchema, diffSchema
    case exportRules, importRules, listDuplicates
    case status, workers, shards, acceptData, moveShard, splitShard, balanceShards, stores, zones, subscriptions, events
    case explain, listQuarantine, retryQuarantine
    case backup, scrub
    case audit, listConflicts, restoreConflict, resolveConflict
    case purgeZone, resetEncryptedZone
    case listShares, showShare, stopShare
  }

  let method: String
  /// The path, percent-encoded, with its query.
  let target: String
  let body: [UInt8]
  /// Set when the answer is plain text; with `--json` the text becomes the value of this key.
  var textKey: String?

  init(_ method: String, _ path: [String], query: [(String, String)] = [], body: [UInt8] = [], textKey: String? = nil) {
    self.method = method
    let parameters = query.map { "\(Self.encoded($0.0))=\(Self.encoded($0.1))" }
    target =
      "/" + path.map(Self.encoded).joined(separator: "/")
      + (parameters.isEmpty ? "" : "?" + parameters.joined(separator: "&"))
    self.body = body
    self.textKey = textKey
  }

  /// - Parameter content: the bytes of the file or of standard input that the command reads; empty without one.
  init(_ kind: Kind, _ invocation: Invocation, content: [UInt8] = []) {
    let argument = invocation.arguments.first ?? ""
    let container = invocation.value("container") ?? ""
    let environment = invocation.value("environment") ?? "development"
    let admin = ["admin", "1"]
    let schema = admin + ["schema", container, environment]
    switch kind {
    case .createContainer:
      self.init(
        "POST", admin + ["containers"],
        body: Self.object { object in
          object.member("container", argument)
          if invocation.flag("if-missing") { object.member("ifMissing", true) }
        })
    case .setContainer: self.init("POST", admin + ["containers", argument], body: Self.appChange(invocation))
    case .listContainers: self.init("GET", admin + ["containers"])
    case .deleteContainer: self.init("DELETE", admin + ["containers", argument])
    case .createUser: self.init("POST", admin + ["users"], body: Self.newUser(invocation, password: content))
    case .updateUser: self.init("POST", admin + ["users", argument], body: Self.userChange(invocation))
    case .setPassword:
      self.init(
        "POST", admin + ["users", argument, "password"],
        body: Self.object { $0.member("password", String(decoding: content, as: UTF8.self)) })
    case .listSessions: self.init("GET", admin + ["sessions"], query: Self.given(invocation, "user", "container"))
    case .listSignIns:
      self.init("GET", admin + ["sign-ins"], query: Self.given(invocation, "user", "container", "after"))
    case .signOutUser: self.init("POST", admin + ["users", argument, "sign-out"])
    case .revokeSession: self.init("DELETE", admin + ["sessions", argument])
    case .addIdentity, .listIdentities, .removeIdentity, .setIdentityIcon, .invite, .listInvitations,
      .withdrawInvitation:
      self.init(identities: kind, invocation, content: content)
    case .setMail, .showMail, .endMail, .listMail, .allowMail, .exportMailTemplate, .importMailTemplate:
      self.init(mail: kind, invocation, content: content)
    case .addPushService, .listPushServices, .removePushService, .listRegistrations, .endRegistration:
      self.init(pushes: kind, invocation, content: content)
    case .listUsers:
      self.init("GET", admin + ["users"], query: [("usage", "true")] + Self.given(invocation, "container"))
    case .showUser: self.init("GET", admin + ["users", argument])
    case .disableUser: self.init("POST", admin + ["users", argument, "disable"])
    case .enableUser: self.init("POST", admin + ["users", argument, "enable"])
    case .createUserToken: self.init("POST", admin + ["users", argument, "tokens"])
    case .setUserQuota: self.init("PUT", admin + ["users", argument, "quota"], body: Self.quota(invocation))
    case .grantRole: self.init("POST", admin + ["roles"], body: Self.newRole(invocation))
    case .revokeRole:
      let place = Self.given(invocation, "container", "environment", "role", "user").map(\.1)
      self.init("DELETE", admin + ["roles"] + place)
    case .listRoles: self.init("GET", admin + ["roles"], query: Self.given(invocation, "container"))
    case .createToken: self.init("POST", admin + ["tokens"], body: Self.newToken(invocation))
    case .listTokens: self.init("GET", admin + ["tokens"], query: Self.given(invocation, "container"))
    case .revokeToken: self.init("DELETE", admin + ["tokens", argument])
    case .addKey: self.init("POST", admin + ["keys"], body: Self.newKey(invocation, publicKey: content))
    case .listKeys: self.init("GET", admin + ["keys"], query: Self.given(invocation, "container"))
    case .revokeKey: self.init("DELETE", admin + ["keys", argument])
    case .exportSchema: self.init("GET", schema, textKey: "schema")
    case .importSchema: self.init("PUT", schema, query: Self.change(invocation), body: content)
    case .promoteSchema:
      self.init("POST", admin + ["schema", container, "development", "promote"], query: Self.trial(invocation))
    case .diffSchema: self.init("GET", admin + ["schema", container, "development", "diff"], textKey: "diff")
    case .exportRules: self.init("GET", admin + ["rules", container, environment])
    case .importRules:
      self.init("PUT", admin + ["rules", container, environment], query: Self.trial(invocation), body: content)
    case .listDuplicates: self.init("GET", admin + ["duplicates"], query: Self.given(invocation, "container"))
    case .status: self.init("GET", admin + ["status"])
    case .workers: self.init("GET", admin + ["workers"])
    case .shards: self.init("GET", admin + ["shards"])
    case .acceptData:
      self.init("POST", admin + ["shards", "accept"], body: Self.object { $0.member("what", argument) })
    case .moveShard:
      self.init(
        "POST", admin + ["shards", argument, "move"],
        body: Self.object { $0.member("to", invocation.value("to") ?? "") })
    case .splitShard:
      self.init(
        "POST", admin + ["shards", argument, "split"],
        body: Self.object { writer in
          if let cluster = invocation.value("to") { writer.member("to", cluster) }
          if invocation.flag("cancel") { writer.member("cancel", true) }
        })
    case .balanceShards:
      self.init(
        "POST", admin + ["shards", "balance"],
        query: (invocation.flag("dry-run") ? [("dryRun", "true")] : []) + Self.given(invocation, "limit"))
    case .stores: self.init("GET", admin + ["stores"], query: Self.given(invocation, "container"))
    case .events: self.init("GET", admin + ["events"], query: Self.given(invocation, "container"))
    case .zones: self.init("GET", admin + ["zones"], query: Self.given(invocation, "container"))
    case .subscriptions: self.init("GET", admin + ["subscriptions"], query: Self.given(invocation, "container"))
    case .explain:
      self.init(
        "GET", admin + ["explain"],
        query: [
          ("container", container), ("environment", environment), ("user", invocation.value("user") ?? ""),
          ("object", argument),
        ]
          + (invocation.flag("public") ? [("scope", "public")] : []))
    case .listQuarantine: self.init("GET", admin + ["quarantine"], query: Self.given(invocation, "container"))
    case .retryQuarantine:
      self.init(
        "POST", admin + ["quarantine", "retry"],
        query: Self.given(invocation, "container", "environment", "user"))
    case .backup:
      self.init(
        "POST", admin + ["backup"],
        body: Self.object { $0.member("directory", String(decoding: content, as: UTF8.self)) })
    case .scrub:
      let flags = [("assets", "assets"), ("mend-links", "mendLinks")]
      self.init("POST", admin + ["scrub"], query: flags.filter { invocation.flag($0.0) }.map { ($0.1, "true") })
    case .purgeZone: self = Self.endZone("purged", invocation)
    case .resetEncryptedZone: self = Self.endZone("encryptedDataReset", invocation)
    case .listConflicts, .restoreConflict, .resolveConflict: self.init(conflicts: kind, invocation)
    case .listShares: self.init("GET", admin + ["shares"], query: Self.place(invocation))
    case .showShare: self.init("GET", admin + ["participants"], query: Self.place(invocation))
    case .stopShare:
      self.init(
        "POST", Self.zone(invocation, "unshare"),
        body: Self.object { writer in if let name = invocation.value("share") { writer.member("share", name) } })
    case .audit:
      let query = [("record", "recordName"), ("field", "field"), ("after", "after")].compactMap { option, name in
        invocation.value(option).map { (name, $0) }
      }
      self.init(
        "GET",
        admin + [
          "zone", container, environment, invocation.value("owner") ?? "", invocation.value("zone") ?? "", "audit",
        ], query: query)
    }
  }

  /// The path of a call on a whole zone.
  private static func zone(_ invocation: Invocation, _ call: String) -> [String] {
    [
      "admin", "1", "zone", invocation.value("container") ?? "", invocation.value("environment") ?? "development",
      invocation.value("owner") ?? "",
      invocation.value("zone") ?? "", call,
    ]
  }

  /// Restricts a list of shares by the options given.
  private static func place(_ invocation: Invocation) -> [(String, String)] {
    given(invocation, "container", "environment", "owner", "zone")
  }

  /// The given ones of these options, as query parameters of the same name.
  static func given(_ invocation: Invocation, _ names: String...) -> [(String, String)] {
    names.compactMap { name in invocation.value(name).map { (name, $0) } }
  }

  private static func endZone(_ reason: String, _ invocation: Invocation) -> AdminCall {
    AdminCall("POST", zone(invocation, "end"), body: object { $0.member("reason", reason) })
  }

  /// A call on a zone's journal of conflicts.
  private init(conflicts kind: Kind, _ invocation: Invocation) {
    let path = Self.zone(invocation, "conflicts")
    guard kind != .listConflicts else {
      let query = [("state", "state"), ("object", "objectID"), ("after", "after")].compactMap { option, name in
        invocation.value(option).map { (name, $0) }
      }
      self.init("GET", path, query: query)
      return
    }
    let number = invocation.arguments.first ?? ""
    let body = Self.object { writer in
      writer.key("number")
      // The server refuses a text that is no number.
      if let number = Int64(number) { writer.integer(number) } else { writer.string(number) }
      writer.member("action", kind == .restoreConflict ? "restore" : "resolve")
      if let pick = invocation.value("pick") { writer.member("pick", pick) }
      guard let text = invocation.value("value") else { return }
      writer.key("value")
      // Dropped because a text that is no JSON is sent as a string.
      if let value = try? JSONValue(parsing: Array(text.utf8)) { writer.value(value) } else { writer.string(text) }
    }
    self.init("POST", path, body: body)
  }

  /// `PUT model` of the mirror API.
  static func pushModel(_ invocation: Invocation, contents: [UInt8], isTrial: Bool = false) -> AdminCall {
    var query: [(String, String)] = []
    if let configuration = invocation.value("configuration") { query.append(("configuration", configuration)) }
    query += change(invocation)
    if isTrial, !invocation.flag("dry-run") { query.append(("dryRun", "true")) }
    let path = ["mirror", "1", invocation.value("container") ?? "", invocation.value("environment") ?? "", "model"]
    return AdminCall("PUT", path, query: query, body: contents)
  }

  /// Query parameters of a schema change that only ask for more information.
  private static func trial(_ invocation: Invocation) -> [(String, String)] {
    (invocation.flag("dry-run") ? [("dryRun", "true")] : [])
      + (invocation.flag("print-schema") ? [("printSchema", "true")] : [])
  }

  private static func change(_ invocation: Invocation) -> [(String, String)] {
    (invocation.flag("change-types") ? [("changeTypes", "true")] : []) + trial(invocation)
  }

  private static func newUser(_ invocation: Invocation, password: [UInt8]) -> [UInt8] {
    object { writer in
      writer.member("name", invocation.arguments.first ?? "")
      writePerson(invocation, to: &writer)
      if invocation.flag("discoverable") { writer.member("discoverable", true) }
      if invocation.flag("password-stdin") { writer.member("password", String(decoding: password, as: UTF8.self)) }
    }
  }

  private static func userChange(_ invocation: Invocation) -> [UInt8] {
    object { writer in
      writePerson(invocation, to: &writer)
      if let word = invocation.value("discoverable") { writer.member("discoverable", word == "yes") }
    }
  }

  private static func writePerson(_ invocation: Invocation, to writer: inout JSONWriter) {
    if let email = invocation.value("email") { writer.member("email", email) }
    if let number = invocation.value("phone") { writer.member("phone", number) }
    if let name = invocation.value("given-name") { writer.member("givenName", name) }
    if let name = invocation.value("family-name") { writer.member("familyName", name) }
  }

  /// An empty text removes the app's value.
  private static func appChange(_ invocation: Invocation) -> [UInt8] {
    object { writer in
      for (option, key) in [("display-name", "displayName"), ("app-url", "appURL")] {
        guard let text = invocation.value(option) else { continue }
        writer.key(key)
        if text.isEmpty { writer.null() } else { writer.string(text) }
      }
    }
  }

  private static func newToken(_ invocation: Invocation) -> [UInt8] {
    object { writer in
      writer.member("container", invocation.value("container") ?? "")
      writer.member("environment", invocation.value("environment") ?? "")
      writer.key("allowedOrigins")
      writer.beginArray()
      for origin in invocation.values("allowed-origin") { writer.string(origin) }
      writer.endArray()
      if let url = invocation.value("callback-url") { writer.member("callbackURL", url) }
    }
  }

  private static func newRole(_ invocation: Invocation) -> [UInt8] {
    object { writer in
      for (key, value) in given(invocation, "container", "environment", "user", "role") { writer.member(key, value) }
    }
  }

  /// A text that is no number of bytes is sent unchanged; the server refuses it.
  private static func quota(_ invocation: Invocation) -> [UInt8] {
    object { writer in
      writer.key("bytes")
      let text = invocation.arguments.last ?? ""
      if text == "default" {
        writer.null()
      } else if let count = Units.byteCount(text) {
        writer.integer(count)
      } else {
        writer.string(text)
      }
    }
  }

  private static func newKey(_ invocation: Invocation, publicKey: [UInt8]) -> [UInt8] {
    object { writer in
      writer.member("container", invocation.value("container") ?? "")
      writer.member("publicKey", String(decoding: publicKey, as: UTF8.self))
      if let name = invocation.value("name") { writer.member("name", name) }
      if let name = invocation.value("user") { writer.member("user", name) }
    }
  }

  static func object(_ write: (inout JSONWriter) -> Void) -> [UInt8] {
    var writer = JSONWriter()
    writer.beginObject()
    write(&writer)
    writer.endObject()
    return writer.bytes
  }

  /// Encodes everything except RFC 3986's unreserved characters.
  static func encoded(_ text: String) -> String {
    var result = ""
    for byte in text.utf8 {
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"),
        UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "~"):
        result.append(Character(UnicodeScalar(byte)))
      default:
        let digits = String(byte, radix: 16, uppercase: true)
        result.append("%" + (digits.count == 1 ? "0" : "") + digits)
      }
    }
    return result
  }
}
