// A connection that reads: for one call at a time, or for a pinned generation as long as it is held.

import SQLite
import Synchronization

/// Not Sendable: it lives on its lane.
final class Reader {
  private let connection: Connection
  let snapshot: Snapshot

  init(path: String, _ schema: StoreSchema, contents: any ContentProvider) throws {
    connection = try Connection(shared: path, mode: .readOnly)
    try connection.defineTextFunctions()
    snapshot = Snapshot(connection, schema, contents: contents)
  }

  func read<Value>(_ body: (Snapshot) throws -> Value) throws -> Value {
    try begin()
    defer { end() }
    return try body(snapshot)
  }

  /// Begins a transaction; its state is that of now, not of the first read.
  func begin() throws {
    try connection.beginReadTransaction()
    _ = try connection.statement(Self.touch).first { $0.int64(0) }
  }

  /// Dropped because a read transaction that can't be ended ends with its connection.
  func end() { try? connection.rollback() }

  private static let touch = SQL("touch", "SELECT count(*) FROM consumer")
}

extension Connection {
  func defineTextFunctions() throws(SQLiteError) {
    try define("aquifer_fold", Fold.fold)
    try define("aquifer_upper") { $0.uppercased() }
    try define("aquifer_lower") { $0.lowercased() }
  }
}

/// At most four readers of a file, opened when they are needed.
final class ReaderPool: Sendable {
  private struct Slot {
    var lane: Lane<Reader>?
    var load = 0
  }

  private let slots = Mutex(Array(repeating: Slot(), count: 4))
  private let open: @Sendable () throws -> Lane<Reader>

  init(_ open: @escaping @Sendable () throws -> Lane<Reader>) { self.open = open }

  func read<Value: Sendable>(_ body: @escaping @Sendable (Snapshot) throws -> Value) async throws -> Value {
    let (place, lane) = try take()
    defer { slots.withLock { $0[place].load -= 1 } }
    return try await lane.run { reader in try reader.read(body) }
  }

  func readNow<Value>(_ body: (Snapshot) throws -> Value) throws -> Value {
    let (place, lane) = try take()
    defer { slots.withLock { $0[place].load -= 1 } }
    return try lane.runNow { reader in try reader.read(body) }
  }

  /// The reader with the least to do; one more is opened when all have something to do.
  private func take() throws -> (Int, Lane<Reader>) {
    try slots.withLock { slots in
      let opened = slots.indices.filter { slots[$0].lane != nil }
      var place = opened.min { slots[$0].load < slots[$1].load }
      if place.map({ slots[$0].load > 0 }) ?? true, let free = slots.indices.first(where: { slots[$0].lane == nil }) {
        place = free
      }
      guard let place else { throw StoreError.closed }
      if slots[place].lane == nil { slots[place].lane = try open() }
      guard let lane = slots[place].lane else { throw StoreError.closed }
      slots[place].load += 1
      return (place, lane)
    }
  }
}
