// Encrypted values at rest (T-M22): no file of the shard has their bytes, and without their key the shard is refused.

import Crypto
import Foundation
import Records
import SQLite
import Testing

@testable import RecordStore

struct SealingTests {
  static let secret = "an-open-secret-0123456789"

  static func keys(_ digits: String...) throws -> KeyRing {
    try KeyRing(parsing: digits.map { String(repeating: $0, count: 64) }.joined(separator: "\n"))
  }

  private static func store(_ folder: TemporaryFolder, _ keys: KeyRing) throws -> SQLiteRecordStore {
    var options = SQLiteRecordStore.Options()
    options.keepsPastStates = true
    return try SQLiteRecordStore(
      SQLiteConfiguration(directory: folder.path, keys: keys, options: options), shardCount: 1)
  }

  private static func note(_ name: String, _ secret: String) -> Record {
    var record = Sample.note(name, title: "plain-" + secret)
    record.fields["CD_secret"] = Field(.string(secret), isEncrypted: true)
    return record
  }

  /// The number of files below a folder that contain the text.
  static func files(in path: String, with text: String) throws -> Int {
    let names = try #require(FileManager.default.enumerator(atPath: path)?.allObjects as? [String])
    return names.count { FileManager.default.contents(atPath: path + "/" + $0)?.range(of: Data(text.utf8)) != nil }
  }

  /// Writes a secret to every place that may hold one.
  private static func fill(_ shard: any ShardStore, _ place: Place, _ mirror: Int64, _ secret: String, number: Int64)
    async throws
  {
    try await shard.write { transaction in
      let payload = Array("\(secret) in history".utf8)
      try transaction.append(
        StoredTransaction(
          number: number, transactionID: "t\(number)", author: "app", appendedAt: 1, payload: payload, isEncrypted: true
        ), assets: [], to: mirror)
      try transaction.putQuarantined(
        QuarantineConformanceTests.object(mirror, "q\(number)"), changes: Array("\(secret) held back".utf8), assets: [])
      _ = try transaction.appendConflict(
        JournalConformanceTests.conflict(place.database, "c\(number)"), content: Array("\(secret) lost".utf8),
        assets: [])
      // The same name twice, so that the first save becomes a past state.
      for step in 0..<2 { try transaction.save(Self.note("a", "\(secret) \(number) \(step)"), in: place) }
    }
  }

  private static func check(_ shard: any ShardStore, _ place: Place, _ mirror: Int64, through number: Int64)
    async throws
  {
    try await shard.read { (snapshot) throws in
      #expect(
        try snapshot.record(named: "a", in: place.zone)?.record.fields["CD_secret"]
          == Field(.string("\(secret) \(number) 1"), isEncrypted: true))
      let states = try snapshot.states(of: "a", in: place.zone).map { $0.record.fields.string("CD_secret") }
      #expect(states == (1...number).flatMap { ["\(secret) \($0) 0", "\(secret) \($0) 1"] })
      let history = try snapshot.transactions(of: mirror, after: 0, limit: 99, byteLimit: 1 << 20)
      #expect(
        history.map { String(decoding: $0.payload, as: UTF8.self) } == (1...number).map { _ in "\(secret) in history" })
      let all = history.allSatisfy { $0.isEncrypted }
      #expect(all)
      for held in try snapshot.quarantined(of: mirror, afterKey: 0, limit: 99) {
        #expect(try snapshot.quarantinedChanges(held.key) == Array("\(secret) held back".utf8))
      }
      for conflict in try snapshot.conflicts(in: place.database, afterNumber: 0, ConflictFilter(), limit: 99) {
        #expect(try snapshot.conflictContent(conflict.number, in: place.database) == Array("\(secret) lost".utf8))
      }
    }
    if let store = shard as? SQLiteShardStore { #expect(try await store.verify().problems == []) }
  }

  @Test
  func
    `T-M22 encrypted values are in no file of the shard, whichever table holds them, and every key opens its own`()
    async throws
  {
    let folder = try TemporaryFolder()
    var shard = try await Self.store(folder, try Self.keys("1")).open(shard: 0)
    let place = try await Place(in: shard)
    let mirror = try await HistoryConformanceTests.makeMirror(in: shard, database: place.database).key
    try await Self.fill(shard, place, mirror, Self.secret, number: 1)
    try await Self.check(shard, place, mirror, through: 1)
    // While the log exists, and after it is gone.
    #expect(try Self.files(in: folder.path, with: Self.secret) == 0)
    await shard.close()
    #expect(try Self.files(in: folder.path, with: Self.secret) == 0)

    // A second key seals from now on.
    shard = try await Self.store(folder, try Self.keys("1", "2")).open(shard: 0)
    try await Self.fill(shard, place, mirror, Self.secret, number: 2)
    try await Self.check(shard, place, mirror, through: 2)
    await shard.close()
    #expect(try Self.files(in: folder.path, with: Self.secret) == 0)

    for keys in [try Self.keys("1"), try Self.keys("2"), try Self.keys("3"), KeyRing()] {
      do {
        await (try await Self.store(folder, keys).open(shard: 0)).close()
        Issue.record("a shard was opened without a key of its own")
      } catch StoreError.missingKey(let reason) {
        #expect(reason.hasPrefix("shard 0 holds values that were sealed with the encryption key "))
      }
    }
    shard = try await Self.store(folder, try Self.keys("2", "1")).open(shard: 0)
    try await Self.check(shard, place, mirror, through: 2)
    await shard.close()
  }

  @Test func `without a key encrypted values are refused, and everything else is as ever`() async throws {
    let folder = try TemporaryFolder()
    let shard = try await Self.store(folder, KeyRing()).open(shard: 0)
    let place = try await Place(in: shard)
    let mirror = try await HistoryConformanceTests.makeMirror(in: shard, database: place.database).key
    let isMissingKey = { (error: any Error) in if case StoreError.missingKey = error { true } else { false } }
    await #expect(
      performing: { try await shard.write { try $0.save(Self.note("a", "x"), in: place) } }, throws: isMissingKey)
    await #expect(
      performing: {
        try await shard.write {
          try $0.append(
            StoredTransaction(
              number: 1, transactionID: "t", author: nil, appendedAt: 1, payload: [1], isEncrypted: true), assets: [],
            to: mirror)
        }
      }, throws: isMissingKey)
    try await shard.write { transaction in
      try transaction.save(Sample.note("b", title: "in clear"), in: place)
      try transaction.append(
        StoredTransaction(number: 1, transactionID: "t", author: nil, appendedAt: 1, payload: [1]), assets: [],
        to: mirror)
    }
    #expect(try await shard.read { try $0.counts().records } == 1)
    await shard.close()
    #expect(try Self.files(in: folder.path, with: "in clear") > 0, "the look into the files sees")
    await (try Self.store(folder, KeyRing()).open(shard: 0)).close()
  }

  @Test func `a failed write leaves no need for the key behind, and others' writes in the same commit do`() async throws
  {
    let folder = try TemporaryFolder()
    var shard = try await Self.store(folder, try Self.keys("1")).open(shard: 0)
    let place = try await Place(in: shard)
    await #expect(throws: CancellationError.self) {
      try await shard.write { transaction in
        try transaction.save(Self.note("a", "x"), in: place)
        throw CancellationError()
      }
    }
    await shard.close()
    shard = try await Self.store(folder, KeyRing()).open(shard: 0)
    await shard.close()
    shard = try await Self.store(folder, try Self.keys("1")).open(shard: 0)
    let bodies = (0..<3).map { number in
      shard.enqueue { transaction -> Void in
        try transaction.save(Self.note("\(number)", "x"), in: place)
        if number != 1 { throw CancellationError() }
      }
    }
    for body in bodies { _ = try? await body.value }
    await shard.close()
    await #expect(throws: StoreError.self) { _ = try await Self.store(folder, KeyRing()).open(shard: 0) }
  }

  @Test func `a row from before the key stays readable, and is sealed by its next write`() async throws {
    let folder = try TemporaryFolder()
    let keys = try Self.keys("1")
    var shard = try await Self.store(folder, keys).open(shard: 0)
    let place = try await Place(in: shard)
    let record = Self.note("a", Self.secret)
    let stored = try await shard.write { try $0.save(record, in: place) }
    await shard.close()
    // As an earlier release wrote it.
    let connection = try Connection(exclusive: folder.path + "/shard-0.sqlite", mode: .readWrite)
    let type = try #require(try connection.statement(SQL("type", "SELECT type FROM record")).first { $0.int64(0) })
    let data = record.encoded()
    let header = RecordRowHeader(
      zone: place.zone, sequence: stored.sequence, type: type, isDeleted: false, origin: 0, sequenceOfOthers: 0)
    let sum = data.withUnsafeBytes { header.checksum(name: "a", references: [], data: $0) }
    try connection.statement(SQL("plain", "UPDATE record SET data = ?1, sum = ?2")).binding(data, sum).run()
    try connection.execute("DELETE FROM sealing_key")
    try connection.checkpoint(.truncate)
    connection.close()
    #expect(try Self.files(in: folder.path, with: Self.secret) == 1)

    shard = try await Self.store(folder, keys).open(shard: 0)
    #expect(try await shard.read { try $0.record(named: "a", in: place.zone) } == stored)
    if let store = shard as? SQLiteShardStore { #expect(try await store.verify().problems == []) }
    _ = try await shard.write { try $0.save(Self.note("a", "another"), in: place) }
    let blob = try await shard.read { snapshot in
      try (snapshot as? SQLiteSnapshot)?.session.connection.statement(SQL("blob", "SELECT data FROM record")).first {
        $0.withBytes(0, KeyRing.isSealed)
      }
    }
    #expect(blob == true)
    await shard.close()
  }
}
