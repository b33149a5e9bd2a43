// Attributes of type Float, whose values the server and other clients have with more digits.

import FoundationEssentials
import MirrorWire
import Testing

@testable import ReplicaStore

struct FloatTests {
  private static let model = ManagedObjectModel(
    hash: "floats-1",
    entities: [
      EntityDescription(
        "Photo",
        attributes: [
          AttributeDescription("title", .string), AttributeDescription("score", .float, defaultValue: "0.1"),
        ])
    ])

  private func store() async throws -> TestStore {
    let folder = try World.folder()
    let configuration = World.configuration("\(folder.path)/store.sqlite")
    return TestStore(folder: folder, replica: try await Replica.open(configuration, Self.model))
  }

  private func found(_ store: TestStore) async throws -> [String] {
    var query = Query("Photo")
    query.condition = .compare(Path("score"), .equal, Float(0.1).literal)
    return try await store.names(query)
  }

  @Test func `a number is the same on the device that saved it and on those that hear of it`() async throws {
    let (phone, laptop) = (try await store(), try await store())
    try await phone.save { try $0.insert("Photo", "P1", ["title": .text("a"), "score": Float(0.1).literal]) }
    let sent = try #require(try await phone.outbox().first?.changes.first?.attributes)
    #expect(sent["score"] == .double(0.1))
    try await phone.export()
    let change = saved("Photo", "P1", ["title": .string("b"), "score": .double(0.1)])
    for store in [phone, laptop] {
      try await store.replica.apply(page("t1", change), event: nil)
      #expect(try await found(store) == ["P1"])
    }
    // Nobody changed the score.
    let history = try await phone.replica.history(HistoryQuery()).transactions
    #expect(history.last?.changes.map(\.updatedProperties) == [["title"]])
    // The default that an object gets whose score the server does not have.
    try await laptop.replica.apply(page("t2", saved("Photo", "P2")), event: nil)
    #expect(try await found(laptop) == ["P1", "P2"])
  }

  @Test func `a number that no Float can be changes nothing, and whole numbers are rounded as a Float is`() async throws
  {
    let store = try await store()
    try await store.replica.apply(page("t1", saved("Photo", "P1", ["score": .integer(16_777_217)])), event: nil)
    #expect(try await store.values("Photo", "P1") == ["score": .real(16_777_216)])
    try await store.replica.apply(page("t2", saved("Photo", "P1", ["score": .double(1e300)])), event: nil)
    #expect(try await store.values("Photo", "P1") == ["score": .real(16_777_216)])
  }
}
