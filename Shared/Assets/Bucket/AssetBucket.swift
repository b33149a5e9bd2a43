// Asset contents in an S3 bucket, with the names that they have in a folder.

public import Crypto
public import Records
public import S3
import Synchronization

/// Objects named by the SHA-256 of their content, below `uploads/<hour>/` and `shard-<n>/`, as in `AssetFolder`. So an
/// operator moves contents between the two by copying.
///
/// A shard adopts content by a copy within the bucket, which `prepare` makes before the commit. The commit itself asks
/// the bucket only for contents that nobody prepared.
public final class AssetBucket: AssetStore {
  private struct Place: Hashable {
    let shard: Int
    let hash: [UInt8]
  }

  private struct State {
    /// Contents that are in the shard, until a commit has used the knowledge or it is too old: seconds since 1970.
    var prepared: [Place: Int64] = [:]
    /// Contents whose removal may still happen, because no answer came: not to be relied on until then.
    var doubtful: [Place: Int64] = [:]
    /// Counts removals, which end what a `prepare` under way knows.
    var removalCount = 0
  }

  public let keys: KeyRing
  let connection: BucketConnection
  private let state = Mutex(State())

  private static let preparedSeconds: Int64 = 5
  private static let preparedLimit = 10_000
  private static let doubtfulSeconds: Int64 = 60
  /// The most objects that a server deletes in one request.
  private static let deletionCount = 1000
  /// A list answers more assets than this by one request; fewer are asked for one by one.
  private static let askedCount = 4

  /// - Parameters:
  ///   - clock: seconds since 1970.
  ///   - observe: called with each attempt, on any thread.
  public init(
    _ signer: S3Signer, keys: KeyRing = KeyRing(), clock: @escaping @Sendable () -> Int64,
    observe: @escaping @Sendable (BucketEvent) -> Void = { _ in }
  ) {
    self.keys = keys
    connection = BucketConnection(signer, clock: clock, observe: observe)
  }

  var location: S3Location { connection.signer.location }

  // MARK: Keys

  func key(of hash: [UInt8], shard: Int) -> String {
    location.prefix + Asset(hash: hash, byteCount: 0).relativePath(inShard: shard)
  }
  private func folder(ofShard shard: Int) -> String { location.prefix + Asset.folder(ofShard: shard) + "/" }
  var spoolFolder: String { location.prefix + "uploads/" }
  func spoolKey(_ hour: Int64, _ name: String) -> String { "\(spoolFolder)\(hour)/\(name)" }

  // MARK: A shard's contents

  public func prepare(_ assets: Set<Asset>, for shard: Int) throws(AssetError) {
    for asset in assets.sorted(by: { $0.hash.lexicographicallyPrecedes($1.hash) }) {
      let count = state.withLock(\.removalCount)
      guard try take(asset, into: shard, .patient) else { continue }
      let place = Place(shard: shard, hash: asset.hash)
      let expiry = connection.now + Self.preparedSeconds
      state.withLock { state in
        if state.removalCount != count { return }
        if state.prepared.count >= Self.preparedLimit { state.prepared = [:] }
        state.prepared[place] = expiry
      }
    }
  }

  public func adopt(_ asset: Asset, into shard: Int) throws(AssetError) -> String? {
    let place = Place(shard: shard, hash: asset.hash)
    let expiry = state.withLock { $0.prepared.removeValue(forKey: place) }
    if let expiry, expiry > connection.now { return Asset.folder(ofShard: shard) }
    return try take(asset, into: shard, .brief) ? Asset.folder(ofShard: shard) : nil
  }

  /// Does nothing: what a bucket has answered is durable.
  public func sync(_ place: String) {}

  public func canAdopt(_ asset: Asset, into shard: Int) throws(AssetError) -> Bool {
    let place = Place(shard: shard, hash: asset.hash)
    if let expiry = state.withLock({ $0.prepared[place] }), expiry > connection.now { return true }
    if try form(of: key(of: asset.hash, shard: shard), asset, .brief) != nil { return true }
    return try spooled(asset, .brief, where: { _ in true }) != nil
  }

  private enum Form { case plain, sealed }

  /// Decides by the length alone; nil for a missing object or one of another length.
  private func form(of key: String, _ asset: Asset, _ retry: S3Retry) throws(AssetError) -> Form? {
    form(ofLength: try byteCount(of: key, retry), asset)
  }

  private func form(ofLength byteCount: Int64?, _ asset: Asset) -> Form? {
    switch byteCount {
    case asset.byteCount: .plain
    case SealedFile.byteCount(ofContent: asset.byteCount): .sealed
    default: nil
    }
  }

  /// The key of the content's newest object in the spool.
  private func spooled(_ asset: Asset, _ retry: S3Retry, where isWanted: (Form) -> Bool) throws(AssetError) -> String? {
    for hour in try hours(retry).reversed() {
      let key = spoolKey(hour, Hex.encode(asset.hash))
      if let form = try form(of: key, asset, retry), isWanted(form) { return key }
    }
    return nil
  }

  /// Copies content from the spool unless the shard has it.
  /// - Returns: false when neither has it.
  private func take(_ asset: Asset, into shard: Int, _ retry: S3Retry) throws(AssetError) -> Bool {
    let place = Place(shard: shard, hash: asset.hash)
    let now = connection.now
    let isDoubtful = state.withLock { state in
      state.doubtful = state.doubtful.filter { $0.value > now }
      return state.doubtful[place] != nil
    }
    let target = key(of: asset.hash, shard: shard)
    if isDoubtful { throw .unavailable("\(location): the removal of \(target) was not answered yet") }
    let present = try form(of: target, asset, retry)
    if present == .sealed || present == .plain && !keys.canSeal { return true }
    let source = try spooled(asset, retry) { $0 == .sealed || present == nil }
    guard let source, try copy(source, to: target, retry) else { return present != nil }
    return true
  }

  public func present(_ assets: [Asset], in shard: Int) throws(AssetError) -> Set<Asset> {
    var present: Set<Asset> = []
    guard assets.count > Self.askedCount, let first = assets.first, let last = assets.last else {
      for asset in assets where try form(of: key(of: asset.hash, shard: shard), asset, .patient) != nil {
        present.insert(asset)
      }
      return present
    }
    var lengths: [String: Int64] = [:]
    let end = key(of: last.hash, shard: shard)
    // The list begins behind this key, which no object has.
    try list(folder(ofShard: shard), after: String(key(of: first.hash, shard: shard).dropLast())) { objects in
      for object in objects { lengths[object.key] = object.byteCount }
      return objects.last.map { $0.key < end } ?? false
    }
    for asset in assets where form(ofLength: lengths[key(of: asset.hash, shard: shard)], asset) != nil {
      present.insert(asset)
    }
    return present
  }

  public func offer(_ assets: [Asset], of shard: Int, until expiry: Int64) throws(AssetError) -> Set<Asset> {
    var offered: Set<Asset> = []
    for asset in assets {
      let target = spoolKey(SpoolHour.hour(of: expiry), Hex.encode(asset.hash))
      if try copy(key(of: asset.hash, shard: shard), to: target, .patient) { offered.insert(asset) }
    }
    return offered
  }

  public func remove(_ hashes: [[UInt8]], from shard: Int) throws(AssetError) {
    let places = hashes.map { Place(shard: shard, hash: $0) }
    state.withLock { state in
      state.removalCount += 1
      for place in places { state.prepared[place] = nil }
    }
    do throws(AssetError) {
      // One attempt: a repetition could come too late, after a commit has adopted the content again.
      try delete(hashes.map { key(of: $0, shard: shard) }, .brief)
    } catch {
      let end = connection.now + Self.doubtfulSeconds
      state.withLock { state in for place in places { state.doubtful[place] = end } }
      throw error
    }
  }

  public func parts(of shard: Int) throws(AssetError) -> [Int] {
    try prefixes(in: folder(ofShard: shard), .patient).compactMap { name in
      name.utf8.count == 2 ? Hex.decode(name).map { Int($0[0]) } : nil
    }
  }

  public func hashes(in part: Int, of shard: Int) throws(AssetError) -> [[UInt8]] {
    let digits = Hex.encode([UInt8(clamping: part)])
    let folder = "\(folder(ofShard: shard))\(digits)/"
    var hashes: [[UInt8]] = []
    try list(folder) { objects in
      hashes += objects.compactMap { object in
        Hex.decode(digits + object.key.dropFirst(folder.count)).flatMap { $0.count == SHA256.byteCount ? $0 : nil }
      }
      return true
    }
    return hashes
  }

  public func adoptUnsharded(_ assets: [Asset], into shard: Int) throws(AssetError) {
    for asset in assets {
      // An object that is missing here was missing before the upgrade.
      _ = try copy(location.prefix + asset.unshardedPath, to: key(of: asset.hash, shard: shard), .patient)
    }
  }

  public func open(_ hash: [UInt8], of shard: Int) throws(AssetError) -> AssetContent? {
    try content(at: key(of: hash, shard: shard), hash)
  }

  private func content(at key: String, _ hash: [UInt8]) throws(AssetError) -> AssetContent? {
    guard let bytes = try ObjectBytes(key, in: self) else { return nil }
    return try AssetContent(bytes, hash: hash, keys: keys)
  }

  public func read(_ asset: Asset, shard: Int) throws(AssetError) -> [UInt8] {
    guard asset.hash.count == SHA256.byteCount else { throw .io("an asset's hash has \(asset.hash.count) bytes") }
    let key = key(of: asset.hash, shard: shard)
    if let content = try content(at: key, asset.hash) { return try content.readAll(of: asset) }
    if let spooled = try spooled(asset, .patient, where: { _ in true }),
      let content = try content(at: spooled, asset.hash)
    {
      return try content.readAll(of: asset)
    }
    throw .io("\(Self.text(location, key)) is missing; restore an earlier version of it")
  }

  public var keepsFiles: Bool { false }
  public func file(of asset: Asset, shard: Int) -> String? { nil }

  // MARK: The spool

  public var uploadMemoryByteCount: Int { S3Parts.partByteCount }

  public func spool(until expiry: Int64) -> any SpooledContent {
    SpooledObject(in: self, hour: SpoolHour.hour(of: expiry))
  }

  public func sweepSpool(now: Int64) throws(AssetError) -> Int {
    var count = 0
    for hour in try hours(.patient) where SpoolHour.isOver(hour, at: now) {
      var keys: [String] = []
      try list(spoolKey(hour, "")) { objects in
        keys += objects.map(\.key)
        return true
      }
      for start in stride(from: 0, to: keys.count, by: Self.deletionCount) {
        try delete(Array(keys[start..<min(start + Self.deletionCount, keys.count)]), .patient)
      }
      count += keys.count
    }
    for upload in try unfinishedUploads() {
      let hour = upload.key.dropFirst(spoolFolder.count).split(separator: "/").first.flatMap { Int64($0) }
      guard let hour, SpoolHour.isOver(hour, at: now) else { continue }
      try abort(upload)
      count += 1
    }
    return count
  }

  /// The hours that the spool has contents for, ascending.
  private func hours(_ retry: S3Retry) throws(AssetError) -> [Int64] {
    try prefixes(in: spoolFolder, retry).compactMap { Int64($0) }.sorted()
  }
}
