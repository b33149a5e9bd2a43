import JSON
import RecordStore
import Records
import ServiceBus
import Synchronization
import Testing

private typealias World = RecordPlaneWorld

/// The feed of participants in hierarchies: visible records, and one deletion for each that becomes invisible.
struct ShareFeedTests {
  /// Alice's zone with a folder and a note in it below a root, and what is not shared.
  private static func world() async throws -> RecordPlaneWorld {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    _ = try await world.modify([
      World.note("r"), World.note("f", parent: "r"), World.note("n", parent: "f"), World.note("b"),
      World.note("c", parent: "b"), World.note("out"),
    ])
    return world
  }

  @Test(arguments: ["removed", "stopped", "left"])
  func `a participant who loses one of two hierarchies of a zone begins again with the other`(how: String) async throws
  {
    let world = try await Self.world()
    for root in ["r", "b"] { try await world.shareHierarchy(root, with: ["bob"]) }
    var bob = FeedReader(world, "_bob")
    try await bob.poll()
    #expect(bob.held == ["r", "f", "n", "b", "c", "S-r", "S-b"])
    switch how {
    case "removed": try await world.keep([], in: "b")
    case "stopped": _ = try await world.modify([World.deletion("S-b")])
    default: _ = try await world.modify([World.deletion("S-b")], by: "_bob")
    }
    try await bob.poll()
    #expect(bob.held == ["r", "f", "n", "S-r"])
    #expect(bob.restartCount == 1)
    try await bob.poll()
    #expect(bob.told == [])
  }

  @Test func `a participant who was out of a hierarchy meanwhile begins again`() async throws {
    let world = try await Self.world()
    for root in ["r", "b"] { try await world.shareHierarchy(root, with: ["bob"]) }
    var bob = FeedReader(world, "_bob")
    try await bob.poll()
    try await world.keep([], in: "b")
    _ = try await world.modify([World.note("c", "forceReplace")])
    let share = try await world.currentShare("S-b")
    _ = try await world.modify([
      World.share("update", name: "S-b", tag: share.tag, World.participants(World.participant("bob")))
    ])
    _ = try await world.accept(share.shortGUID, by: "_bob")
    try await bob.poll()
    #expect(bob.held == ["r", "f", "n", "b", "S-r", "S-b"])
  }

  @Test func `a record that left a hierarchy shows as deleted, even if it is deleted afterwards`() async throws {
    let world = try await Self.world()
    try await world.shareHierarchy("r", with: ["bob"])
    var bob = FeedReader(world, "_bob")
    try await bob.poll()
    _ = try await world.modify([World.note("n", "forceReplace", parent: "out")])
    _ = try await world.modify([World.deletion("n")])
    try await bob.poll()
    #expect(bob.told == ["-n"])
  }

  @Test func `a deleted record shows as deleted, even if its parent leaves afterwards`() async throws {
    let world = try await Self.world()
    try await world.shareHierarchy("r", with: ["bob"])
    var bob = FeedReader(world, "_bob")
    try await bob.poll()
    _ = try await world.modify([World.deletion("n")])
    _ = try await world.modify([World.note("f", "forceReplace")])
    try await bob.poll()
    #expect(Set(bob.told) == ["-f", "-n"])
    _ = try await world.modify([World.note("n", "forceReplace")])
    try await bob.poll()
    #expect(bob.told == [], "what is made under the name of something deleted is another's")
  }

  @Test func `a record below a deleted one leaves with the deleted one's parent`() async throws {
    let world = try await Self.world()
    try await world.shareHierarchy("r", with: ["bob"])
    _ = try await world.modify([World.note("g", parent: "f"), World.note("h", parent: "g")])
    _ = try await world.modify([World.deletion("g")])
    _ = try await world.modify([World.note("i", parent: "g")])
    var bob = FeedReader(world, "_bob")
    try await bob.poll()
    #expect(bob.held == ["r", "f", "n", "h", "i", "S-r"])
    _ = try await world.modify([World.note("f", "forceReplace")])
    try await bob.poll()
    #expect(Set(bob.told) == ["-f", "-n", "-h", "-i"])
    _ = try await world.modify([World.note("f", "forceReplace", parent: "r")])
    try await bob.poll()
    #expect(Set(bob.told) == ["f", "n", "h", "i"])
  }

  @Test func `nobody is told of what left before he came, and of what left only once`() async throws {
    let world = try await Self.world()
    try await world.shareHierarchy("r", with: ["bob"])
    var bob = FeedReader(world, "_bob")
    try await bob.poll()
    _ = try await world.modify([World.note("n", "forceReplace"), World.note("o", parent: "f")])
    _ = try await world.modify([World.deletion("o")])
    try await bob.poll()
    #expect(Set(bob.told) == ["-n", "-o"])
    let share = try await world.currentShare("S-r")
    _ = try await world.modify([
      World.share(
        "update", name: "S-r", tag: share.tag, World.participants(World.participant("bob"), World.participant("carol")))
    ])
    _ = try await world.accept(share.shortGUID, by: "_carol")
    _ = try await world.modify([World.note("n", "forceUpdate", title: "private")])
    var carol = FeedReader(world, "_carol")
    try await carol.poll()
    #expect(Set(carol.told) == ["r", "f", "S-r"])
    try await bob.poll()
    #expect(!bob.told.contains("-n") && !bob.told.contains("-o"), "\(bob.told)")
    // A zone that is shared as a whole does not tell of deletions before bob's arrival.
    try await world.makeZone("Whole")
    _ = try await world.modify([World.note("gone"), World.note("kept")], zone: "Whole")
    _ = try await world.modify([World.deletion("gone")], zone: "Whole")
    _ = try await world.shareZone(with: [("bob", "READ_ONLY")], zone: "Whole")
    #expect(try await world.feed(by: "_bob", zone: "Whole").feedNames == ["kept", "cloudkit.zoneshare"])
  }

  @Test func `a record that left shows in a run of pages, even if it changes behind them`() async throws {
    let world = try await Self.world()
    try await world.shareHierarchy("r", with: ["bob"])
    var bob = FeedReader(world, "_bob")
    try await bob.poll()
    _ = try await world.modify([
      World.note("a1", parent: "r"), World.note("n", "forceReplace"), World.note("a2", parent: "r"),
      World.note("a3", parent: "r"),
    ])
    try await bob.poll(limit: 1, pages: 1)
    _ = try await world.modify([World.note("n", "forceUpdate", title: "private")])
    try await bob.poll(limit: 1)
    #expect(bob.told.contains("-n"))
    #expect(bob.held == ["r", "f", "a1", "a2", "a3", "S-r"])
  }

  @Test func `a hierarchy that is accepted while one reads backwards is told, too`() async throws {
    let world = try await Self.world()
    let share = try await world.shareHierarchy("r", with: ["bob"])
    #expect(share.code == nil)
    var bob = FeedReader(world, "_bob")
    try await bob.poll(limit: 1, pages: 2, isReversed: true)
    try await world.shareHierarchy("b", with: ["bob"])
    try await bob.poll(limit: 2, isReversed: true)
    try await bob.poll()
    #expect(bob.held == ["r", "f", "n", "b", "c", "S-r", "S-b"])
  }

  @Test(arguments: [ResolveShortGUIDs.Purpose.resolve, .accept, .requestAccess, .decline])
  func `T-P06 while nobody can say who asks a share is as little there as what never was`(
    purpose: ResolveShortGUIDs.Purpose
  ) async throws {
    let world = try await RecordPlaneWorld.inMemory()
    try await world.makeZone()
    let share = try await world.shareZone()
    world.people.isAway.store(true, ordering: .relaxed)
    var errors: [RecordError?] = []
    for guid in [share.shortGUID ?? "", "0nothing"] {
      do {
        _ = try await world.resolve(purpose, [guid], by: "_eve")
        errors.append(nil)
      } catch let error as RecordError {
        errors.append(error)
      }
    }
    #expect(
      errors == [
        RecordError(.tryAgainLater, "away", retryAfter: 1), RecordError(.tryAgainLater, "away", retryAfter: 1),
      ])
  }
}
