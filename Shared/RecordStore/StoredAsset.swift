// The rows of assets, and the bytes that a record counts for.

public import Records

/// An asset whose content the shard has.
public struct StoredAsset: Hashable, Sendable {
  public let asset: Asset
  /// The number of uses: each naming in a live record (of a deleted zone until it is swept), past state, transaction,
  /// held back change or conflict.
  public let useCount: Int
  /// The time since when the content is unused, in milliseconds since 1970; nil while it is used.
  public let orphanedAt: Int64?

  public init(asset: Asset, useCount: Int, orphanedAt: Int64?) {
    self.asset = asset
    self.useCount = useCount
    self.orphanedAt = orphanedAt
  }
}

extension Record {
  /// The assets in its fields, lists included. An asset appears once for each place that names it.
  public var assets: [Asset] {
    var assets: [Asset] = []
    for element in fields.elements {
      switch element.field.value {
      case .asset(let asset): assets.append(asset)
      case .list(.asset, let values):
        for case .asset(let asset) in values { assets.append(asset) }
      default: break
      }
    }
    return assets
  }

  /// The bytes that the record adds to its database's `byteCount`: its stored form and its assets' content.
  public var countedByteCount: Int64 { assets.reduce(Int64(encoded().count)) { $0 + $1.byteCount } }
}

/// The assets and bytes that a stored record counts for; none for a tombstone.
struct RecordUse {
  let assets: [Asset]
  let byteCount: Int64

  init(_ stored: StoredRecord, encodedByteCount: Int) {
    self.init(stored.isDeleted ? [] : stored.record.assets, encodedByteCount: stored.isDeleted ? 0 : encodedByteCount)
  }

  init(_ assets: [Asset], encodedByteCount: Int) {
    self.assets = assets
    byteCount = assets.isEmpty ? Int64(encodedByteCount) : assets.reduce(Int64(encodedByteCount)) { $0 + $1.byteCount }
  }
}
