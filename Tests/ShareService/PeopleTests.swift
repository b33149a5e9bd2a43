import JSON
import Records
import RecordStore
import SQLite
import ServiceBus
import SigningKeys
import Testing

@testable import ShareService

@Suite(.eachEngine) struct PeopleTests {
  private func discover(_ lookups: [DiscoverUsers.Lookup], by caller: String, in world: World) async throws
    -> [LookUpUser.Reply?]
  {
    try await world.service.directory.discover(DiscoverUsers(caller: caller, lookups: lookups)).users
  }

  @Test func `only who wants to be found is found, and his address is shown to who knows it`() async throws {
    let world = try World()
    func make(_ name: String, _ more: String) async throws -> String {
      try #require(
        try await world.ok("POST", "/admin/1/users", #"{"name":"\#(name)","email":"\#(name)@example.org"\#(more)}"#)[
          "userRecordName"]?.string)
    }
    let (alice, bob, carol) = (
      try await make("alice", #","discoverable":true,"givenName":"Alice""#), try await make("bob", ""),
      try await make("carol", #","discoverable":true"#)
    )
    try await world.ok("POST", "/admin/1/users/carol/disable")
    let byName = try await discover(
      [alice, bob, carol, "_nobody"].map { .init(userRecordName: $0) }, by: bob, in: world)
    #expect(byName.map { $0?.userRecordName } == [alice, bob, nil, nil])
    #expect(byName[0]?.givenName == "Alice" && byName[0]?.emailAddress == nil)
    #expect(byName[1]?.emailAddress == "bob@example.org", "his own")
    let byAddress = try await discover(
      ["ALICE@example.org", "bob@example.org", "carol@example.org", ""].map { .init(emailAddress: $0) } + [.init()],
      by: alice, in: world)
    #expect(byAddress.map { $0?.userRecordName } == [alice, nil, nil, nil, nil])
    #expect(byAddress[0]?.emailAddress == "alice@example.org")
  }

  @Test func `an operator changes what is known of somebody`() async throws {
    let world = try World()
    let alice = try await world.user("alice").recordName
    _ = try await world.user("bob")
    try await world.ok(
      "POST", "/admin/1/users/alice", #"{"email":"a@example.org","givenName":"Alice","discoverable":true}"#)
    try await world.ok("POST", "/admin/1/users/alice", #"{"familyName":"Liddell"}"#)
    let row = try #require(try await world.ok("GET", "/admin/1/users")["users"]?.elements.first)
    #expect(
      row["email"]?.string == "a@example.org" && row["givenName"]?.string == "Alice"
        && row["familyName"]?.string == "Liddell")
    #expect(row["discoverable"]?.bool == true && row["password"]?.bool == false)
    #expect(try await discover([.init(userRecordName: alice)], by: "_x", in: world).first??.givenName == "Alice")
    try await world.ok("POST", "/admin/1/users/alice", #"{"discoverable":false}"#)
    #expect(try await discover([.init(userRecordName: alice)], by: "_x", in: world).compactMap(\.self).isEmpty)
    try await world.refused("POST", "/admin/1/users/bob", #"{"email":"A@example.org"}"#, status: 409)
    try await world.refused("POST", "/admin/1/users/bob", #"{"discoverable":"yes"}"#, status: 400)
    try await world.refused("POST", "/admin/1/users/bob", #"{"name":"x"}"#, status: 400)
    try await world.refused("POST", "/admin/1/users/zoe", "{}", status: 404)
  }
}

@Suite(.eachEngine) struct ServerKeyTests {
  private func add(_ world: World, _ more: String = "") async throws -> (keyID: String, userRecordName: String) {
    let pem = SigningKey().publicPEM.replacing("\n", with: "\\n")
    let answer = try await world.ok(
      "POST", "/admin/1/keys", #"{"container":"\#(World.photos)","publicKey":"\#(pem)"\#(more)}"#)
    return (try #require(answer["keyID"]?.string), try #require(answer["userRecordName"]?.string))
  }

  private func ask(_ keyID: String, _ container: String = World.photos, in world: World) async throws
    -> Authenticate.Reply
  {
    try await world.service.directory.authenticate(
      Authenticate(
        container: ContainerID(rawValue: container), environment: .development, apiToken: nil, userToken: nil,
        keyID: keyID))
  }

  @Test func `a key acts as the user it was added for, or as one of its own`() async throws {
    let world = try await World.withContainer()
    let alice = try await world.user("alice").recordName
    let (named, own) = (try await add(world, #","user":"alice""#), try await add(world))
    #expect(named.userRecordName == alice && own.userRecordName != alice)
    let reply = try await ask(named.keyID, in: world)
    #expect(reply.userRecordName == alice && reply.publicKey?.isEmpty == false && reply.refusal == nil)
    #expect(try await ask(own.keyID, in: world).userRecordName == own.userRecordName)
    let names = try await world.ok("GET", "/admin/1/keys")["keys"]?.elements.map { $0["user"]?.string ?? "" } ?? []
    #expect(names.contains("alice") && names.contains("key-" + own.keyID.prefix(16)))
    let pem = SigningKey().publicPEM.replacing("\n", with: "\\n")
    try await world.refused(
      "POST", "/admin/1/keys", #"{"container":"\#(World.photos)","publicKey":"\#(pem)","user":"zoe"}"#, status: 404)
    // A key that was not made leaves no user behind.
    try await world.refused("POST", "/admin/1/keys", #"{"container":"iCloud.none","publicKey":"\#(pem)"}"#, status: 404)
    #expect(try await world.ok("GET", "/admin/1/users")["users"]?.count == 2)
  }

  @Test func `an unknown, revoked or foreign key, or one of a disabled user, is refused`() async throws {
    let world = try await World.withContainer()
    try await world.ok("POST", "/admin/1/containers", #"{"container":"iCloud.other"}"#)
    _ = try await world.user("alice")
    let (first, second) = (try await add(world, #","user":"alice""#), try await add(world))
    #expect(try await ask(first.keyID, "iCloud.other", in: world).refusal == .userToken)
    #expect(try await ask(String(repeating: "0", count: 64), in: world).refusal == .userToken)
    try await world.ok("POST", "/admin/1/users/alice/disable")
    #expect(try await ask(first.keyID, in: world).refusal == .userToken)
    try await world.ok("DELETE", "/admin/1/keys/\(second.keyID)")
    #expect(try await ask(second.keyID, in: world).refusal == .userToken)
  }
}

@Suite(.eachEngine) struct CallbackTests {
  @Test(arguments: [
    "https://example.org/signed-in", "http://127.0.0.1:3000/?a=b", "myapp://done", "org.example.photos://x",
  ])
  func `a URL a browser can be sent to is kept with the token`(url: String) async throws {
    let world = try await World.withContainer()
    let body = #"{"container":"\#(World.photos)","environment":"development","callbackURL":"\#(url)"}"#
    let token = try #require(try await world.ok("POST", "/admin/1/tokens", body)["apiToken"]?.string)
    #expect(try await world.authenticate(api: token).callbackURL == url)
    #expect(try await world.ok("GET", "/admin/1/tokens")["tokens"]?.elements.first?["callbackURL"]?.string == url)
  }

  @Test(arguments: [
    "javascript://%0aalert(1)", "JavaScript://x", "data://x", "https://", "example.org", "/x", "https://a b",
    "https://a#b", "https://a\\\"b", "://x", "1x://y",
    "https://a;b",
    "https://a,b",
  ])
  func `one that runs, or could mean something else in a header, is refused`(url: String) async throws {
    let world = try await World.withContainer()
    let body = #"{"container":"\#(World.photos)","environment":"development","callbackURL":"\#(url)"}"#
    let error = try await world.refused("POST", "/admin/1/tokens", body, status: 400)
    #expect(error["reason"]?.string?.contains("'callbackURL'") == true)
  }
}

@Suite struct AccountsFormatTests {
  @Test func `a directory of the first format is brought up with its keys`() async throws {
    let world = try await World.withContainer()
    let alice = try await world.user("alice")
    await world.service.close()
    let connection = try Connection(exclusive: world.folder.path + "/directory.sqlite", mode: .readWrite)
    try connection.execute(
      """
      ALTER TABLE container DROP COLUMN displayName; ALTER TABLE container DROP COLUMN appURL; DROP TABLE departure; \
      DROP TABLE dataEpoch; ALTER TABLE user DROP COLUMN isSelfMade; ALTER TABLE user DROP COLUMN signOutCount;
      DROP TABLE identity; DROP TABLE identityProvider; DROP TABLE invitation;
      DROP TABLE pushRegistration; DROP TABLE pushService; DROP TABLE signIn; DROP TABLE deviceSignIn;
      DROP TABLE passkey; DROP TABLE pushRegistrationEnd; DROP TABLE waitingInvitation; DROP TABLE sentMail; \
      DROP TABLE mailRefusal;
      DROP TABLE staffRole; DROP TABLE consoleSession; DROP TABLE act;
      DROP TABLE sharedZone; DROP INDEX userPhone; ALTER TABLE user DROP COLUMN phone;
      ALTER TABLE environment DROP COLUMN generation; ALTER TABLE environment DROP COLUMN rules; DROP TABLE userRole; \
      ALTER TABLE user DROP COLUMN quotaByteCount;
      DROP TABLE sessionToken; DROP TABLE session; DROP TABLE usedSignature;
      ALTER TABLE user DROP COLUMN passwordHash; ALTER TABLE user DROP COLUMN isDiscoverable;
      ALTER TABLE apiToken DROP COLUMN callbackURL; ALTER TABLE serverKey DROP COLUMN user;
      PRAGMA user_version=1;
      """)
    let pem = SigningKey().publicPEM
    for digit in ["a", "b"] {
      try connection.execute(
        """
        INSERT INTO serverKey (keyID, container, name, pem, created) \
        VALUES ('\(String(repeating: digit, count: 64))', 1, 'old', '\(pem)', 5)
        """
      )
    }
    connection.close()
    let upgraded = try World(in: world.folder, seed: 7)
    #expect(try await upgraded.authenticate(user: alice.token).userRecordName == alice.recordName)
    var users: Set<String> = []
    for digit in ["a", "b"] {
      let reply = try await upgraded.service.directory.authenticate(
        Authenticate(
          container: World.container, environment: .development, apiToken: nil, userToken: nil,
          keyID: String(repeating: digit, count: 64)))
      users.insert(try #require(reply.userRecordName))
    }
    #expect(users.count == 2 && users.allSatisfy { $0.wholeMatch(of: /_[0-9a-f]{32}/) != nil })
    try await upgraded.ok("POST", "/admin/1/users/alice/password", #"{"password":"\#(World.password)"}"#)
    #expect(try await upgraded.signIn().webAuthToken != nil)
  }
}
