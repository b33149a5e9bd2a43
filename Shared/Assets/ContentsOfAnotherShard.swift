// Gives a shard contents of another one.

public import Records

extension AssetStore {
  /// Copies contents from one shard's part to another's, durably. Skips those that are there, and those that the first
  /// one has not. Nobody else may use the second shard.
  /// - Parameters:
  ///   - assets: ascending by hash, without repetitions; at most 1000.
  ///   - expiry: seconds since 1970; until then the contents lie in the spool.
  public func copy(_ assets: [Asset], from shard: Int, to other: Int, until expiry: Int64) throws(AssetError) {
    let present = try present(assets, in: other)
    let missing = assets.filter { !present.contains($0) }
    if missing.isEmpty { return }
    let offered = try offer(missing, of: shard, until: expiry)
    var places: Set<String> = []
    let copied = missing.filter(offered.contains)
    for asset in copied {
      // One by one: a preparation has a limited time for all of its contents.
      try prepare([asset], for: other)
      if case .done(let place) = try adopt(asset, into: other) { places.insert(place) }
    }
    for place in places.sorted() { try sync(place) }
    if try self.present(copied, in: other).count < copied.count {
      throw .unavailable("contents of shard \(shard) could not be copied to shard \(other)")
    }
  }
}
