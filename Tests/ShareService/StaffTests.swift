import Crypto
import JSON
import Records
import ServiceBus
import ServiceKit
import Testing

@testable import ShareService

private let other = "iCloud.org.example.other"

extension World {
  /// A world with two containers, and a user with a password.
  fileprivate static func withStaff() async throws -> World {
    let world = try await World.withContainer()
    try await world.ok("POST", "/admin/1/containers", #"{"container":"\#(other)"}"#)
    for name in ["carol", "dave", "erin"] {
      try await world.ok("POST", "/admin/1/users", #"{"name":"\#(name)","password":"a good password"}"#)
    }
    try await world.ok("POST", "/admin/1/roles", #"{"user":"carol","role":"operator"}"#)
    try await world.ok("POST", "/admin/1/roles", #"{"user":"dave","role":"developer","container":"\#(photos)"}"#)
    _ = world.published.take()
    return world
  }

  fileprivate func open(_ entry: OpenConsole.Entry, from address: String = "192.0.2.1") async throws
    -> OpenConsole.Reply
  {
    try await service.signIns.open(OpenConsole(entry, clientAddress: address))
  }

  fileprivate func session(of name: String) async throws -> String {
    try #require(try await open(.user(name: name, password: "a good password")).token)
  }

  fileprivate func member(_ token: String) async throws -> StaffMember? {
    try await authenticate(nil, nil, user: token).member
  }

  fileprivate static let dave = StaffMember(name: "dave", containers: [photos])
}

@Suite(.eachEngine) struct `Operators and developers` {
  @Test func `the roles are granted, told and revoked`() async throws {
    let world = try await World.withStaff()
    let rows = try await world.ok("GET", "/admin/1/roles")["roles"]?.elements ?? []
    #expect(rows.map { $0["user"]?.string } == ["carol", "dave"])
    #expect(rows.map { $0["role"]?.string } == ["operator", "developer"])
    #expect(rows.map { $0["container"]?.string } == [nil, World.photos])
    #expect(rows.allSatisfy { $0["environment"] == nil })
    let (carol, dave) = (try await world.session(of: "carol"), try await world.session(of: "dave"))
    #expect(try await world.member(carol) == StaffMember(name: "carol", containers: nil))
    #expect(try await world.member(dave) == World.dave)
    try await world.ok("POST", "/admin/1/roles", #"{"user":"dave","role":"developer","container":"\#(other)"}"#)
    #expect(try await world.member(dave)?.containers == [other, World.photos])
    #expect(world.published.take().map(\.credentials) == [true])
    for container in [other, World.photos] {
      try await world.ok("DELETE", "/admin/1/roles/\(container)/developer/dave")
    }
    #expect(try await world.member(dave) == nil)
    #expect(try await world.authenticate(nil, nil, user: dave).refusal == .userToken)
    try await world.ok("DELETE", "/admin/1/roles/operator/carol")
    #expect(try await world.member(carol) == nil)
  }

  @Test func `a role that is neither, or of somebody unknown, is refused`() async throws {
    let world = try await World.withStaff()
    for (body, status) in [
      (#"{"user":"erin","role":"owner"}"#, 400), (#"{"user":"erin","role":"developer"}"#, 400),
      (#"{"user":"erin","role":"operator","container":"\#(World.photos)"}"#, 400),
      (#"{"user":"nobody","role":"operator"}"#, 404),
      (#"{"user":"erin","role":"developer","container":"iCloud.none"}"#, 404),
    ] {
      try await world.refused("POST", "/admin/1/roles", body, status: status)
    }
    try await world.refused("DELETE", "/admin/1/roles/operator/erin", status: 404)
    try await world.refused("DELETE", "/admin/1/roles/\(other)/developer/dave", status: 404)
  }

  @Test func `a role goes with its user and its container`() async throws {
    let world = try await World.withStaff()
    try await world.ok("DELETE", "/admin/1/containers/\(World.photos)")
    try await world.ok("DELETE", "/admin/1/users/carol")
    #expect(try await world.ok("GET", "/admin/1/roles")["roles"]?.count == 0)
  }
}

@Suite(.eachEngine) struct `Sessions of the console` {
  @Test func `each sign-in draws another identifier, which lasts eight hours`() async throws {
    let world = try await World.withStaff()
    let (first, second) = (try await world.session(of: "carol"), try await world.session(of: "carol"))
    #expect(first != second && first.count == 132 && first.hasPrefix("con_"))
    world.clock.advance(by: 8 * 3_600_000 - 60_000)
    #expect(try await world.member(first)?.name == "carol")
    world.clock.advance(by: 120_000)
    #expect(try await world.member(first) == nil)
    #expect(try await world.member(second) == nil)
  }

  @Test func `a sign-out ends one session, and the others go on`() async throws {
    let world = try await World.withStaff()
    let (first, second) = (try await world.session(of: "carol"), try await world.session(of: "carol"))
    #expect(try await world.service.directory.closeConsole(first))
    #expect(try await !world.service.directory.closeConsole(first))
    #expect(try await world.member(first) == nil)
    #expect(try await world.member(second)?.name == "carol")
  }

  @Test(arguments: [
    ("POST", "/admin/1/users/carol/password", #"{"password":"another password"}"#),
    ("POST", "/admin/1/users/carol/disable", ""), ("DELETE", "/admin/1/users/carol", ""),
    ("DELETE", "/admin/1/roles/operator/carol", ""),
  ])
  func `a session ends with what it was opened with`(method: String, path: String, body: String) async throws {
    let world = try await World.withStaff()
    let token = try await world.session(of: "carol")
    try await world.ok(method, path, body)
    #expect(try await world.member(token) == nil)
  }

  @Test func `the operator token opens a session that ends when the token changes`() async throws {
    let world = try await World.withStaff()
    let token = try #require(try await world.open(.operatorToken(World.operatorToken)).token)
    #expect(try await world.member(token) == .tokenHolder)
    await world.service.close()
    var configuration = ShareService.Configuration(dataPath: world.folder.path, operatorToken: "another operator token")
    configuration.passwordCost = .cheapest
    let later = try ShareService(configuration, clock: world.clock, random: SeededRandom(seed: 5), log: .silent)
    let question = Authenticate(container: nil, environment: nil, apiToken: nil, userToken: token)
    #expect(try await later.directory.authenticate(question).refusal == .userToken)
    await later.close()
  }

  @Test func `a wrong password, no role and many guesses open nothing`() async throws {
    let world = try await World.withStaff()
    let wrong = try await world.open(.user(name: "carol", password: "a wrong password"))
    #expect(wrong.token == nil && !wrong.lacksRole && wrong.retryAfter == nil)
    let userOnly = try await world.open(.user(name: "erin", password: "a good password"))
    #expect(userOnly.token == nil && userOnly.lacksRole)
    func guess() async throws -> OpenConsole.Reply {
      try await world.open(.operatorToken("a guess at the token"), from: "192.0.2.7")
    }
    for _ in 0..<29 {
      let wrong = try await guess()
      #expect(wrong.token == nil && wrong.retryAfter == nil)
    }
    #expect(
      try await world.open(.operatorToken(World.operatorToken), from: "192.0.2.7").token != nil,
      "many operators share an address")
    #expect(try await guess().retryAfter == nil)
    // What of the thirty has drained meanwhile leaves room for one more.
    _ = try await guess()
    #expect(try await guess().retryAfter != nil)
    #expect(try await world.open(.operatorToken(World.operatorToken), from: "192.0.2.7").token == nil)
    #expect(try await world.open(.operatorToken(World.operatorToken), from: "192.0.2.8").token != nil)
  }

  @Test func `a session's token is no credential of the planes`() async throws {
    let world = try await World.withStaff()
    let token = try await world.session(of: "carol")
    #expect(try await world.authenticate(user: token).refusal == .userToken)
    let api = try await world.apiToken()
    #expect(try await world.authenticate(api: api, user: token).refusal == .userToken)
  }
}

@Suite(.eachEngine) struct `What a developer may do` {
  private static let allowed: [(String, String, String, [String: String])] =
    [
      ("GET", "containers", "", [:]), ("POST", "containers/\(World.photos)", #"{"displayName":"Photos"}"#, [:]),
      ("GET", "tokens", "", ["container": World.photos]),
      ("POST", "tokens", #"{"container":"\#(World.photos)","environment":"development"}"#, [:]),
      ("GET", "keys", "", ["container": World.photos]), ("GET", "sessions", "", ["container": World.photos]),
      ("GET", "roles", "", ["container": World.photos]), ("GET", "users", "", ["container": World.photos]),
      ("GET", "usage", "", ["container": World.photos]), ("GET", "shares", "", ["container": World.photos]),
      ("GET", "audit", "", ["container": World.photos]), ("GET", "schema/\(World.photos)/development", "", [:]),
      ("GET", "schema/\(World.photos)/development/diff", "", [:]),
      ("POST", "schema/\(World.photos)/development/promote", "", ["dryRun": "true"]),
      ("GET", "rules/\(World.photos)/production", "", [:]), ("GET", "models/\(World.photos)/development", "", [:]),
      ("GET", "pings", "", ["container": World.photos]),
      (
        "GET", "explain", "",
        ["container": World.photos, "environment": "development", "user": "erin", "object": "an object"]
      ),
    ]
    + [
      "stores", "zones", "registrations", "sign-ins", "subscriptions", "events", "quarantine", "duplicates",
      "participants",
    ].map {
      ("GET", $0, "", ["container": World.photos])
    }

  @Test func `every noun of the API has a row in one of the tables`() {
    let rows = Self.allowed.map(\.1) + Self.refused.map(\.1)
    let nouns = Set(rows.map { String($0.prefix { $0 != "/" }) })
    for noun in OperatorNoun.allCases { #expect(nouns.contains(noun.rawValue), "\(noun)") }
  }

  @Test(arguments: allowed)
  func `calls on the own container are answered, and on another one refused`(
    method: String, noun: String, body: String, query: [String: String]
  ) async throws {
    let world = try await World.withStaff()
    let own = await world.call(method, "/admin/1/\(noun)", body, query: query, member: World.dave)
    #expect(own.status == 200, "\(String(decoding: own.body, as: UTF8.self))")
    guard noun != "containers" else { return }
    let foreign = await world.call(
      method, "/admin/1/\(noun.replacing(World.photos, with: other))", body.replacing(World.photos, with: other),
      query: query.mapValues { $0.replacing(World.photos, with: other) }, member: World.dave)
    #expect(foreign.status == 403)
    if !query.isEmpty, query["container"] != nil {
      #expect(await world.call(method, "/admin/1/\(noun)", body, member: World.dave).status == 403)
    }
  }

  private static let refused: [(String, String, String)] = [
    ("POST", "containers", #"{"container":"iCloud.new"}"#), ("DELETE", "containers/\(World.photos)", ""),
    ("GET", "users/erin", ""), ("POST", "users", #"{"name":"new"}"#), ("POST", "users/erin/disable", ""),
    ("POST", "users/erin/sign-out", ""),
    ("POST", "users/erin/password", #"{"password":"a long password"}"#), ("POST", "users/erin/tokens", ""),
    ("PUT", "users/erin/quota", #"{"bytes":1}"#), ("DELETE", "users/erin", ""),
    ("POST", "roles", #"{"user":"dave","role":"operator"}"#),
    ("POST", "roles", #"{"user":"erin","role":"developer","container":"\#(World.photos)"}"#),
    ("DELETE", "roles/operator/carol", ""), ("DELETE", "roles/\(World.photos)/developer/dave", ""),
    ("GET", "status", ""), ("GET", "workers", ""), ("GET", "shards", ""), ("GET", "sample", ""), ("GET", "history", ""),
    ("GET", "logs", ""), ("GET", "backup", ""), ("POST", "backup", #"{"directory":"/x"}"#), ("POST", "scrub", ""),
    ("POST", "verification", #"{"directory":"/x"}"#), ("GET", "verification", ""),
    ("GET", "backups", ""), ("GET", "identities", ""), ("DELETE", "identities/work", ""),
    ("POST", "identities", #"{"name":"work","preset":"google","clientID":"a"}"#), ("GET", "invitations", ""),
    ("GET", "mail", ""), ("PUT", "mail", ""), ("PUT", "mail/template", ""), ("GET", "mail/sent", ""),
    ("DELETE", "mail/refusals/a@example.org", ""),
    ("GET", "push-services", ""), ("POST", "push-services", #"{"name":"servers","kind":"webhook"}"#),
    ("DELETE", "push-services/servers", ""), ("DELETE", "registrations/1", ""),
    ("POST", "invitations", #"{"email":"ada@example.org"}"#), ("DELETE", "invitations/ada@example.org", ""),
    ("POST", "shards/accept", #"{"what":"all"}"#), ("POST", "shards/0/move", #"{"to":"main"}"#),
    ("POST", "quarantine/retry", ""), ("GET", "fields", ""),
    ("DELETE", "tokens/abcdefgh", ""), ("DELETE", "keys/abcdefgh", ""), ("DELETE", "sessions/abcdefgh", ""),
  ]

  @Test(arguments: refused)
  func `calls on the installation and its people are refused`(method: String, noun: String, body: String) async throws {
    let world = try await World.withStaff()
    let answer = await world.call(method, "/admin/1/\(noun)", body, member: World.dave)
    #expect(answer.status == 403, "\(String(decoding: answer.body, as: UTF8.self))")
    #expect(world.published.take().isEmpty && world.reports.questions.isEmpty)
  }

  @Test func `the list of containers has only the developer's own`() async throws {
    let world = try await World.withStaff()
    let answer = await world.call("GET", "/admin/1/containers", member: World.dave)
    let names = try JSONValue(parsing: answer.body)["containers"]?.elements.compactMap { $0["container"]?.string }
    #expect(names == [World.photos])
    #expect(try await world.ok("GET", "/admin/1/containers")["containers"]?.count == 2)
  }

  @Test func `credentials of another container are not revoked, the own ones are`() async throws {
    let world = try await World.withStaff()
    let own = try await world.apiToken()
    let foreign = try #require(
      try await world.ok("POST", "/admin/1/tokens", #"{"container":"\#(other)","environment":"production"}"#)[
        "apiToken"]?
        .string)
    for token in [foreign, String(foreign.prefix(8))] {
      #expect(await world.call("DELETE", "/admin/1/tokens/\(token)", member: World.dave).status == 403)
    }
    #expect(await world.call("DELETE", "/admin/1/tokens/\(own)", member: World.dave).status == 200)
    let left = try await world.ok("GET", "/admin/1/tokens")["tokens"]?.elements ?? []
    #expect(left.map { $0["container"]?.string } == [other])
  }
}

@Suite(.eachEngine) struct `The audit of operator calls` {
  @Test func `each change is there with its person, its outcome and no secret, and no look is`() async throws {
    let world = try await World.withStaff()
    let token = try await world.apiToken()
    let before = try await world.ok("GET", "/admin/1/audit", query: ["limit": "1"])["acts"]?.elements.first?["number"]?
      .int64
    _ = await world.call("GET", "/admin/1/tokens", query: ["container": World.photos], member: World.dave)
    _ = await world.call("DELETE", "/admin/1/tokens/\(token)", member: World.dave)
    _ = await world.call("DELETE", "/admin/1/containers/\(other)", member: World.dave)
    _ = await world.call(
      "POST", "/admin/1/users/erin/password", #"{"password":"a secret password"}"#,
      member: StaffMember(name: "carol", containers: nil))
    // A mistyped call is noted, too.
    #expect(await world.call("DELETE", "/admin/1/tokens/\(token)/\(token)").status == 405)
    _ = await world.call("DELETE", "/admin/1/users/nobody")
    let all = await world.call("GET", "/admin/1/audit")
    #expect(!String(decoding: all.body, as: UTF8.self).contains(token))
    let answer = await world.call("GET", "/admin/1/audit", query: ["limit": "4"])
    let text = String(decoding: answer.body, as: UTF8.self)
    #expect(!text.contains(token) && !text.contains("secret"))
    let acts = try JSONValue(parsing: answer.body)["acts"]?.elements ?? []
    #expect(acts.map { $0["name"]?.string } == ["_operator", "_operator", "carol", "dave"])
    #expect(acts.map { $0["role"]?.string } == ["operator", "operator", "operator", "developer"])
    #expect(acts.map { $0["status"]?.int64 } == [404, 405, 200, 200])
    #expect(acts[3]["path"]?.string == "/admin/1/tokens/\(token.prefix(8))…")
    #expect(acts[3]["container"]?.string == World.photos && acts[2]["container"] == nil)
    let after = try #require(acts[3]["number"]?.int64)
    #expect(try JSONValue(parsing: answer.body)["after"]?.int64 == after && after - 1 == before)
    let page = try await world.ok("GET", "/admin/1/audit", query: ["after": "\(after)", "limit": "1"])
    #expect(page["acts"]?.elements.first?["number"]?.int64 == before)
  }

  @Test func `a developer reads the acts on the own container alone`() async throws {
    let world = try await World.withStaff()
    for container in [World.photos, other] {
      try await world.ok("POST", "/admin/1/tokens", #"{"container":"\#(container)","environment":"development"}"#)
    }
    let answer = await world.call("GET", "/admin/1/audit", query: ["container": World.photos], member: World.dave)
    let acts = try JSONValue(parsing: answer.body)["acts"]?.elements ?? []
    #expect(acts.count == 1 && acts.allSatisfy { $0["container"]?.string == World.photos })
  }

  @Test func `the earliest acts are forgotten beyond the limit`() async throws {
    let world = try await World.withStaff()
    let directory = world.service.directory
    let act = NoteAct.Act(.tokenHolder, container: nil, method: "POST", path: ["a"], query: [:])
    let first = try await directory.begin(act)
    for _ in 0..<4 { _ = try await directory.begin(act, keeping: 2) }
    let numbers = try await directory.acts(in: nil, before: nil, limit: 100).map(\.number)
    #expect(numbers == [first + 4, first + 3])
  }
}
