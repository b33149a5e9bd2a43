// Merge policies: what each makes of an edit, a deletion and a pair that were based on an older state.

import FoundationEssentials
import MirrorWire
import Testing

@testable import ReplicaStore

/// A photo that somebody changed since a generation, and the user's save that knows nothing of it.
private struct Contest {
  let store: TestStore
  let base: Generation

  /// The other changes title and score, and leaves the size alone.
  init() async throws {
    store = try await TestStore.make()
    try await store.save { save in
      try save.insert("Photo", "P1", ["title": .text("a"), "size": .integer(1), "score": .real(1)])
      try save.insert("Tag", "T1")
    }
    base = try store.replica.pin()
    try await store.save { try $0.update("Photo", "P1", ["title": .text("theirs"), "score": .real(2)]) }
  }

  func save(_ policy: MergePolicy, _ body: @escaping @Sendable (SaveTransaction) throws -> Void) async throws {
    var options = SaveOptions()
    (options.base, options.mergePolicy) = (base, policy)
    _ = try await store.replica.save(options, body)
  }
}

@Test(
  arguments: [
    (.mergeByPropertyObjectTrump, "mine", 9, 2, ["T1"]), (.mergeByPropertyStoreTrump, "theirs", 9, 2, ["T1"]),
    (.overwrite, "mine", 9, 1, ["T1"]), (.rollback, "theirs", 1, 2, []),
  ] as [(MergePolicy, String, Int64, Double, Set<String>)])
func `each policy settles what both changed, what only the save changed, and what only the other did`(
  policy: MergePolicy, title: String, size: Int64, score: Double, tags: Set<String>
) async throws {
  let contest = try await Contest()
  try await contest.save(policy) { save in
    try save.update("Photo", "P1", ["title": .text("mine"), "size": .integer(9)])
    try save.link("Photo", "P1", "tags", "T1")
  }
  let values = try #require(try await contest.store.values("Photo", "P1"))
  #expect(values["title"] == .text(title) && values["size"] == .integer(size) && values["score"] == .real(score))
  #expect(try await contest.store.related("Photo", "P1", "tags") == tags)
  // What is sent is what differs from the store.
  let sent = try await contest.store.outbox().dropFirst(2).flatMap(\.changes)
  #expect(sent.first?.attributes?["title"] == (title == "mine" ? .string("mine") : nil))
  #expect(sent.first?.attributes?["score"] == (score == 1 ? .integer(1) : nil))
  #expect(sent.isEmpty == (policy == .rollback))
}

@Test(
  arguments: [
    (.mergeByPropertyObjectTrump, false), (.mergeByPropertyStoreTrump, true), (.overwrite, false), (.rollback, true),
  ] as [(MergePolicy, Bool)])
func `a deletion of an object that somebody changed since stands, or is left out by the store's policies`(
  policy: MergePolicy, isKept: Bool
) async throws {
  let contest = try await Contest()
  try await contest.save(policy) { try $0.delete("Photo", "P1") }
  #expect(try await (contest.store.values("Photo", "P1") != nil) == isKept)
  #expect(try await contest.store.outbox().count == (isKept ? 2 : 3))
  // Nobody changed the tag.
  try await contest.save(policy) { try $0.delete("Tag", "T1") }
  #expect(try await contest.store.values("Tag", "T1") == nil)
}

@Test func `the policy that refuses names each property and deletion in conflict, and saves nothing`() async throws {
  let contest = try await Contest()
  let photo = AnyObjectID(entityName: "Photo", recordName: "P1")
  await #expect(throws: StoreError.conflicts([.init(object: photo, property: "title", changedBy: nil)])) {
    try await contest.save(.error) { try $0.update("Photo", "P1", ["title": .text("mine"), "size": .integer(9)]) }
  }
  await #expect(throws: StoreError.conflicts([.init(object: photo, property: "id", changedBy: nil)])) {
    try await contest.save(.error) { try $0.delete("Photo", "P1") }
  }
  #expect(try await contest.store.values("Photo", "P1")?["size"] == .integer(1))
  try await contest.save(.error) { try $0.update("Photo", "P1", ["size": .integer(9)]) }
  #expect(try await contest.store.values("Photo", "P1")?["size"] == .integer(9))
}

@Test(arguments: [.error, .mergeByPropertyStoreTrump, .overwrite, .rollback] as [MergePolicy])
func `a policy that looks for conflicts refuses a save whose base is older than the history`(policy: MergePolicy)
  async throws
{
  let contest = try await Contest()
  try await contest.store.export()
  #expect(try await contest.store.replica.purgeHistory(before: .distantFuture, force: true) == 2)
  await #expect(throws: StoreError.historyTokenExpired) {
    try await contest.save(policy) { try $0.update("Photo", "P1", ["title": .text("mine")]) }
  }
  await #expect(throws: StoreError.historyTokenExpired) {
    try await contest.save(policy) { try $0.delete("Photo", "P1") }
  }
  #expect(try await contest.store.values("Photo", "P1")?["title"] == .text("theirs"))
  // Nobody can have changed what is new, and nothing of a save that wins anyway depends on history.
  try await contest.save(policy) { try $0.insert("Tag", "T2") }
  try await contest.save(.mergeByPropertyObjectTrump) { try $0.update("Photo", "P1", ["title": .text("mine")]) }
  #expect(try await contest.store.values("Photo", "P1")?["title"] == .text("mine"))
}
