// Saves until it is killed, and writes acknowledged saves into a ledger.

import Assets
import Glibc
import Indexing
import RecordStore
import Records

/// A body has 1…5 records of 200, a history transaction whose payload lists them, and an outcome with the same payload,
/// so that a checker can tell a lost body from a torn one. Now and then an index is made or dropped, so that some are
/// half filled or half removed at the end.
struct WriteLoop: Sendable {
  let directory: String
  let ledger: String
  let seed: UInt64
  let synchronous: String
  let usesAssets: Bool

  static let writerCount = 8
  private static let index = FieldIndex(recordType: "CD_Note", key: .field("CD_title"), kind: .words)

  func run() async {
    do {
      try await loop()
    } catch {
      fail("\(error)")
    }
  }

  private func loop() async throws {
    let descriptor = open(ledger, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { return fail("no ledger") }
    var options = SQLiteRecordStore.Options()
    options.synchronous = synchronous
    // Each checkpoint syncs the log, so that with NORMAL a kill behind one would lose nothing.
    options.checkpointPages = synchronous == "NORMAL" ? .max : 200
    options.indexSliceLimit = 10
    let store = try SQLiteRecordStore(
      SQLiteConfiguration(directory: directory, assets: assets, options: options), shardCount: 1)
    let shard = try await store.open(shard: 0)
    await withTaskGroup(of: Void.self) { group in
      for writer in 0..<Self.writerCount {
        group.addTask {
          do {
            try await write(writer, in: shard, descriptor)
          } catch {
            fail("\(error)")
          }
        }
      }
    }
  }

  private var assets: AssetFolder { AssetFolder(directory: directory + "/assets") }

  /// Ends like a worker whose shard can't be written: with a message.
  private func fail(_ message: String) {
    let line = Array((message + "\n").utf8)
    _ = Glibc.write(STDERR_FILENO, line, line.count)
    exit(74)
  }

  private func write(_ writer: Int, in shard: any ShardStore, _ ledger: Int32) async throws {
    let (database, zone, mirror, last) = try await shard.enqueue { transaction in
      guard let container = ContainerID(rawValue: "iCloud.org.example.loop") else {
        throw StoreError.io("no container")
      }
      let database = try transaction.makeDatabase(
        DatabaseID(container: container, environment: .production, owner: "writer \(writer)"))
      let zone = try transaction.makeZone(named: "zone", in: database.key)
      let mirror =
        try transaction.mirror("store", in: database.key)
        ?? transaction.makeMirror(
          "store", in: database.key, userRecordName: "", scope: .private, modelHash: "", configuration: nil,
          deviceName: nil, createdAt: 0)
      return (database.key, zone.key, mirror.key, mirror.lastTransactionNumber)
    }.value
    var state = seed &+ UInt64(writer)
    var number = last
    while true {
      number += 1
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      let key = "\(writer)-\(number)"
      let asset =
        usesAssets && state >> 40 % 3 == 0 ? try assets.put(Array("the content of \(key)".utf8), until: 0) : nil
      try await shard.enqueue { [number, state] transaction in
        var lines: [String] = []
        if number % 8 == 1 { _ = try transaction.makeIndex(Self.index, in: database) }
        if number % 24 == 20 {
          for known in try transaction.indexes(in: database) { try transaction.dropIndex(known.key) }
        }
        for index in 0..<1 + Int(state >> 33 % 5) {
          let name = "note \((state >> 20 &+ UInt64(index)) % 200)"
          let sequence = try transaction.nextSequence(in: database)
          let existing = try transaction.record(named: name, in: zone)
          let stamp = Stamp(timestamp: number, userRecordName: "writer")
          var record = Record(
            recordName: name, recordType: "CD_Note",
            fields: ["CD_title": .string(key), "CD_body": .string(String(repeating: "b", count: 700))],
            created: stamp, modified: stamp)
          if let asset { record.fields["CD_file"] = Field(.asset(asset)) }
          try transaction.put(
            StoredRecord(record: record, isDeleted: false, sequence: sequence, origin: mirror, sequenceOfOthers: 0),
            in: zone,
            references: [OutgoingReference(field: "CD_next", target: "note \(state >> 40 % 200)")],
            isNew: existing == nil)
          lines.append("\(name)=\(sequence)")
        }
        let payload = Array(lines.joined(separator: ";").utf8)
        try transaction.append(
          StoredTransaction(number: number, transactionID: key, author: nil, appendedAt: number, payload: payload),
          assets: asset.map { [$0] } ?? [],
          to: mirror)
        try transaction.putOutcome(payload, of: key, at: number)
      }.value
      let line = Array((key + "\n").utf8)
      guard Glibc.write(ledger, line, line.count) == line.count else { return fail("no ledger") }
    }
  }
}
