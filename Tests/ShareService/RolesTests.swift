import JSON
import Records
import SQLite
import ServiceBus
import Testing

@testable import ShareService

@Suite(.eachEngine) struct `Custom roles and quotas` {
  static let schema = #"""
    DEFINE SCHEMA
      CREATE ROLE editors;
      CREATE ROLE moderators;
      RECORD TYPE Post (title STRING, GRANT WRITE TO "moderators", GRANT READ TO "_world");
    """#

  private func world() async throws -> World {
    let world = try await World.withContainer()
    _ = try await world.ok("PUT", "/admin/1/schema/\(World.photos)/development", Self.schema)
    _ = world.published.take()
    return world
  }

  private func role(_ role: String, _ user: String = "alice", _ environment: String = "development") -> String {
    #"{"container":"\#(World.photos)","environment":"\#(environment)","user":"\#(user)","role":"\#(role)"}"#
  }

  @Test func `a granted role is told with the user, in its environment only, until it is revoked`() async throws {
    let world = try await world()
    let (alice, bob) = (try await world.user("alice"), try await world.user("bob"))
    #expect(try await world.authenticate(user: alice.token).standing == nil)
    _ = world.published.take()
    for name in ["moderators", "editors", "editors"] { try await world.ok("POST", "/admin/1/roles", role(name)) }
    #expect(world.published.take().map(\.credentials) == [true, true, true])
    #expect(try await world.authenticate(user: alice.token).standing == UserStanding(roles: ["editors", "moderators"]))
    #expect(try await world.authenticate(World.photos, .production, user: alice.token).standing == nil)
    #expect(try await world.authenticate(user: bob.token).standing == nil)
    let rows = try await world.ok("GET", "/admin/1/roles")["roles"]?.elements ?? []
    #expect(rows.map { $0["role"]?.string } == ["editors", "moderators"] && rows[0]["user"]?.string == "alice")
    #expect(rows[0]["userRecordName"]?.string == alice.recordName)
    try await world.ok("DELETE", "/admin/1/roles/\(World.photos)/development/moderators/alice")
    #expect(try await world.authenticate(user: alice.token).standing?.roles == ["editors"])
  }

  @Test func `workers are told of everybody's roles with the schema, as a newer version of it`() async throws {
    let world = try await world()
    let (alice, bob) = (try await world.user("alice").recordName, try await world.user("bob").recordName)
    let first = try await world.schema()
    #expect(first.userRoles == nil)
    _ = world.published.take()
    for (name, user) in [("moderators", "alice"), ("editors", "alice"), ("editors", "bob")] {
      try await world.ok("POST", "/admin/1/roles", role(name, user))
    }
    #expect(world.published.take().allSatisfy { $0.schemas == ["\(World.photos)/development"] })
    let second = try await world.schema()
    #expect(second.userRoles == [alice: ["editors", "moderators"], bob: ["editors"]])
    #expect(second.version > first.version && second.schema == first.schema)
    #expect(try await world.schema(.production).userRoles == nil)
    try await world.ok("DELETE", "/admin/1/roles/\(World.photos)/development/editors/bob")
    let third = try await world.schema()
    #expect(third.userRoles == [alice: ["editors", "moderators"]] && third.version > second.version)
  }

  @Test func `a role is granted only where it is declared, to somebody who exists`() async throws {
    let world = try await world()
    _ = try await world.user("alice")
    for body in [
      role("owners"), role("editors", "nobody"), role("editors", "alice", "production"),
      role("editors").replacing(World.photos, with: "iCloud.none"),
    ] {
      #expect(
        try await world.refused("POST", "/admin/1/roles", body, status: 404)["serverErrorCode"]?.string == "NOT_FOUND")
    }
    for body in [role("editors", "alice", "staging"), "[]", "{}", role("editors").replacing("role", with: "rolle")] {
      try await world.refused("POST", "/admin/1/roles", body, status: 400)
    }
    try await world.refused("DELETE", "/admin/1/roles/\(World.photos)/development/editors/alice", status: 404)
    try await world.refused("DELETE", "/admin/1/roles/editors", status: 405)
    #expect(try await world.ok("GET", "/admin/1/roles")["roles"]?.count == 0)
    #expect(world.published.take().filter(\.credentials).count == 1)
  }

  @Test func `roles go with their container`() async throws {
    let world = try await world()
    let alice = try await world.user("alice")
    try await world.ok("POST", "/admin/1/roles", role("editors"))
    try await world.ok("DELETE", "/admin/1/containers/\(World.photos)")
    try await world.ok("POST", "/admin/1/containers", #"{"container":"\#(World.photos)"}"#)
    #expect(try await world.authenticate(user: alice.token).standing == nil)
  }

  @Test func `a quota is told with the user, and taken back`() async throws {
    var world = try await world()
    let alice = try await world.user("alice")
    let answer = try await world.ok("PUT", "/admin/1/users/alice/quota", #"{"bytes":1000}"#)
    #expect(answer["userRecordName"]?.string == alice.recordName && answer["quotaBytes"]?.int64 == 1000)
    #expect(try await world.authenticate(user: alice.token).standing == UserStanding(quotaByteCount: 1000))
    for body in [#"{"bytes":-1}"#, #"{"bytes":1.5}"#, #"{"bytes":"1"}"#, "{}", #"{"bytes":1,"unit":"MB"}"#] {
      try await world.refused("PUT", "/admin/1/users/alice/quota", body, status: 400)
    }
    try await world.refused("PUT", "/admin/1/users/nobody/quota", #"{"bytes":1}"#, status: 404)
    world = try await world.restarted()
    #expect(try await world.authenticate(user: alice.token).standing?.quotaByteCount == 1000)
    try await world.ok("PUT", "/admin/1/users/alice/quota", #"{"bytes":0}"#)
    #expect(try await world.authenticate(user: alice.token).standing?.quotaByteCount == 0)
    try await world.ok("PUT", "/admin/1/users/alice/quota", #"{"bytes":null}"#)
    #expect(try await world.authenticate(user: alice.token).standing == nil)
  }

  @Test(.tags(.sqliteFile)) func `a directory of the first format is brought up to date when it is opened`()
    async throws
  {
    var world = try await World.withContainer()
    let alice = try await world.user("alice")
    try await world.service.directory.undoRolesAndQuotas()
    world = try await world.restarted()
    #expect(try await world.authenticate(user: alice.token).userRecordName == alice.recordName)
    try await world.ok("PUT", "/admin/1/users/alice/quota", #"{"bytes":7}"#)
    #expect(try await world.authenticate(user: alice.token).standing?.quotaByteCount == 7)
  }
}

extension Directory {
  /// Turns the file into one of the release before this format change.
  fileprivate func undoRolesAndQuotas() throws {
    try connection.execute(
      """
      ALTER TABLE container DROP COLUMN displayName; ALTER TABLE container DROP COLUMN appURL; DROP TABLE departure; \
      DROP TABLE dataEpoch; ALTER TABLE user DROP COLUMN isSelfMade; ALTER TABLE user DROP COLUMN signOutCount;
      DROP TABLE identity; DROP TABLE identityProvider; DROP TABLE invitation;
      DROP TABLE pushRegistration; DROP TABLE pushService; DROP TABLE signIn; DROP TABLE deviceSignIn;
      DROP TABLE passkey; DROP TABLE pushRegistrationEnd; DROP TABLE waitingInvitation; DROP TABLE sentMail; \
      DROP TABLE mailRefusal;
      DROP INDEX sessionIdentity; DROP INDEX sessionProvider; ALTER TABLE session DROP COLUMN issuer;
      ALTER TABLE session DROP COLUMN subject; ALTER TABLE session DROP COLUMN providerSession;
      ALTER TABLE session DROP COLUMN way; ALTER TABLE session DROP COLUMN provider;
      ALTER TABLE session DROP COLUMN client;
      DROP TABLE staffRole; DROP TABLE consoleSession; DROP TABLE act;
      DROP TABLE sharedZone; DROP INDEX userPhone; ALTER TABLE user DROP COLUMN phone;
      ALTER TABLE environment DROP COLUMN generation; ALTER TABLE environment DROP COLUMN rules;
      DROP TABLE userRole; ALTER TABLE user DROP COLUMN quotaByteCount; DROP INDEX sessionAPIToken; ALTER TABLE \
      session DROP COLUMN apiToken;
      PRAGMA user_version=\(DirectoryFormat.rolesAndQuotas.rawValue - 1);
      """)
  }
}
