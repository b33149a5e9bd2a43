// Saves that update unexported objects: the backlog is read once, for any number of objects.

import History
@testable import ObjectPlane
import RecordStore
import Records
import Testing

struct SaveBacklogTests {
  /// A store with transactions that await export; each makes the given number of objects.
  private static func backlog(
    _ transactionCount: Int, of objectCount: Int,
    _ body: @escaping @Sendable (any ShardSnapshot, StoredMirror) throws -> Void
  ) async throws {
    try await ObjectPlaneWorld.with(.memory) { world in
      try await world.setUp("A")
      for number in 0..<transactionCount {
        let changes = (0..<objectCount).map {
          #"{"changeType":"insert","entity":"Tag","objectID":"T\#(number)-\#($0)","attributes":{"name":"x"}}"#
        }
        try await world.save("A", changes.joined(separator: ","))
      }
      let database = DatabaseID(container: ObjectPlaneWorld.container, environment: .development, owner: "_alice")
      let mirror = try await world.store.enqueue { transaction in
        var mirror = try #require(
          try transaction.database(database).flatMap { try transaction.mirror("A", in: $0.key) })
        // As if nothing had been exported yet.
        mirror.exportedTransactionNumber = 0
        try transaction.update(mirror)
        return mirror
      }.value
      try await world.store.read { snapshot in try body(snapshot, mirror) }
    }
  }

  @Test func `a thousand questions cost one look at the backlog`() async throws {
    try await Self.backlog(5, of: 200) { snapshot, mirror in
      let backlog = SaveBacklog(of: mirror, in: snapshot)
      #expect(backlog.cost == 0)
      let hasLast = try backlog.mayHave("T4-199")
      let cost = backlog.cost
      let names = (0..<5).flatMap { transaction in (0..<200).map { "T\(transaction)-\($0)" } }
      let unknown = try (names + ["T5-0"]).filter { try !backlog.mayHave($0) }
      #expect(hasLast && unknown == ["T5-0"])
      #expect(backlog.cost == cost && cost > 1000)
    }
  }

  @Test func `of a backlog that is longer than it may be read everything is believed`() async throws {
    try await Self.backlog(3, of: 3) { snapshot, mirror in
      var long = mirror
      long.lastTransactionNumber = 1001
      let (believed, known) = (
        try SaveBacklog(of: long, in: snapshot).mayHave("nobody"),
        try SaveBacklog(of: mirror, in: snapshot).mayHave("nobody")
      )
      #expect(believed && !known)
    }
  }

  @Test(arguments: [(1000, Int.max, 5), (2, .max, 2), (1000, 1, 1), (1000, 1000, 3)])
  func `a backlog is read up to the row that reaches a limit of rows or bytes`(_ rows: Int, _ bytes: Int, _ count: Int)
    async throws
  {
    try await Self.backlog(5, of: 20) { snapshot, mirror in
      var sizes: [Int] = []
      let isAll = try PendingTransactions.forEach(of: mirror, rowLimit: rows, byteLimit: bytes, in: snapshot) {
        row, _ in
        sizes.append(row.payload.count)
      }
      #expect(sizes.count == count && isAll == (count == 5), "\(sizes)")
    }
  }
}
