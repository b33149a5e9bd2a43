// The upgrade to format 3, which counts the uses of assets and the bytes of zones and databases.

import Assets
import History
import Records
import SQLite

/// Counts uses and bytes in a file of an earlier format, and links the files that all shards had in common into this
/// shard's folders.
struct AssetUpgrade {
  private let connection: Connection
  private let file: ShardFile
  private var uses: [Asset: Int64] = [:]
  private var byteCounts: [Int64: Int64] = [:]

  init(_ connection: Connection, _ file: ShardFile) {
    self.connection = connection
    self.file = file
  }

  func run() throws {
    var counted = self
    try counted.countRecords()
    try counted.countHistory()
    try counted.store()
    try file.configuration.assets?.adoptUnsharded(
      counted.uses.keys.sorted { $0.hash.lexicographicallyPrecedes($1.hash) }, into: file.shard)
  }

  /// Records of deleted zones use their assets until they are swept, but add no bytes.
  private mutating func countRecords() throws {
    let doomed = Set(try connection.statement(SweepQuery.zones).all { $0.int64(0) })
    let rows = try connection.statement(SQL("upgradeRecords", "SELECT zone, data FROM record WHERE deleted = 0"))
    defer { rows.reset() }
    while try rows.step() {
      let zone = rows.int64(0)
      let (assets, length) = rows.withBytes(1) { (Self.assets(of: $0), Int64($0.count)) }
      for asset in assets { uses[asset, default: 0] += 1 }
      if !doomed.contains(zone) { byteCounts[zone, default: 0] += assets.reduce(length) { $0 + $1.byteCount } }
    }
  }

  private static func assets(of blob: UnsafeRawBufferPointer) -> [Asset] {
    // Dropped because the read of a damaged record reports it.
    (try? Record(decoding: blob, recordName: "", recordType: ""))?.assets ?? []
  }

  private mutating func countHistory() throws {
    let rows = try connection.statement(SQL("upgradeHistory", "SELECT id, payload FROM history"))
    let insert = try connection.statement(AssetQuery.insertHistoryAsset)
    var found: [(row: Int64, assets: Set<Asset>)] = []
    try rows.forEach { row in
      // Dropped because the read of a damaged transaction reports it.
      guard let transaction = try? HistoryTransaction(decoding: row.blob(1)) else { return }
      let assets = Set(transaction.assets)
      if !assets.isEmpty { found.append((row.int64(0), assets)) }
    }
    for (row, assets) in found {
      for asset in assets {
        uses[asset, default: 0] += 1
        try insert.binding(row, asset.hash).run()
      }
    }
  }

  private func store() throws {
    let insert = try connection.statement(
      SQL("upgradeAsset", "INSERT OR IGNORE INTO asset(hash, bytes, uses, orphaned) VALUES (?1, ?2, ?3, NULL)"))
    for (asset, count) in uses { try insert.binding(asset.hash, asset.byteCount, count).run() }
    let zone = try connection.statement(SQL("upgradeZone", "UPDATE zone SET bytes = ?2 WHERE id = ?1"))
    for (key, byteCount) in byteCounts { try zone.binding(key, byteCount).run() }
    try connection.execute(
      "UPDATE database SET bytes = coalesce((SELECT sum(bytes) FROM zone WHERE zone.database = database.id), 0)")
  }
}
