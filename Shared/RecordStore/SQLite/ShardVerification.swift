// Verifies a whole shard: SQLite's own check, every checksum, and the agreement of the tables.

import Assets
import Crypto
import Records
import SQLite
import Sharing

/// One verification, within one read transaction.
struct ShardVerification {
  private let snapshot: SQLiteSnapshot
  private var report = VerificationReport()
  /// The bytes of records, by zone.
  private var byteCounts: [Int64: Int64] = [:]
  /// The uses of assets, by the first 8 bytes of their hashes. There may be millions, and each takes some 30 bytes.
  private var uses: [UInt64: Int32] = [:]
  /// Zones with an unreadable record, whose bytes and uses are unknown.
  private var damagedZones: Set<Int64> = []

  init(_ snapshot: SQLiteSnapshot) { self.snapshot = snapshot }

  /// - Parameters:
  ///   - assets: the store of the files; nil skips the files.
  ///   - readsAssets: whether to read the files as well and compare their content with their names.
  static func report(on snapshot: SQLiteSnapshot, assets: (any AssetStore)?, readsAssets: Bool) throws
    -> VerificationReport
  {
    var verification = ShardVerification(snapshot)
    try verification.checkPages()
    try verification.checkRecords()
    try verification.checkPast()
    try verification.checkHistory()
    try verification.checkQuarantine()
    try verification.checkJournal()
    try verification.checkShares()
    try verification.checkByteCounts()
    try verification.checkAssets(assets, reads: readsAssets)
    for check in checks(snapshot.session.connection.dialect) { try verification.run(check) }
    return verification.report
  }

  private func statement(_ name: String, _ text: String) throws -> StoreStatement {
    try snapshot.session.statement(SQL(name, text))
  }

  /// Runs SQLite's own check of pages and of indexes against their tables.
  private mutating func checkPages() throws {
    guard case .sqlite = snapshot.session.connection else { return }
    let lines = try statement("integrity_check", "PRAGMA integrity_check(\(VerificationReport.problemLimit))").all {
      $0.text(0)
    }
    for line in lines where line != "ok" {
      report.note(line)
      report.isStructureDamaged = true
    }
  }

  /// Verifies every record's checksum, index entries and references.
  private mutating func checkRecords() throws {
    let rows = try statement(
      "verifyRecords",
      "SELECT id, seq, type, deleted, origin, others, sum, refs, data, name, zone FROM record ORDER BY id")
    var entries = try EntryVerification(snapshot)
    let reference = try statement(
      "verifyReference", "SELECT count(*) FROM reference WHERE zone = ?1 AND target = ?2 AND field = ?3 AND source = ?4"
    )
    var referenceCount = 0
    defer { rows.reset() }
    while try rows.step() {
      let (id, zone) = (rows.int64(0), rows.int64(10))
      report.recordCount += 1
      let stored: StoredRecord
      do {
        stored = try snapshot.record(rows, named: try snapshot.recordName(rows, 9), zone: zone)
        let use = RecordUse(stored, encodedByteCount: rows.withBytes(8) { KeyRing.contentByteCount(of: $0) })
        byteCounts[zone, default: 0] += use.byteCount
        for asset in use.assets { uses[Self.beginning(asset.hash), default: 0] += 1 }
      } catch let error as StoreError {
        report.note("\(error)")
        damagedZones.insert(zone)
        continue
      }
      guard let references = StoredReferences.decode(rows.blob(7)) else {
        report.note("record \(id): its list of references can't be read")
        continue
      }
      // The rows of a deleted zone are removed table by table, so they need not agree.
      if try snapshot.isDoomed(zone) { continue }
      try entries.check(stored, rowID: id, zone: zone, &report)
      referenceCount += references.count
      for entry in references {
        try reference.bind(1, zone)
        try reference.bind(2, recordName: entry.target)
        try reference.bind(3, entry.field)
        try reference.bind(4, id)
        if try reference.first({ $0.int(0) }) != 1 { report.note("record \(id): a reference is missing in the index") }
      }
    }
    try entries.finish(&report)
    let indexed = try statement(
      "countReferences", "SELECT count(*) FROM reference WHERE zone NOT IN (SELECT zone FROM doomed)"
    ).first { $0.int(0) }
    if let indexed, indexed != referenceCount {
      report.note("the index of references has \(indexed) rows, the records have \(referenceCount)")
    }
  }

  /// Verifies every past state, and counts its assets as used.
  private mutating func checkPast() throws {
    let rows = try statement(
      "verifyPast", "SELECT id, seq, type, deleted, origin, others, sum, refs, data, name, zone FROM past ORDER BY id")
    defer { rows.reset() }
    while try rows.step() {
      report.pastStateCount += 1
      do {
        let stored = try snapshot.record(rows, named: try snapshot.recordName(rows, 9), zone: rows.int64(10))
        for asset in RecordUse(stored, encodedByteCount: 0).assets { uses[Self.beginning(asset.hash), default: 0] += 1 }
      } catch let error as StoreError {
        report.note("\(error)")
        damagedZones.insert(rows.int64(10))
      }
    }
  }

  private mutating func checkHistory() throws {
    let rows = try statement(
      "verifyHistory", "SELECT id, appended, sum, txid, author, payload, mirror FROM history ORDER BY id")
    defer { rows.reset() }
    while try rows.step() {
      report.transactionCount += 1
      do {
        let transaction = try snapshot.transaction(rows, of: rows.int64(6))
        if HistoryRowID.of(rows.int64(6), transaction.number) != rows.int64(0) {
          report.note("history \(rows.int64(0)): the row is another mirror's")
        }
      } catch let error as StoreError {
        report.note("\(error)")
      }
    }
  }

  private mutating func checkQuarantine() throws {
    for key in try statement("verifyQuarantined", "SELECT id FROM quarantine ORDER BY id").all({ $0.int64(0) }) {
      do {
        _ = try snapshot.quarantinedChanges(key)
      } catch let error as StoreError {
        report.note("\(error)")
      }
    }
  }

  private mutating func checkJournal() throws {
    for (number, database) in try statement("verifyConflicts", "SELECT number, database FROM journal ORDER BY id").all({
      ($0.int64(0), $0.int64(1))
    }) {
      do {
        _ = try snapshot.conflictContent(number, in: database)
      } catch let error as StoreError {
        report.note("\(error)")
      }
    }
  }

  /// Verifies every share, and compares its invitations and members with its state.
  private mutating func checkShares() throws {
    let rows = try statement(
      "verifyShares",
      "SELECT id, zone, name, root, guid, sum, state FROM share WHERE zone NOT IN (SELECT zone FROM doomed) ORDER BY id"
    )
    let guids = try statement("verifyInvitations", "SELECT guid FROM invitation WHERE share = ?1 ORDER BY guid")
    let users = try statement(
      "verifyMembers",
      """
      SELECT m."user" FROM member m JOIN zone z ON z.database = m.database AND z.name = m.zone WHERE z.id = ?1 \
      AND m.share = ?2 AND m.until IS NULL ORDER BY m."user"
      """)
    for key in try rows.all({ $0.int64(0) }) {
      let row = try statement("verifyShare", "SELECT id, zone, name, root, guid, sum, state FROM share WHERE id = ?1")
      try row.bind(1, key)
      do {
        guard let (zone, share) = try row.first({ try snapshot.share($0) }) else { continue }
        try guids.bind(1, key)
        if try guids.all({ $0.text(0) }) != (share.state?.oneTimeGUIDs ?? []).sorted(by: { $0.precedes($1) }) {
          report.note("share \(key) has other invitations than it says")
        }
        try users.bind(1, zone)
        try users.bind(2, share.name)
        let members = (share.state?.members ?? []).compactMap(\.identity.userRecordName).sorted { $0.precedes($1) }
        if try users.all({ $0.text(0) }) != members { report.note("share \(key) has other members than it says") }
      } catch let error as StoreError {
        report.note("\(error)")
      }
    }
  }

  /// Compares the byte counts of zones with those of their records.
  private mutating func checkByteCounts() throws {
    for (zone, count) in try statement("verifyZoneBytes", "SELECT id, bytes FROM zone WHERE deleted = 0 ORDER BY id")
      .all({ ($0.int64(0), $0.int64(1)) })
    where byteCounts[zone, default: 0] != count && !damagedZones.contains(zone) {
      report.note("zone \(zone) counts \(count) bytes, its records have \(byteCounts[zone, default: 0])")
    }
  }

  /// Verifies that every file is used as often as its row counts, and exists.
  private mutating func checkAssets(_ assets: (any AssetStore)?, reads: Bool) throws {
    try statement("verifyHistoryAssets", "SELECT hash FROM history_asset").forEach {
      uses[Self.beginning($0.blob(0)), default: 0] += 1
    }
    var found: [Asset] = []
    let rows = try statement("verifyAssets", "SELECT hash, bytes, uses FROM asset ORDER BY hash")
    defer { rows.reset() }
    while try rows.step() {
      let (hash, byteCount, count) = (rows.blob(0), rows.int64(1), rows.int(2))
      let asset = Asset(hash: hash, byteCount: byteCount)
      let useCount = Int(uses.removeValue(forKey: Self.beginning(hash)) ?? 0)
      if useCount > count || useCount < count && damagedZones.isEmpty {
        report.note("asset \(asset.unshardedPath) counts \(count) uses, there are \(useCount)")
      }
      // The file of an unused asset may be in the process of removal.
      guard count > 0, let assets else { continue }
      found.append(asset)
      if found.count == Self.assetBatchCount { try check(&found, in: assets, reads: reads) }
    }
    if let assets { try check(&found, in: assets, reads: reads) }
    for beginning in uses.keys.sorted().prefix(VerificationReport.problemLimit) {
      report.note("an asset with a hash that begins with \(Self.text(beginning)) has no row")
    }
  }

  /// Assets that the store is asked for at a time.
  private static let assetBatchCount = 1000

  /// Verifies that contents exist.
  private mutating func check(_ batch: inout [Asset], in assets: any AssetStore, reads: Bool) throws {
    defer { batch = [] }
    report.assetCount += batch.count
    let present: Set<Asset>
    do throws(AssetError) {
      present = try assets.present(batch, in: snapshot.shard)
    } catch {
      throw StoreError(error)
    }
    for asset in batch {
      // Reading contents does not ask the watch by itself, as statements do.
      if snapshot.session.watch.isOver { throw StoreError.closed(shard: snapshot.shard) }
      if !present.contains(asset) {
        report.note("asset \(asset.unshardedPath) is missing or has another length")
      } else if reads {
        do throws(AssetError) {
          try assets.verify(asset, shard: snapshot.shard)
        } catch {
          report.note("\(error)")
        }
      }
    }
  }

  private static func beginning(_ hash: [UInt8]) -> UInt64 { hash.prefix(8).reduce(0) { $0 << 8 | UInt64($1) } }

  private static func text(_ beginning: UInt64) -> String {
    Hex.encode((0..<8).map { UInt8(truncatingIfNeeded: beginning >> (56 - 8 * $0)) })
  }

  private mutating func run(_ check: (name: String, text: String, problem: String)) throws {
    let keys = try statement(check.name, check.text + " LIMIT \(VerificationReport.problemLimit)").all { $0.int64(0) }
    for key in keys { report.note("\(check.problem) (\(key))") }
  }
}

extension SQLiteShardStore {
  /// Verifies the shard in one read transaction. The write-ahead log cannot restart meanwhile.
  public func verify(readsAssets: Bool = false) async throws -> VerificationReport {
    try await readWhole { [assets] snapshot, _ in
      try ShardVerification.report(on: snapshot, assets: assets, readsAssets: readsAssets)
    }
  }
}
