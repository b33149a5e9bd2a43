// Registrations of a directory that lost its last changes, whose revisions it gives out again.

import Records
import SQLite
import ServiceBus
import Testing

@testable import ShareService

@Suite(.eachEngine) struct LostRegistrationTests {
  private let world: World
  private let ada: String
  private let bob: String

  init() async throws {
    world = try await World.withContainer()
    try await world.ok("POST", "/admin/1/push-services", #"{"name":"servers","kind":"webhook"}"#)
    ada = try await world.user("ada").recordName
    bob = try await world.user("bob").recordName
  }

  private static func register(_ user: String, _ number: Int, in world: World) async throws {
    let message = RegisterForPush(
      device: RegisterForPush.Device(
        container: World.container, environment: .development, userRecordName: user, clientID: "\(number)",
        grant: ":t00"),
      address: .webhook(url: "https://a.example/\(number)", secret: "a secret of sixteen"), hearsEveryZone: false)
    #expect(try await world.service.directory.registerForPush(message).isChanged)
  }

  /// Ada's second registration is lost, and Bob's takes its place.
  private func replaced() async throws -> (World, known: FetchPushRegistrations.Reply, kept: PushRegistration) {
    try await Self.register(ada, 1, in: world)
    let kept = try #require(try await world.service.directory.pushRegistrations(after: 0).registrations.first)
    try await Self.register(ada, 2, in: world)
    let known = try await world.service.directory.pushRegistrations(after: 0)
    try await world.service.directory.lose(after: kept.revision)
    let restarted = try await world.restarted()
    try await Self.register(bob, 3, in: restarted)
    return (restarted, known, kept)
  }

  @Test func `a directory that gave a lost revision out again is read from its start`() async throws {
    let (restarted, known, kept) = try await replaced()
    let page = try await restarted.service.directory.pushRegistrations(after: known.revision, of: known.incarnation)
    #expect(page.isFromStart && page.isLast && page.revision == known.revision)
    #expect(page.registrations.map(\.device.userRecordName) == [ada, bob] && page.registrations.first == kept)
    #expect(page.registrations.map(\.id) == known.registrations.map(\.id), "the identifiers are the same")
    let next = try await restarted.service.directory.pushRegistrations(after: page.revision, of: page.incarnation)
    #expect(!next.isFromStart && next.registrations.isEmpty && next.incarnation == page.incarnation)
  }

  @Test func `lost revisions that other numbers have passed are read from the start`() async throws {
    for number in 1...3 { try await Self.register(ada, number, in: world) }
    let known = try await world.service.directory.pushRegistrations(after: 0)
    let first = try #require(known.registrations.first)
    try await world.service.directory.lose(after: first.revision)
    let restarted = try await world.restarted()
    let directory = restarted.service.directory
    var number: Int64 = 0
    for _ in 0..<4 { number = try await directory.beginComparison() }
    #expect(number > known.revision)
    try await Self.register(bob, 4, in: restarted)
    let page = try await directory.pushRegistrations(after: known.revision, of: known.incarnation)
    #expect(page.isFromStart && page.registrations.map(\.device.userRecordName) == [ada, bob])
    let kept = try await directory.pushRegistrations(after: first.revision, of: known.incarnation)
    #expect(!kept.isFromStart && kept.registrations.map(\.device.userRecordName) == [bob])
    // Ends of lost registrations end nothing, and those of kept ones do.
    let ended = known.registrations.map { EndPushRegistrations.Registration(id: $0.id, revision: $0.revision) }
    try await directory.endPushRegistrations(
      EndPushRegistrations(registrations: ended, incarnation: known.incarnation))
    #expect(try await directory.pushRegistrations(after: page.revision).ended == [first.id])
  }

  @Test func `after a restart that lost nothing, the end of the latest registration is read as what is new`()
    async throws
  {
    try await Self.register(ada, 1, in: world)
    let known = try await world.service.directory.pushRegistrations(after: 0)
    let latest = try #require(known.registrations.last)
    let directory = try await world.restarted().service.directory
    try await directory.endPushRegistration(named: latest.id)
    let page = try await directory.pushRegistrations(after: known.revision, of: known.incarnation)
    #expect(!page.isFromStart && page.ended == [latest.id] && page.incarnation != known.incarnation)
  }

  @Test func `the end of a lost registration ends no other one`() async throws {
    let (restarted, known, _) = try await replaced()
    let directory = restarted.service.directory
    let lost = try #require(known.registrations.last)
    let registration = EndPushRegistrations.Registration(id: lost.id, revision: lost.revision)
    try await directory.endPushRegistrations(
      EndPushRegistrations(registrations: [registration], incarnation: known.incarnation))
    let page = try await directory.pushRegistrations(after: 0)
    #expect(page.registrations.map(\.device.userRecordName) == [ada, bob] && page.ended.isEmpty)
    try await directory.endPushRegistrations(
      EndPushRegistrations(registrations: [registration], incarnation: page.incarnation))
    #expect(try await directory.pushRegistrations(after: page.revision).ended == [lost.id])
  }

  @Test func `after a restart that lost nothing, a notifier reads what is new, and ends what it knew`() async throws {
    try await Self.register(ada, 1, in: world)
    let known = try await world.service.directory.pushRegistrations(after: 0)
    let first = try #require(known.registrations.first)
    let restarted = try await world.restarted()
    let directory = restarted.service.directory
    let unchanged = try await directory.pushRegistrations(after: known.revision, of: known.incarnation)
    #expect(!unchanged.isFromStart && unchanged.registrations.isEmpty && unchanged.incarnation == known.incarnation)
    try await Self.register(bob, 2, in: restarted)
    let page = try await directory.pushRegistrations(after: known.revision, of: known.incarnation)
    #expect(!page.isFromStart && page.registrations.map(\.device.userRecordName) == [bob])
    #expect(known.incarnation != nil && page.incarnation != nil && page.incarnation != known.incarnation)
    try await directory.endPushRegistrations(
      EndPushRegistrations(
        registrations: [.init(id: first.id, revision: first.revision)], incarnation: known.incarnation))
    #expect(try await directory.pushRegistrations(after: page.revision).ended == [first.id])
  }

  @Test func `a notifier whose incarnation is not the one before is told to begin anew, and one of none is not`() {
    let current = RegistrationIncarnation(name: "c", former: "b", begin: 7)
    let cases: [(String?, Int64, Bool)] = [
      ("c", 9, true), ("b", 7, true), ("b", 8, false), ("a", 3, false), (nil, 9, true),
    ]
    for (name, revision, has) in cases {
      #expect(RegistrationIncarnation.has(revision, of: name, in: current) == has, "\(name ?? "") \(revision)")
    }
    #expect(!RegistrationIncarnation.has(3, of: "c", in: nil) && RegistrationIncarnation.has(3, of: nil, in: nil))
  }
}

extension Directory {
  /// Takes back the registrations after a revision, as if an earlier copy took the directory's place.
  fileprivate func lose(after revision: Int64) throws {
    try change {
      try connection.statement(
        SQL("pushRegistration.lose", "DELETE FROM pushRegistration WHERE revision > ?1")
      ).binding(revision).run()
      try DirectoryFormat.set(lastVersion: revision, in: connection)
    }
  }
}
