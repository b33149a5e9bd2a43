import JSON
import Testing

@testable import Console

private func call(_ line: String, content: String = "") throws -> AdminCall {
  guard case .run(let invocation) = try CommandLineParser.parse(line.split(separator: " ").map(String.init)),
    case .call(let kind) = invocation.command.action
  else {
    throw UsageError("not a call")
  }
  return AdminCall(kind, invocation, content: Array(content.utf8))
}

struct AdminCallTests {
  @Test(arguments: [
    ("container create iCloud.a", "POST /admin/1/containers", #"{"container":"iCloud.a"}"#),
    (
      "container create iCloud.a --if-missing", "POST /admin/1/containers",
      #"{"container":"iCloud.a","ifMissing":true}"#
    ),
    ("container list", "GET /admin/1/containers", ""),
    (
      "container set iCloud.a --display-name Photos --app-url https://a.b/#/c", "POST /admin/1/containers/iCloud.a",
      #"{"displayName":"Photos","appURL":"https://a.b/#/c"}"#
    ), ("container set iCloud.a --app-url=", "POST /admin/1/containers/iCloud.a", #"{"appURL":null}"#),
    ("container delete iCloud.a --yes", "DELETE /admin/1/containers/iCloud.a", ""),
    (
      "user create alice --email a@b --given-name A --family-name B", "POST /admin/1/users",
      #"{"name":"alice","email":"a@b","givenName":"A","familyName":"B"}"#
    ),
    ("user create alice --phone +4420", "POST /admin/1/users", #"{"name":"alice","phone":"+4420"}"#),
    ("share list", "GET /admin/1/shares", ""),
    ("share list --owner _a --container C", "GET /admin/1/shares?container=C&owner=_a", ""),
    (
      "share show --container C --environment production --owner _a --zone a/b",
      "GET /admin/1/participants?container=C&environment=production&owner=_a&zone=a%2Fb", ""
    ),
    (
      "share stop --container C --environment production --owner _a --zone Z --yes",
      "POST /admin/1/zone/C/production/_a/Z/unshare", "{}"
    ),
    (
      "share stop --container C --environment production --owner _a --zone Z --share S --yes",
      "POST /admin/1/zone/C/production/_a/Z/unshare", #"{"share":"S"}"#
    ),
    ("user disable a/b", "POST /admin/1/users/a%2Fb/disable", ""),
    ("user enable alice", "POST /admin/1/users/alice/enable", ""),
    ("user create a --discoverable", "POST /admin/1/users", #"{"name":"a","discoverable":true}"#),
    ("user update a --email a@b --discoverable no", "POST /admin/1/users/a", #"{"email":"a@b","discoverable":false}"#),
    ("rules export --container C", "GET /admin/1/rules/C/development", ""),
    ("duplicates list", "GET /admin/1/duplicates", ""),
    (
      "rules import r.json --container C --environment production --dry-run",
      "PUT /admin/1/rules/C/production?dryRun=true", ""
    ),
    ("shards accept 3", "POST /admin/1/shards/accept", #"{"what":"3"}"#),
    ("shards balance", "POST /admin/1/shards/balance", ""),
    ("shards balance --dry-run --limit 3", "POST /admin/1/shards/balance?dryRun=true&limit=3", ""),
    ("quarantine list", "GET /admin/1/quarantine", ""), ("quarantine retry", "POST /admin/1/quarantine/retry", ""),
    ("quarantine retry --container C --user _a", "POST /admin/1/quarantine/retry?container=C&user=_a", ""),
    ("session list", "GET /admin/1/sessions", ""), ("session list --user a", "GET /admin/1/sessions?user=a", ""),
    ("session revoke s", "DELETE /admin/1/sessions/s", ""),
    (
      "token create --container C --environment production --callback-url https://a/b", "POST /admin/1/tokens",
      #"{"container":"C","environment":"production","allowedOrigins":[],"callbackURL":"https://a/b"}"#
    ), ("user token alice", "POST /admin/1/users/alice/tokens", ""),
    ("user quota alice 1000", "PUT /admin/1/users/alice/quota", #"{"bytes":1000}"#),
    ("user quota alice default", "PUT /admin/1/users/alice/quota", #"{"bytes":null}"#),
    ("user quota alice 1GB", "PUT /admin/1/users/alice/quota", #"{"bytes":1000000000}"#),
    ("user quota alice 1GX", "PUT /admin/1/users/alice/quota", #"{"bytes":"1GX"}"#),
    (
      "role grant --container C --environment production --user a/b --role r", "POST /admin/1/roles",
      #"{"container":"C","environment":"production","user":"a/b","role":"r"}"#
    ),
    (
      "role revoke --container C --environment production --user a/b --role r",
      "DELETE /admin/1/roles/C/production/r/a%2Fb", ""
    ),
    ("role grant --user a --role operator", "POST /admin/1/roles", #"{"user":"a","role":"operator"}"#),
    (
      "role grant --container C --user a --role developer", "POST /admin/1/roles",
      #"{"container":"C","user":"a","role":"developer"}"#
    ), ("role revoke --user a --role operator", "DELETE /admin/1/roles/operator/a", ""),
    ("role revoke --container C --user a --role developer", "DELETE /admin/1/roles/C/developer/a", ""),
    ("role list", "GET /admin/1/roles", ""), ("role list --container C", "GET /admin/1/roles?container=C", ""),
    (
      "token create --container C --environment production --allowed-origin https://a", "POST /admin/1/tokens",
      #"{"container":"C","environment":"production","allowedOrigins":["https://a"]}"#
    ), ("token revoke T", "DELETE /admin/1/tokens/T", ""),
    ("schema export --container C", "GET /admin/1/schema/C/development", ""),
    ("schema export --container C --environment production", "GET /admin/1/schema/C/production", ""),
    ("schema promote --container C", "POST /admin/1/schema/C/development/promote", ""),
    (
      "schema promote --container C --dry-run --print-schema",
      "POST /admin/1/schema/C/development/promote?dryRun=true&printSchema=true", ""
    ),
    ("schema diff --container C", "GET /admin/1/schema/C/development/diff", ""), ("status", "GET /admin/1/status", ""),
    ("zones", "GET /admin/1/zones", ""),
    ("subscriptions", "GET /admin/1/subscriptions", ""),
    (
      "conflicts list --container C --owner _o --zone Z --state open --object a/b",
      "GET /admin/1/zone/C/development/_o/Z/conflicts?state=open&objectID=a%2Fb", ""
    ),
    (
      "conflicts restore 7 --container C --owner _o --zone Z", "POST /admin/1/zone/C/development/_o/Z/conflicts",
      #"{"number":7,"action":"restore"}"#
    ),
    (
      "conflicts resolve 7 --container C --owner _o --zone Z --pick client",
      "POST /admin/1/zone/C/development/_o/Z/conflicts",
      #"{"number":7,"action":"resolve","pick":"client"}"#
    ),
    (
      "conflicts resolve x --container C --owner _o --zone Z --value both",
      "POST /admin/1/zone/C/development/_o/Z/conflicts",
      #"{"number":"x","action":"resolve","value":"both"}"#
    ),
    (
      "audit --container C --owner _o --zone Z --record a/b --field CD_x",
      "GET /admin/1/zone/C/development/_o/Z/audit?recordName=a%2Fb&field=CD_x", ""
    ),
    (
      "zone purge --container C --owner _o --zone Z --yes", "POST /admin/1/zone/C/development/_o/Z/end",
      #"{"reason":"purged"}"#
    ),
    (
      "zone reset-encrypted --container C --environment production --owner _o --zone Z --yes",
      "POST /admin/1/zone/C/production/_o/Z/end",
      #"{"reason":"encryptedDataReset"}"#
    ),
    (
      "explain a/b --container C --environment production --user alice",
      "GET /admin/1/explain?container=C&environment=production&user=alice&object=a%2Fb", ""
    ),
    (
      "explain a --container C --environment production --user alice --public",
      "GET /admin/1/explain?container=C&environment=production&user=alice&object=a&scope=public", ""
    ),
  ])
  func `a command is one request`(line: String, request: String, body: String) throws {
    let call = try call(line)
    #expect("\(call.method) \(call.target)" == request)
    #expect(String(decoding: call.body, as: UTF8.self) == body)
  }

  @Test func `a key and a password are sent as they were read`() throws {
    let key = try call("key add --container C --public-key k.pem --name n", content: "-----BEGIN\n\"x\"\n")
    #expect(try JSONValue(parsing: key.body)["publicKey"]?.string == "-----BEGIN\n\"x\"\n")
    let owned = try call("key add --container C --public-key k.pem --user alice", content: "k")
    #expect(try JSONValue(parsing: owned.body)["user"]?.string == "alice")
    let changed = try call("user password a --password-stdin", content: "pass word")
    #expect("\(changed.method) \(changed.target)" == "POST /admin/1/users/a/password")
    #expect(String(decoding: changed.body, as: UTF8.self) == #"{"password":"pass word"}"#)
    let user = try call("user create a --password-stdin", content: "pass word")
    #expect(try JSONValue(parsing: user.body)["password"]?.string == "pass word")
  }

  @Test func `a model is pushed to the mirror API`() throws {
    guard
      case .run(let invocation) = try CommandLineParser.parse(
        [
          "model", "push", "P", "--container", "iCloud.a", "--environment", "development", "--configuration", "C & D",
          "--dry-run", "--print-schema",
        ])
    else { return }
    let call = AdminCall.pushModel(invocation, contents: [1, 2])
    #expect(call.method == "PUT")
    #expect(
      call.target == "/mirror/1/iCloud.a/development/model?configuration=C%20%26%20D&dryRun=true&printSchema=true")
    #expect(call.body == [1, 2])
  }

  @Test func `every byte but the unreserved ones is encoded`() {
    #expect(AdminCall.encoded("aZ0-._~ /?#%é") == "aZ0-._~%20%2F%3F%23%25%C3%A9")
  }
}

struct AnswerTextTests {
  private func text(_ json: String) throws -> String { AnswerText.text(try JSONValue(parsing: Array(json.utf8))) }

  @Test func `a list of objects is a table with numbers to the right`() throws {
    let expected = """
      NAME   ZONES  NOTE
      alice      7  a,b
      bo       123  -
      """
    #expect(
      try text(#"{"users":[{"name":"alice","zones":7,"note":["a","b"]},{"name":"bo","zones":123,"note":null}]}"#)
        == expected)
  }

  @Test func `other members are names and values`() throws {
    #expect(try text(#"{"userRecordName":"_a","isOperator":true}"#) == "userRecordName  _a\nisOperator      yes")
    #expect(try text("{}") == "done")
    #expect(try text(#"{"zones":[]}"#) == "none")
    #expect(try text(#"{"a":1,"zones":[{"x":{"y":[1]}}]}"#) == "a  1\n\nzones:\nX\n{\"y\":[1]}")
  }
}

extension AnswerTextTests {
  @Test func `a name that somebody chose neither fakes a line nor controls the terminal`() throws {
    let name = #"ada\u001b[2J\nbob"#
    let expected = "ada\u{FFFD}[2J\u{FFFD}bob"
    #expect(
      try text(#"{"registrations":[{"device":"\#(name)","tags":["\#(name)"]}]}"#)
        == "DEVICE       TAGS\n\(expected)  \(expected)")
    let event = try JSONValue(parsing: Array(#"{"store":"\#(name)"}"#.utf8))
    #expect(AnswerText.line(event) == "store=\(expected)")
    // A text of several lines, such as a schema, keeps them.
    #expect(try text(#"{"schema":"\#(name)"}"#) == "ada\u{FFFD}[2J\nbob")
  }

  @Test func `a name does not turn the direction of the text around it`() throws {
    let turned = try text(#"{"zones":[{"zone":"a\u202egpj.exe\u2066b\u2028c"}]}"#)
    #expect(turned == "ZONE\na\u{FFFD}gpj.exe\u{FFFD}b\u{FFFD}c")
    // Joiners are parts of words and of pictures.
    #expect(try text(#"{"zones":[{"zone":"a\u200db"}]}"#) == "ZONE\na\u{200D}b")
  }

  @Test func `a refusal that tells a stored name neither fakes a line nor controls the terminal`() {
    let body = #"""
      {"serverErrorCode":"EXISTS","reason":"there is a \u001b[2Jname",
      "problems":[{"entity":"Ta\u0007g","message":"is \u202ebad","suggestion":"re\u001bname"}]}
      """#
    #expect(
      Refusal.text(status: 409, body: Array(body.utf8), server: "http://s") == """
        there is a \u{FFFD}[2Jname (EXISTS)
          Ta\u{FFFD}g: is \u{FFFD}bad
            → re\u{FFFD}name
        """)
  }

  @Test func `times are shown in UTC, and other numbers as they are`() throws {
    #expect(
      try text(#"{"keys":[{"name":"a","created":1795712927976,"bytes":1795712927976,"lastUsed":null}]}"#)
        == "NAME  CREATED                       BYTES  LASTUSED\na     2026-11-26T17:08:47Z  1795712927976  -")
    #expect(try text(#"{"createdAt":-1,"expires":9007199254740991}"#) == "createdAt  -1\nexpires    9007199254740991")
    let event = try JSONValue(parsing: Array(#"{"startedAt":1795712927976,"endedAt":0}"#.utf8))
    #expect(AnswerText.line(event) == "startedAt=2026-11-26T17:08:47Z  endedAt=0")
  }
}

struct EventTailTests {
  private func answer(_ events: [(store: String, identifier: Int, endedAt: Int)]) -> [UInt8] {
    let rows = events.map { #"{"store":"\#($0.store)","identifier":\#($0.identifier),"endedAt":\#($0.endedAt)}"# }
    return Array(#"{"events":[\#(rows.joined(separator: ","))]}"#.utf8)
  }

  @Test func `every event is shown once, oldest first, also when it is reported late`() {
    var tail = EventTail()
    #expect(tail.after == 0)
    #expect(tail.fresh(in: answer([("b", 1, 20_000), ("a", 1, 10_000)])).map { $0["store"]?.string } == ["a", "b"])
    #expect(tail.after == 15_000)
    let late = tail.fresh(in: answer([("b", 1, 20_000), ("a", 2, 20_000), ("c", 1, 16_000)]))
    #expect(late.map { $0["store"]?.string } == ["c", "a"])
    #expect(tail.fresh(in: answer([("b", 1, 20_000), ("a", 2, 20_000), ("c", 1, 16_000)])).isEmpty)
    #expect(tail.fresh(in: Array("nonsense".utf8)).isEmpty)
    #expect(tail.after == 15_000)
  }
}
