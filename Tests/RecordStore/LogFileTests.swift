import Foundation
import RecordStore
import SQLite
import Testing

/// The file system layer for a write-ahead log, which collects the frames of a commit: of files that belong to one
/// process, and of files that others read.
struct LogFileTests {
  let folder: TemporaryFolder
  init() throws { folder = try TemporaryFolder() }
  static let put = SQL("put", "INSERT OR REPLACE INTO note(key, text) VALUES (?1, ?2)")
  static let remove = SQL("remove", "DELETE FROM note WHERE key = ?1")
  static let all = SQL("all", "SELECT key, text FROM note")

  /// A file whose writer keeps ten pages in memory, so that large transactions reach the log before their commit.
  func writer(synchronous: String = "FULL", isShared: Bool = false, isNew: Bool = true) throws -> Connection {
    let connection = try open(.readWrite, isShared: isShared)
    try connection.execute("PRAGMA journal_mode=WAL; PRAGMA cache_size=10; PRAGMA synchronous=\(synchronous)")
    if isNew { try connection.execute("CREATE TABLE note(key INTEGER PRIMARY KEY, text TEXT)") }
    return connection
  }

  func reader(isShared: Bool = false) throws -> Connection { try open(.readOnly, isShared: isShared) }

  private func open(_ mode: Connection.Mode, isShared: Bool) throws -> Connection {
    let path = folder.path + "/notes.sqlite"
    return try isShared ? Connection(shared: path, mode: mode) : Connection(exclusive: path, mode: mode)
  }

  func notes(_ connection: Connection) throws -> [Int64: String] {
    Dictionary(uniqueKeysWithValues: try connection.statement(Self.all).all { ($0.int64(0), $0.text(1)) })
  }

  /// The kernel's count of write calls for the calling thread.
  func writeCalls() throws -> Int {
    let text = try String(contentsOfFile: "/proc/thread-self/io", encoding: .utf8)
    let line = try #require(text.split(separator: "\n").first { $0.hasPrefix("syscw:") })
    return try #require(Int(line.dropFirst(7)))
  }

  @Test(arguments: [false, true]) func `a commit of thirty pages is written with one system call, not with sixty`(
    isShared: Bool
  ) throws {
    let writer = try writer(isShared: isShared)
    let put = try writer.statement(Self.put)
    try writer.execute("PRAGMA cache_size=1000")
    // The first commit also writes the log's header.
    try writer.transaction { try put.binding(0, "first").run() }
    try writer.beginImmediateTransaction()
    for key in 1...28 { try put.binding(Int64(key), String(repeating: "x", count: 3900)).run() }
    let before = try writeCalls()
    try writer.commit()
    let calls = try writeCalls() - before
    #expect(calls == 1)
    #expect(try notes(reader(isShared: isShared)).count == 29)
  }

  @Test
  func
    `a log grows by stretches, into which commits go without making the file longer, and begins anew in what it has`()
    throws
  {
    let writer = try writer()
    let put = try writer.statement(Self.put)
    func length() throws -> Int {
      try #require(FileManager.default.attributesOfItem(atPath: folder.path + "/notes.sqlite-wal")[.size] as? Int)
    }
    var lengths: [Int] = []
    func commit(_ count: Int) throws {
      for key in 0..<count {
        try writer.transaction { try put.binding(Int64(key % 10), String(repeating: "\(key)", count: 500)).run() }
        lengths.append(try length())
      }
    }
    try commit(400)
    let frames = writer.logPageCount
    #expect(lengths == lengths.sorted() && Set(lengths).count < 12)
    #expect(
      lengths.allSatisfy { $0 >= 512 * 1024 } && lengths[399] > frames * 4120
        && lengths[399] < frames * 4120 + 1024 * 1024)
    try writer.checkpoint(.passive)
    lengths = []
    try commit(400)
    #expect(Set(lengths).count == 1)
    writer.close()
    #expect(try notes(Connection(exclusive: folder.path + "/notes.sqlite", mode: .readWrite)).count == 10)
  }

  @Test(arguments: ["FULL", "NORMAL"], [false, true])
  func `a transaction larger than the cache is invisible until it is committed, and wholly there then`(
    _ synchronous: String, isShared: Bool
  ) throws {
    let writer = try writer(synchronous: synchronous, isShared: isShared)
    let reader = try reader(isShared: isShared)
    let put = try writer.statement(Self.put)
    try writer.beginImmediateTransaction()
    for key in 0..<2000 { try put.binding(Int64(key), String(repeating: "y", count: 1000)).run() }
    #expect(try notes(reader).isEmpty)
    // The writer reads its own uncommitted pages back from the log.
    #expect(try notes(writer).count == 2000)
    try writer.commit()
    #expect(try notes(reader).count == 2000)
  }

  @Test func `a rolled back transaction that had reached the log leaves nothing, and the next one is right`() throws {
    let (writer, reader) = (try writer(), try reader())
    let put = try writer.statement(Self.put)
    try writer.beginImmediateTransaction()
    for key in 0..<2000 { try put.binding(Int64(key), String(repeating: "z", count: 1000)).run() }
    try writer.rollback()
    #expect(try notes(reader).isEmpty)
    try writer.transaction { try put.binding(7, "seven").run() }
    #expect(try notes(reader) == [7: "seven"])
    writer.close()
    let again = try Connection(exclusive: folder.path + "/notes.sqlite", mode: .readWrite)
    #expect(try notes(again) == [7: "seven"])
    #expect(try again.statement(SQL("check", "PRAGMA integrity_check")).all { $0.text(0) } == ["ok"])
  }

  @Test(arguments: 1...6)
  func `random commits, rollbacks and checkpoints leave what a dictionary says, also after reopening`(_ seed: Int)
    throws
  {
    var random = SeededGenerator(seed: UInt64(seed))
    let isShared = seed > 3
    var writer = try writer(synchronous: seed % 2 == 0 ? "FULL" : "NORMAL", isShared: isShared)
    var oracle: [Int64: String] = [:]
    for round in 0..<120 {
      var next = oracle
      let (put, remove) = (try writer.statement(Self.put), try writer.statement(Self.remove))
      try writer.beginImmediateTransaction()
      for _ in 0..<Int.random(in: 1...(round % 10 == 0 ? 300 : 20), using: &random) {
        let key = Int64.random(in: 0..<400, using: &random)
        if Bool.random(using: &random) {
          let text = String(repeating: "\(round)·", count: Int.random(in: 1...1500, using: &random))
          try put.binding(key, text).run()
          next[key] = text
        } else {
          try remove.binding(key).run()
          next[key] = nil
        }
      }
      if Int.random(in: 0..<5, using: &random) == 0 {
        try writer.rollback()
      } else {
        try writer.commit()
        oracle = next
      }
      #expect(try notes(reader(isShared: isShared)) == oracle, "seed \(seed), round \(round)")
      switch Int.random(in: 0..<12, using: &random) {
      case 0: try writer.checkpoint(.passive)
      case 1: try writer.checkpoint(.truncate)
      case 2:
        writer.close()
        writer = try open(.readWrite, isShared: isShared)
        try writer.execute("PRAGMA cache_size=10")
      default: break
      }
    }
    #expect(try writer.statement(SQL("check", "PRAGMA integrity_check")).all { $0.text(0) } == ["ok"])
  }
}
