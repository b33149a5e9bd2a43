// Ends of many registrations at once: with an API token, a container or a user.

import PostgreSQL
import Records
import ServiceBus
import Testing

@testable import ShareService

private let registrationCount = 7

/// Users with registrations by API tokens.
private struct Scene {
  let world: World
  let (api, other): (String, String)
  let revision: Int64

  /// Ada has `count` registrations by one API token and one by another, and so has Bob.
  init(count: Int = registrationCount) async throws {
    world = try await World.withContainer()
    try await world.ok("POST", "/admin/1/push-services", #"{"name":"servers","kind":"webhook"}"#)
    (api, other) = (try await world.apiToken(), try await world.apiToken())
    for name in ["ada", "bob"] {
      let user = try await world.user(name)
      for number in 0...count {
        let grant = try await world.authenticate(api: number == count ? other : api, user: user.token).grant
        try await Self.register(user.recordName, try #require(grant), number, in: world)
      }
    }
    revision = try await world.service.directory.pushRegistrations(after: 0).revision
  }

  static func register(_ user: String, _ grant: String, _ number: Int, in world: World) async throws {
    let message = RegisterForPush(
      device: RegisterForPush.Device(
        container: World.container, environment: .development, userRecordName: user, clientID: "\(number)",
        grant: grant),
      address: .webhook(url: "https://a.example/\(number)", secret: "a secret of sixteen"), hearsEveryZone: false)
    #expect(try await world.service.directory.registerForPush(message).isChanged)
  }

  func left() async throws -> [PushRegistration] {
    try await world.service.directory.pushRegistrations(of: nil, ofUser: nil).map(\.registration)
  }

  /// Checks that notifiers hear of each end once.
  func expectEnds(_ count: Int) async throws {
    let page = try await world.service.directory.pushRegistrations(after: revision)
    #expect(page.ended.count == count && Set(page.ended).count == count && page.registrations.isEmpty)
    #expect(page.revision == revision + Int64(count), "each end has a revision of its own")
    let gone = Set(page.ended)
    #expect(try await left().allSatisfy { !gone.contains($0.id) })
  }
}

@Suite(.eachEngine) struct RegistrationEndTests {
  @Test(arguments: [1, 3, 7, 14, 1000])
  func `an API token's end ends all registrations that came by it, a slice with each statement`(slice: Int) async throws
  {
    let scene = try await Scene()
    await scene.world.service.directory.setEndSlice(slice)
    try await scene.world.ok("DELETE", "/admin/1/tokens/\(scene.api)")
    #expect(try await scene.left().map(\.device.clientID) == ["7", "7"])
    try await scene.expectEnds(2 * registrationCount)
    // Later registrations have later revisions.
    let last = try await scene.world.service.directory.pushRegistrations(after: scene.revision).revision
    try await Scene.register(
      try #require(scene.left().first).device.userRecordName, ":t00", registrationCount + 1, in: scene.world)
    let page = try await scene.world.service.directory.pushRegistrations(after: last)
    #expect(page.registrations.map(\.revision) == [last + 1] && page.registrations.map(\.id) == [last + 1])
  }

  @Test func `a registration ends with the API token of its session, whichever token it came by`() async throws {
    let world = try await World.withContainer()
    try await world.ok("POST", "/admin/1/push-services", #"{"name":"servers","kind":"webhook"}"#)
    let name = try await world.userWithPassword()
    let (api, other) = (try await world.apiToken(), try await world.apiToken())
    let grant = try #require(try await world.authenticate(api: api).grant)
    let reply = try await world.service.signIns.signIn(
      SignIn(
        container: World.container, environment: .development, userName: "alice", password: World.password,
        isKept: true, clientAddress: "192.0.2.1", grant: grant))
    // The registrations 0 and 1 are of the session that began with the API token, 2 and 3 of another one.
    for (index, token) in [try #require(reply.webAuthToken), try await world.token()].enumerated() {
      for (number, key) in [nil, other].enumerated() {
        let grant = try #require(try await world.authenticate(api: key, user: token).grant)
        try await Scene.register(name, grant, 2 * index + number, in: world)
      }
    }
    try await world.ok("DELETE", "/admin/1/tokens/\(api)")
    let left = try await world.service.directory.pushRegistrations(of: nil, ofUser: nil)
    #expect(left.map(\.registration.device.clientID).sorted() == ["2", "3"])
  }

  @Test(arguments: [2, 1000])
  func `registrations end with their container, and with their user alone`(slice: Int) async throws {
    let scene = try await Scene()
    await scene.world.service.directory.setEndSlice(slice)
    try await scene.world.ok("DELETE", "/admin/1/users/ada")
    #expect(try await scene.left().count == registrationCount + 1)
    try await scene.expectEnds(registrationCount + 1)
    try await scene.world.ok("DELETE", "/admin/1/containers/\(World.photos)")
    #expect(try await scene.left().isEmpty)
    try await scene.expectEnds(2 * (registrationCount + 1))
  }
}

/// The number of answers that a change waits for.
@Suite struct RegistrationEndCostTests {
  @Test func `the end of an API token waits as often for the database with many registrations as with few`()
    async throws
  {
    try await DirectoryEngine.$current.withValue(.postgreSQL) {
      var counts: [Int] = []
      for registrationCount in [2, 40] {
        let scene = try await Scene(count: registrationCount)
        let directory = scene.world.service.directory
        let before = await directory.waitCount
        try await directory.revokeToken(scene.api)
        counts.append(await directory.waitCount - before)
        #expect(try await scene.left().count == 2)
        await scene.world.service.close()
      }
      #expect(counts[0] > 0 && counts[0] == counts[1])
    }
  }
}

extension Directory {
  fileprivate func setEndSlice(_ count: Int) { endSliceCount = count }

  /// How often the session of the database has waited for answers.
  fileprivate var waitCount: Int { (store as? PostgreSQLDirectory)?.session.waitCount ?? 0 }
}
