import PostgreSQL
import Testing

@Suite struct SnapshotPoolTests {
  @Test func `a read sees one state, and the next read every commit before it`() throws {
    let world = try World()
    let pool = SnapshotPool(world.configuration(), limit: 2)
    let writer = try world.session()
    for identifier in 0..<20 as Range<Int64> {
      try writer.transaction { try writer.insert(2 * identifier) }
      try pool.read { session in
        #expect(try session.itemCount() == 2 * identifier + 1)
        try writer.transaction { try writer.insert(2 * identifier + 1) }
        #expect(try session.itemCount() == 2 * identifier + 1)
      }
      #expect(try pool.read { try $0.itemCount() } == 2 * identifier + 2)
    }
    #expect(pool.sessionCount == 1)
  }

  @Test func `a read can't write, and its error leaves the session usable`() throws {
    struct Stop: Error {}
    let world = try World()
    let pool = SnapshotPool(world.configuration(), limit: 1)
    #expect(kind { try pool.read { try $0.insert(1) } } == .readOnly)
    #expect(throws: Stop.self) { try pool.read { _ in throw Stop() } }
    #expect(try pool.read { try $0.itemCount() } == 0)
    #expect(pool.sessionCount == 1)
  }

  @Test func `more reads than sessions are refused`() throws {
    let world = try World()
    let pool = SnapshotPool(world.configuration(), limit: 2)
    try pool.read { _ in
      try pool.read { _ in
        #expect(kind { try pool.read { _ in } } == .crowded)
        #expect(pool.sessionCount == 2)
      }
    }
    #expect(try pool.read { try $0.itemCount() } == 0)
  }

  @Test func `a session that ended while it idled costs no read an error`() throws {
    let world = try World()
    let pool = SnapshotPool(world.configuration(), limit: 3)
    let other = try world.session()
    var processes: [Int32] = []
    try pool.read { first in try pool.read { processes = [first.serverProcess, $0.serverProcess] } }
    for process in processes { _ = try other.rows(.end, [.integer(Int64(process))]) }
    var runs = 0
    #expect(
      try pool.read { session in
        runs += 1
        return try session.itemCount()
      } == 0)
    #expect(runs == 2 && pool.sessionCount == 1)
  }

  @Test func `a session that ends during its read is an error of that read alone`() throws {
    let world = try World()
    let pool = SnapshotPool(world.configuration(), limit: 1)
    let other = try world.session()
    var runs = 0
    let lost = kind {
      try pool.read { session in
        runs += 1
        _ = try other.rows(.end, [.integer(Int64(session.serverProcess))])
        _ = try session.itemCount()
      }
    }
    #expect(lost == .connectionLost && runs == 1 && pool.sessionCount == 0)
    #expect(try pool.read { try $0.itemCount() } == 0)
  }

  @Test func `after a discard reads connect anew, and after the end none runs`() throws {
    let world = try World()
    let pool = SnapshotPool(world.configuration(), limit: 2)
    let first = try pool.read { session in
      pool.discard()
      return session.serverProcess
    }
    #expect(pool.sessionCount == 0)
    #expect(try pool.read { $0.serverProcess } != first)
    pool.close()
    #expect(pool.sessionCount == 0)
    #expect(kind { try pool.read { _ in } } == .connectionLost)
  }
}
