// The oracle's assets. It keeps no running counts: each count is recomputed from the stored rows.

import Crypto
import RecordStore
import Records

extension InMemoryTransaction {
  func asset(withHash hash: [UInt8]) throws -> StoredAsset? { rows.assets[hash] }

  func hasContent(of asset: Asset) throws -> Bool { rows.assets[asset.hash] != nil || hasUpload(asset) }

  /// Recounts all uses. Called after each write that could change which assets are used.
  func countAssets() throws {
    var uses: [[UInt8]: (asset: Asset, count: Int)] = [:]
    for records in rows.records.values {
      for row in records.values where !row.stored.isDeleted {
        for asset in row.stored.record.assets { uses[asset.hash, default: (asset, 0)].count += 1 }
      }
    }
    for row in rows.past where !row.state.stored.isDeleted {
      for asset in row.state.stored.record.assets { uses[asset.hash, default: (asset, 0)].count += 1 }
    }
    for assets in rows.historyAssets.values {
      for asset in assets { uses[asset.hash, default: (asset, 0)].count += 1 }
    }
    for row in rows.quarantine {
      for asset in row.assets { uses[asset.hash, default: (asset, 0)].count += 1 }
    }
    for row in rows.journal {
      for asset in row.assets { uses[asset.hash, default: (asset, 0)].count += 1 }
    }
    for (hash, use) in uses {
      guard hash.count == SHA256.byteCount else { throw ContradictingWrite("an asset's hash has \(hash.count) bytes") }
      if rows.assets[hash] == nil, !hasUpload(use.asset) { throw MissingAsset(use.asset) }
      rows.assets[hash] = StoredAsset(asset: use.asset, useCount: use.count, orphanedAt: nil)
    }
    for (hash, stored) in rows.assets where uses[hash] == nil && stored.useCount > 0 {
      rows.assets[hash] = StoredAsset(asset: stored.asset, useCount: 0, orphanedAt: now())
    }
  }

  func collectAssets(orphanedBefore cutoff: Int64, limit: Int) -> Int {
    let old = rows.assets.values.filter { $0.orphanedAt.map { $0 < cutoff } ?? false }
      .sorted { ($0.orphanedAt ?? 0) < ($1.orphanedAt ?? 0) }.first(limit)
    for stored in old { rows.assets[stored.asset.hash] = nil }
    return old.count
  }

  /// The counted bytes of a zone's records, a part of its database's `byteCount`.
  func byteCount(ofZone zone: Int64) -> Int64 { (rows.byteCounts[zone] ?? [:]).values.reduce(0, +) }
}
