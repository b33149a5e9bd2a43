// The bucket's spool: uploads, and the look for what they left.

import Crypto
import Records
import S3

extension AssetBucket {
  enum Form { case plain, sealed }

  /// Decides by the length alone; nil for a missing object or one of another length.
  func form(of key: String, _ asset: Asset) throws(AssetError) -> Form? {
    form(ofLength: try byteCount(of: key), asset)
  }

  func form(ofLength byteCount: Int64?, _ asset: Asset) -> Form? {
    switch byteCount {
    case asset.byteCount: .plain
    case SealedFile.byteCount(ofContent: asset.byteCount): .sealed
    default: nil
    }
  }

  /// The key of the content's newest object in the spool.
  /// - Parameter hours: the hours of the spool once they are known.
  func spooled(
    _ asset: Asset, _ hours: inout [Int64]?, where isWanted: (Form) -> Bool = { _ in true }
  ) throws(AssetError) -> String? {
    let known: [Int64]
    if let hours { known = hours } else { known = try self.hours() }
    hours = known
    for hour in known.reversed() {
      let key = spoolKey(hour, Hex.encode(asset.hash))
      if let form = try form(of: key, asset), isWanted(form) { return key }
    }
    return nil
  }

  public var uploadMemoryByteCount: Int { S3Parts.partByteCount }

  public func spool(until expiry: Int64) -> SpooledContent {
    let hour = SpoolHour.hour(of: expiry)
    return SpooledContent(PartObject(in: self, hour: hour), keys: keys, hour: hour)
  }

  public func sweepSpool(now: Int64) throws(AssetError) -> Int {
    var count = 0
    for hour in try hours() where SpoolHour.isOver(hour, at: now) {
      try list(spoolKey(hour, "")) { objects throws(AssetError) in
        // A page of a list has no more objects than a server deletes in one request.
        try delete(objects.map(\.key))
        count += objects.count
        return true
      }
    }
    for upload in try unfinishedUploads() where isOver(upload, at: now) {
      try abort(upload)
      count += 1
    }
    return count
  }

  private func isOver(_ upload: S3Upload, at now: Int64) -> Bool {
    if upload.key.hasPrefix(spoolFolder) {
      let hour = upload.key.dropFirst(spoolFolder.count).split(separator: "/").first.flatMap { Int64($0) }
      return hour.map { SpoolHour.isOver($0, at: now) } ?? false
    }
    // A copy to a shard. A bucket may have keys of others, too.
    guard StoredEntries.hash(in: String(upload.key.dropFirst(location.prefix.count))) != nil else { return false }
    return upload.begin.map { $0 + Self.copySeconds <= now } ?? false
  }

  /// No copy takes as long.
  private static let copySeconds: Int64 = 86_400

  /// The hours that the spool has contents for, ascending.
  func hours() throws(AssetError) -> [Int64] {
    try prefixes(in: spoolFolder).compactMap { Int64($0) }.sorted()
  }
}
