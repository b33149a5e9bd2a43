// The machine's limits: SQLite alone, and an HTTP server with empty answers.

import Glibc
import HTTPServer
import RecordStore
import SQLite

/// Commits of records like a shard's, by a program that does nothing else.
struct StorageLimit: Hashable, Sendable {
  let fileCount: Int
  let recordsPerCommit: Int

  static let all = [1, 200].flatMap { count in [1, 4].map { StorageLimit(fileCount: $0, recordsPerCommit: count) } }

  /// Pages of the log after which a checkpoint copies them into the file, as in a shard.
  static let checkpointPageCount = 3000

  var threadCount: Int { min(fileCount, 2) }

  var name: String {
    """
    SQLite, \(fileCount == 1 ? "1 file" : "\(fileCount) files on \(threadCount) threads"), \
    \(recordsPerCommit == 1 ? "1 record" : "\(recordsPerCommit) records") a commit
    """
  }

  /// - Parameter folder: on the disk of the data; the files stay in it.
  func measure(in folder: String, seconds: Double) async throws -> Measurement {
    var sum = Measurement()
    try await withThrowingTaskGroup(of: Measurement.self) { group in
      for thread in 0..<threadCount {
        let paths = (0..<fileCount).filter { $0 % threadCount == thread }.map {
          "\(folder)/limit-\(fileCount)-\(recordsPerCommit)-\($0)"
        }
        group.addTask {
          try await onOwnThread { Result { try Self.commit(recordsPerCommit, to: paths, seconds: seconds) } }.get()
        }
      }
      for try await measurement in group { sum.merge(measurement) }
    }
    return sum
  }

  /// Commits to the files in turn.
  private static func commit(_ count: Int, to paths: [String], seconds: Double) throws -> Measurement {
    let files = try paths.map { try LimitFile($0) }
    var measurement = Measurement()
    var random = FastRandom()
    let content = FastRandom.text(64 * 1024, &random)
    let start = Connections.now()
    let end = start + UInt64(seconds * 1e9)
    var number = 0
    while Connections.now() < end {
      let began = Connections.now()
      try files[number % files.count].commit(count, content, &random)
      measurement.add(since: began)
      number += 1
    }
    measurement.seconds = Double(Connections.now() - start) / 1e9
    return measurement
  }
}

/// A file with the tables, indexes and settings of a shard's records.
private final class LimitFile {
  private let connection: Connection
  private var sequence: Int64 = 0
  private var checkpointedPageCount = 0

  private static let recordByteCount = 1000

  init(_ path: String) throws {
    connection = try Connection(exclusive: path, mode: .readWrite)
    try connection.execute(
      """
      PRAGMA page_size=4096; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA cache_size=-8000; PRAGMA \
      temp_store=MEMORY; PRAGMA secure_delete=FAST;
      PRAGMA journal_size_limit=67108864;
      CREATE TABLE zone(id INTEGER PRIMARY KEY, seq INTEGER NOT NULL);
      INSERT INTO zone VALUES(1, 0);
      CREATE TABLE record(id INTEGER PRIMARY KEY, zone INTEGER NOT NULL, name NOT NULL, seq INTEGER NOT NULL, \
      type INTEGER NOT NULL, deleted INTEGER NOT NULL,
        data BLOB NOT NULL);
      CREATE INDEX record_name ON record(zone, name, type);
      CREATE UNIQUE INDEX record_changes ON record(zone, seq)
      """)
  }

  /// Commits records, their places in the zone's changes, and the zone's position, durably.
  func commit(_ count: Int, _ content: [UInt8], _ random: inout FastRandom) throws {
    let insert = try connection.statement(
      SQL("insert", "INSERT INTO record(zone, name, seq, type, deleted, data) VALUES(1, ?1, ?2, 1, 0, ?3)"))
    let position = try connection.statement(SQL("position", "UPDATE zone SET seq = ?1 WHERE id = 1"))
    try connection.transaction {
      for _ in 0..<count {
        sequence += 1
        let start = Int(random.next() % UInt64(content.count - Self.recordByteCount))
        let name = withUnsafeBytes(of: (random.next(), random.next())) { Array($0) }
        try insert.bind(1, name)
        try insert.bind(2, sequence)
        try content.withUnsafeBytes {
          try insert.bind(3, UnsafeRawBufferPointer(rebasing: $0[start..<start + Self.recordByteCount]))
        }
        try insert.run()
      }
      try position.binding(sequence).run()
    }
    if connection.logPageCount < checkpointedPageCount { checkpointedPageCount = 0 }
    if connection.logPageCount - checkpointedPageCount >= StorageLimit.checkpointPageCount {
      checkpointedPageCount = try connection.checkpoint(.passive).checkpointedPages
    }
  }
}

/// The same HTTP server, answering every request at once with an empty body.
struct ProtocolLimit: Hashable {
  let workload: Workload
  let clientCount: Int

  static let all = [
    ProtocolLimit(workload: .w1a, clientCount: 1), ProtocolLimit(workload: .w1a, clientCount: 16),
    ProtocolLimit(workload: .w1b, clientCount: 16),
  ]

  var name: String { "empty HTTP server, \(workload.rawValue):\(clientCount)" }

  func measure(batch: Int, threadCount: Int, length: RunLength) async throws -> Measurement {
    let server = try HTTPServer(handler: Nothing())
    defer { server.stop() }
    guard let target = Target(url: "http://127.0.0.1:\(server.port)") else { return Measurement() }
    let makers = (0..<clientCount).map { _ in
      RequestMaker(
        workload, count: workload.recordCount(batch: batch), target: "/database/1/c/development/private/records/modify",
        host: target.host, zoneName: "Z")
    }
    return await runClosedLoops(target, makers, threadCount: threadCount, length: length)
  }

  private struct Nothing: HTTPHandler {
    func respond(to request: HTTPRequest) async -> HTTPResponse { HTTPResponse(status: 200) }
    func refusal(status: Int, reason: String) -> HTTPResponse { HTTPResponse(status: status) }
  }
}
