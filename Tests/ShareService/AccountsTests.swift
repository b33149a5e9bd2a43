import Foundation
import JSON
import ObjectModel
import Records
import ServiceBus
import Testing

@testable import ShareService

@Suite(.eachEngine) struct AccountsTests {
  @Test func `containers are created, listed and deleted`() async throws {
    let world = try World()
    #expect(
      try await world.ok("POST", "/admin/1/containers", #"{"container":"iCloud.b"}"#)["container"]?.string == "iCloud.b"
    )
    try await world.ok("POST", "/admin/1/containers", #"{"container":"iCloud.a"}"#)
    let listed = try await world.ok("GET", "/admin/1/containers")["containers"]?.elements ?? []
    #expect(listed.map { $0["container"]?.string } == ["iCloud.a", "iCloud.b"])
    #expect(try await world.ok("DELETE", "/admin/1/containers/iCloud.a")["container"]?.string == "iCloud.a")
    #expect(try await world.ok("GET", "/admin/1/containers")["containers"]?.count == 1)
    #expect(
      try await world.refused("DELETE", "/admin/1/containers/iCloud.a", status: 404)["reason"]?.string
        == "There is no container 'iCloud.a'")
  }

  @Test func `a container exists once`() async throws {
    let world = try await World.withContainer()
    let error = try await world.refused(
      "POST", "/admin/1/containers", #"{"container":"\#(World.photos)"}"#, status: 409)
    #expect(error["serverErrorCode"]?.string == "EXISTS")
    #expect(world.published.take().isEmpty)
  }

  @Test func `a deleted container takes its tokens, keys, schemas and models along`() async throws {
    let world = try await World.withContainer()
    let token = try await world.apiToken()
    try await world.ok("PUT", "/mirror/1/\(World.photos)/development/model", modelXML())
    try await world.ok("DELETE", "/admin/1/containers/\(World.photos)")
    #expect(try await world.authenticate(api: token).refusal == .container)
    try await world.ok("POST", "/admin/1/containers", #"{"container":"\#(World.photos)"}"#)
    #expect(try await world.authenticate(api: token).refusal == .apiToken)
    #expect(try await world.schema().models.isEmpty)
    #expect(try await world.schema().schema.recordType(named: "CD_Post") == nil)
  }

  @Test func `a user gets a record name and a token of the documented forms`() async throws {
    let world = try await World.withContainer()
    let alice = try await world.user("alice")
    #expect(alice.recordName.wholeMatch(of: /_[0-9a-f]{32}/) != nil)
    #expect(alice.token.wholeMatch(of: /[A-Za-z0-9+\/=_]{100,}/) != nil)
    let reply = try await world.authenticate(user: alice.token)
    #expect(reply.refusal == nil && reply.userRecordName == alice.recordName && !reply.isOperator)
  }

  @Test func `a user is looked up with the names the operator gave`() async throws {
    let world = try World()
    let body = #"{"name":"alice","email":"alice@example.org","givenName":"Alice","familyName":"Liddell"}"#
    let name = try #require(try await world.ok("POST", "/admin/1/users", body)["userRecordName"]?.string)
    let reply = try await world.service.directory.lookUp(LookUpUser(userRecordName: name))
    #expect(
      reply.givenName == "Alice" && reply.familyName == "Liddell" && reply.emailAddress == "alice@example.org"
        && reply.userRecordName == name)
    await #expect(throws: RecordError.self) {
      try await world.service.directory.lookUp(LookUpUser(userRecordName: "_nobody"))
    }
    let bob = try #require(try await world.ok("POST", "/admin/1/users", #"{"name":"bob"}"#)["userRecordName"]?.string)
    _ = try await world.ok("POST", "/admin/1/users/bob/disable")
    await #expect(throws: RecordError.self) {
      try await world.service.directory.lookUp(LookUpUser(userRecordName: bob))
    }
    let row = try #require(try await world.ok("GET", "/admin/1/users")["users"]?.elements.first)
    #expect(row["name"]?.string == "alice" && row["userRecordName"]?.string == name && row["disabled"]?.bool == false)
  }

  @Test func `names and e-mail addresses are taken once`() async throws {
    let world = try World()
    try await world.ok("POST", "/admin/1/users", #"{"name":"alice","email":"A@example.org"}"#)
    #expect(
      try await world.refused("POST", "/admin/1/users", #"{"name":"alice"}"#, status: 409)["reason"]?.string
        == "The user 'alice' exists already")
    let error = try await world.refused(
      "POST", "/admin/1/users", #"{"name":"bob","email":"a@EXAMPLE.org"}"#, status: 409)
    #expect(error["reason"]?.string == "Another user has this e-mail address")
    #expect(try await world.ok("GET", "/admin/1/users")["users"]?.count == 1)
  }

  @Test func `a further token is as good as the first, by either name of the user`() async throws {
    let world = try await World.withContainer()
    let alice = try await world.user("alice")
    for name in ["alice", alice.recordName] {
      let answer = try await world.ok("POST", "/admin/1/users/\(name)/tokens")
      #expect(answer["userRecordName"]?.string == alice.recordName)
      let token = try #require(answer["webAuthToken"]?.string)
      #expect(token != alice.token)
      #expect(try await world.authenticate(user: token).userRecordName == alice.recordName)
    }
    #expect(try await world.authenticate(user: alice.token).userRecordName == alice.recordName)
    #expect(
      try await world.refused("POST", "/admin/1/users/zoe/tokens", status: 404)["reason"]?.string
        == "There is no user 'zoe'")
  }

  @Test func `a disabled user is refused at once, with every token, and gets no more`() async throws {
    let world = try await World.withContainer()
    let (alice, bob) = (try await world.user("alice"), try await world.user("bob"))
    _ = world.published.take()
    #expect(try await world.ok("POST", "/admin/1/users/alice/disable")["userRecordName"]?.string == alice.recordName)
    #expect(world.published.take().map(\.credentials) == [true])
    #expect(try await world.authenticate(user: alice.token).refusal == .userToken)
    #expect(try await world.authenticate(user: bob.token).refusal == nil)
    try await world.refused("POST", "/admin/1/users/alice/tokens", status: 400)
    try await world.refused("POST", "/admin/1/users/zoe/disable", status: 404)
    #expect(
      try await world.ok("GET", "/admin/1/users")["users"]?.elements.map { $0["disabled"]?.bool } == [true, false])
  }

  @Test func `an API token is good for its container and environment`() async throws {
    let world = try await World.withContainer()
    try await world.ok("POST", "/admin/1/containers", #"{"container":"iCloud.other"}"#)
    let token = try await world.apiToken()
    #expect(token.wholeMatch(of: /[0-9a-f]{64}/) != nil)
    #expect(try await world.authenticate(api: token).refusal == nil)
    #expect(try await world.authenticate(api: token).userRecordName == nil)
    #expect(try await world.authenticate(api: token.uppercased()).refusal == nil)
    #expect(try await world.authenticate(World.photos, .production, api: token).refusal == .apiToken)
    #expect(try await world.authenticate("iCloud.other", api: token).refusal == .apiToken)
    #expect(try await world.authenticate("iCloud.unknown", api: token).refusal == .container)
    #expect(try await world.authenticate(api: String(token.dropLast())).refusal == .apiToken)
    #expect(try await world.authenticate().refusal == .apiToken)
  }

  @Test func `both credentials must be good`() async throws {
    let world = try await World.withContainer()
    let (token, alice) = (try await world.apiToken(), try await world.user("alice"))
    #expect(try await world.authenticate(api: token, user: alice.token).userRecordName == alice.recordName)
    #expect(try await world.authenticate(api: "00", user: alice.token).refusal == .apiToken)
    #expect(try await world.authenticate(api: token, user: "nonsense").refusal == .userToken)
    #expect(try await world.authenticate(user: "").refusal == .userToken)
  }

  @Test func `the operator's token is an operator's everywhere, and needed where there is no container`() async throws {
    let world = try await World.withContainer()
    let alice = try await world.user("alice")
    #expect(try await world.authenticate(nil, nil, user: World.operatorToken).isOperator)
    #expect(try await world.authenticate(user: World.operatorToken).isOperator)
    #expect(try await world.authenticate("iCloud.unknown", user: World.operatorToken).refusal == .container)
    #expect(try await world.authenticate(nil, nil, user: alice.token).refusal == .userToken)
    #expect(try await world.authenticate(nil, nil).refusal == .userToken)
    #expect(try await world.authenticate(nil, nil, user: World.operatorToken + " ").refusal == .userToken)
  }

  @Test func `API tokens are listed shortened, with their origins, and revoked whole or by what is shown`() async throws
  {
    let world = try await World.withContainer()
    let body =
      #"""
      {"container":"\#(World.photos)","environment":"production","allowedOrigins":["https://example.org",\#
      "http://localhost:3000"]}
      """#
    let token = try #require(try await world.ok("POST", "/admin/1/tokens", body)["apiToken"]?.string)
    let other = try await world.apiToken()
    #expect(
      try await world.authenticate(World.photos, .production, api: token).allowedOrigins == [
        "https://example.org", "http://localhost:3000",
      ])
    let rows = try await world.ok("GET", "/admin/1/tokens")["tokens"]?.elements ?? []
    #expect(rows.map { $0["apiToken"]?.string } == [token.prefix(8) + "…", other.prefix(8) + "…"])
    #expect(rows[0]["environment"]?.string == "production")
    #expect(rows[0]["allowedOrigins"]?.elements.map(\.string) == ["https://example.org", "http://localhost:3000"])
    _ = world.published.take()
    try await world.ok("DELETE", "/admin/1/tokens/\(token)")
    #expect(world.published.take().map(\.credentials) == [true])
    #expect(try await world.authenticate(World.photos, .production, api: token).refusal == .apiToken)
    try await world.ok("DELETE", "/admin/1/tokens/\(other.prefix(8))")
    #expect(try await world.authenticate(api: other).refusal == .apiToken)
    #expect(
      try await world.refused("DELETE", "/admin/1/tokens/\(other)", status: 404)["reason"]?.string?.contains(other)
        == false)
  }

  @Test func `a web-auth token is revoked alone`() async throws {
    let world = try await World.withContainer()
    let alice = try await world.user("alice")
    let second = try #require(try await world.ok("POST", "/admin/1/users/alice/tokens")["webAuthToken"]?.string)
    try await world.ok("DELETE", "/admin/1/tokens/\(alice.token)")
    #expect(try await world.authenticate(user: alice.token).refusal == .userToken)
    #expect(try await world.authenticate(user: second).refusal == nil)
  }

  /// Made with `openssl ecparam -name prime256v1 -genkey`; the private key does not exist any more.
  static let publicKey = """
    -----BEGIN PUBLIC KEY-----
    MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEKyhm84moHpqJPzSpauU51HHr83KU
    V3OxzLYwh3997MfSgFsZXnwH3HOeZmQHK0ZJ0zcEdx6e0iiVxdqSI0kuGQ==
    -----END PUBLIC KEY-----

    """
  static let otherCurve = """
    -----BEGIN PUBLIC KEY-----
    MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAETh9dLnYtI5x1llcOX/kJC3nO8PfpNvt8
    6Gc2f/fY8Ns/KAFxlYF19xyuihWk/FOt9t/EMQvrD9ZVeuiN3OesAjR/tFcjMq8W
    SIoThVk8244idNPYKgEJnOv+wxb1Upi1
    -----END PUBLIC KEY-----

    """

  @Test func `keys are checked, listed and revoked`() async throws {
    let world = try await World.withContainer()
    func body(_ pem: String) -> String {
      #"{"container":"\#(World.photos)","name":"ci","publicKey":"\#(pem.replacingOccurrences(of: "\n", with: "\\n"))"}"#
    }
    let keyID = try #require(try await world.ok("POST", "/admin/1/keys", body(Self.publicKey))["keyID"]?.string)
    #expect(keyID.wholeMatch(of: /[0-9a-f]{64}/) != nil)
    let row = try #require(try await world.ok("GET", "/admin/1/keys")["keys"]?.elements.first)
    #expect(row["keyID"]?.string == keyID && row["name"]?.string == "ci" && row["container"]?.string == World.photos)
    for bad in [
      "", "nonsense", Self.otherCurve, String(Self.publicKey.dropFirst(30)),
      Self.publicKey.replacingOccurrences(of: "PUBLIC", with: "PRIVATE"),
    ] {
      try await world.refused("POST", "/admin/1/keys", body(bad), status: 400)
    }
    try await world.ok("DELETE", "/admin/1/keys/\(keyID)")
    try await world.refused("DELETE", "/admin/1/keys/\(keyID)", status: 404)
    #expect(try await world.ok("GET", "/admin/1/keys")["keys"]?.count == 0)
  }

  struct BadCall: Sendable, CustomTestStringConvertible {
    let method: String
    let path: String
    let body: String
    let status: Int
    let reason: String
    init(_ method: String, _ path: String, _ body: String, _ status: Int, _ reason: String) {
      (self.method, self.path, self.body, self.status, self.reason) = (method, path, body, status, reason)
    }
    var testDescription: String { "\(method) \(path) \(body)" }
  }

  @Test(arguments: [
    BadCall("GET", "/admin/1", "", 404, "no operator call"),
    BadCall("GET", "/admin/2/users", "", 404, "no operator call"),
    BadCall("GET", "/admin/1/nonsense", "", 404, "no operator call"),
    BadCall("PUT", "/admin/1/containers", "", 405, "takes no PUT"),
    BadCall("DELETE", "/admin/1/containers", "", 405, "takes no DELETE"),
    BadCall("POST", "/admin/1/containers", "", 400, "'container' is missing"),
    BadCall("POST", "/admin/1/containers", "[]", 400, "JSON object"),
    BadCall("POST", "/admin/1/containers", "{", 400, "not JSON"),
    BadCall("POST", "/admin/1/containers", #"{"container":"a b"}"#, 400, "'a b' is not a container ID"),
    BadCall("POST", "/admin/1/containers", #"{"container":7}"#, 400, "'container' must be a string"),
    BadCall("POST", "/admin/1/containers", #"{"container":"x","extra":1}"#, 400, "'extra' is not a key"),
    BadCall("DELETE", "/admin/1/containers/a b", "", 404, "no container 'a b'"),
    BadCall("POST", "/admin/1/users", "{}", 400, "'name' is missing"),
    BadCall("POST", "/admin/1/users", #"{"name":""}"#, 400, "1 to 255 bytes"),
    BadCall("POST", "/admin/1/users", #"{"name":"_x"}"#, 400, "can't begin with '_'"),
    BadCall("POST", "/admin/1/users", #"{"name":"a\u0007"}"#, 400, "control characters"),
    BadCall("POST", "/admin/1/users", #"{"name":"x","email":"nowhere"}"#, 400, "not an e-mail address"),
    BadCall("POST", "/admin/1/users", #"{"name":"x","email":"a@b@c"}"#, 400, "not an e-mail address"),
    BadCall("POST", "/admin/1/users/x/nonsense", "", 405, "takes no POST"),
    BadCall("POST", "/admin/1/tokens", #"{"environment":"production"}"#, 400, "'container' is missing"),
    BadCall(
      "POST", "/admin/1/tokens", #"{"container":"iCloud.none","environment":"production"}"#, 404,
      "no container 'iCloud.none'"),
    BadCall("POST", "/admin/1/tokens", #"{"container":"iCloud.none","environment":"staging"}"#, 400, "not 'staging'"),
    BadCall(
      "POST", "/admin/1/tokens", #"{"container":"x","environment":"production","allowedOrigins":["https://a/b"]}"#, 400,
      "'https://a/b' is not an origin"),
    BadCall(
      "POST", "/admin/1/tokens", #"{"container":"x","environment":"production","allowedOrigins":"*"}"#, 400,
      "must be an array"),
    BadCall("POST", "/admin/1/keys", #"{"container":"x"}"#, 400, "'publicKey' is missing"),
    BadCall("GET", "/admin/1/schema/iCloud.none/development", "", 404, "no container 'iCloud.none'"),
    BadCall("GET", "/admin/1/schema/iCloud.none/staging", "", 400, "not 'staging'"),
    BadCall("GET", "/admin/1/schema/iCloud.none", "", 404, "no operator call"),
    BadCall("GET", "/mirror/1/iCloud.none/development", "", 404, "no operator call"),
    BadCall("GET", "/mirror/1/iCloud.none/development/nonsense", "", 404, "no operator call"),
  ]) func `a wrong call is refused by name`(call: BadCall) async throws {
    let error = try await World().refused(call.method, call.path, call.body, status: call.status)
    #expect(error["reason"]?.string?.contains(call.reason) == true, "\(error["reason"]?.string ?? "")")
  }
}
