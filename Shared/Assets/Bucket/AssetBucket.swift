// Asset contents in an S3 bucket, with the names that they have in a folder.

public import Crypto
import Dispatch
public import Records
public import S3
import Synchronization

/// Objects named by the SHA-256 of their content, below `uploads/<hour>/` and `shard-<n>/`, as in `AssetFolder`. So an
/// operator moves contents between the two by copying.
///
/// A shard adopts content by a copy within the bucket, which `prepare` makes before the commit. The commit itself asks
/// the bucket for nothing.
public final class AssetBucket: AssetStore {
  private struct Place: Hashable {
    let shard: Int
    let hash: [UInt8]
  }

  private struct Known {
    let isPresent: Bool
    /// Seconds since 1970.
    var until: Int64
  }

  private struct Search {
    var callCount = 0
    /// True when a removal began or ended meanwhile: what was found may be gone.
    var isOutdated = false
  }

  private struct State {
    /// What `prepare` has found out, until a commit has used it.
    var known: [Place: Known] = [:]
    /// Contents whose removal is announced or under way, and the end of that if it never comes: seconds since 1970.
    var leaving: [Place: Int64] = [:]
    /// Contents whose removal has no answer, and the end of the time in which it may be carried out.
    var doubtful: [Place: Int64] = [:]
    /// Contents that calls of `prepare` look for now.
    var sought: [Place: Search] = [:]
  }

  public let keys: KeyRing
  let limits: Limits
  /// The longest content that `claim` looks for a way for.
  let contentByteLimit: Int64
  let connection: BucketConnection
  private let state = Mutex(State())
  /// Threads that help preparations of many contents. A preparation waits for none that is busy.
  private let helpers = (0..<helperCount).map { DispatchQueue(label: "aquifer.assets.helper.\($0)") }
  private static let (helperCount, assetsPerHelper) = (16, 8)

  private static let knownSeconds: Int64 = 5
  private static let knownLimit = 10_000
  /// The server refuses a removal that comes later than `S3Request.lifetime`, and has the same time once more to end
  /// one that it has begun.
  private static let doubtfulSeconds = 2 * S3Request.lifetime
  /// A list answers more assets than this by few requests; fewer are asked for one by one. Other shards' contents lie
  /// in the spool, too.
  private static let (askedCount, askedOffers) = (4, 64)

  /// - Parameters:
  ///   - contentByteLimit: the longest content that this process takes from clients; 0 when it takes none.
  ///   - clock: seconds since 1970.
  ///   - observe: called with each attempt, on any thread.
  public convenience init(
    _ signer: S3Signer, keys: KeyRing = KeyRing(), contentByteLimit: Int64 = 0,
    clock: @escaping @Sendable () -> Int64, observe: @escaping @Sendable (BucketEvent) -> Void = { _ in }
  ) {
    self.init(
      signer, keys: keys, contentByteLimit: contentByteLimit, limits: Limits(), clock: clock, observe: observe)
  }

  init(
    _ signer: S3Signer, keys: KeyRing, contentByteLimit: Int64 = 0, limits: Limits,
    clock: @escaping @Sendable () -> Int64, observe: @escaping @Sendable (BucketEvent) -> Void
  ) {
    self.keys = keys
    self.contentByteLimit = contentByteLimit
    self.limits = limits
    connection = BucketConnection(signer, clock: clock, observe: observe)
  }

  var location: S3Location { connection.signer.location }

  // MARK: Keys

  func key(of hash: [UInt8], shard: Int) -> String {
    location.prefix + Asset(hash: hash, byteCount: 0).relativePath(inShard: shard)
  }
  func folder(ofShard shard: Int) -> String { location.prefix + Asset.folder(ofShard: shard) + "/" }
  var spoolFolder: String { location.prefix + "uploads/" }
  func spoolKey(_ hour: Int64, _ name: String) -> String { location.prefix + SpoolHour.name(hour, name) }

  // MARK: A shard's contents

  /// Asks for several of many contents at a time, and gives up after a while: the next attempt finds what was copied.
  ///
  /// The first content is known for as long as the last one, because a commit needs all of them.
  public func prepare(_ assets: Set<Asset>, for shard: Int) throws(AssetError) {
    let deadline = connection.now + limits.patienceSeconds
    let work = SharedWork(Self.ascending(assets))
    for helper in helpers.prefix(assets.count / Self.assetsPerHelper) {
      helper.async {
        var hours: [Int64]?
        work.help { asset throws(AssetError) in try self.look(for: asset, shard, before: deadline, &hours) }
      }
    }
    var hours: [Int64]?
    try work.complete { asset throws(AssetError) in try look(for: asset, shard, before: deadline, &hours) }
    prolong(assets.map { Place(shard: shard, hash: $0.hash) })
  }

  private func look(
    for asset: Asset, _ shard: Int, before deadline: Int64, _ hours: inout [Int64]?
  ) throws(AssetError) {
    if connection.now >= deadline { throw .unavailable("\(location): copies for shard \(shard) take too long") }
    let place = Place(shard: shard, hash: asset.hash)
    state.withLock { $0.sought[place, default: Search()].callCount += 1 }
    let found = Result { () throws(AssetError) in try take(asset, into: shard, &hours) }
    end(search: place, found)
    _ = try found.get()
  }

  private static func ascending(_ assets: Set<Asset>) -> [Asset] {
    assets.sorted { $0.hash.lexicographicallyPrecedes($1.hash) }
  }

  private func end(search place: Place, _ found: Result<Bool, AssetError>) {
    let until = connection.now + Self.knownSeconds
    state.withLock { state in
      guard var search = state.sought[place] else { return }
      search.callCount -= 1
      state.sought[place] = search.callCount > 0 ? search : nil
      guard case .success(let isPresent) = found, !search.isOutdated else { return }
      if state.known.count >= Self.knownLimit { state.known = [:] }
      state.known[place] = Known(isPresent: isPresent, until: until)
    }
  }

  private func prolong(_ places: [Place]) {
    let until = connection.now + Self.knownSeconds
    state.withLock { state in
      for place in places { state.known[place]?.until = until }
    }
  }

  /// Uses what is known once: a later commit asks the bucket again.
  public func adopt(_ asset: Asset, into shard: Int) -> Adoption {
    let place = Place(shard: shard, hash: asset.hash)
    guard let known = state.withLock({ $0.known.removeValue(forKey: place) }), known.until > connection.now else {
      return .unprepared
    }
    return known.isPresent ? .done(place: Asset.folder(ofShard: shard)) : .missing
  }

  /// Does nothing: what a bucket has answered is durable.
  public func sync(_ place: String) {}

  public func canAdopt(_ asset: Asset, into shard: Int) -> Bool? {
    let known = state.withLock { $0.known[Place(shard: shard, hash: asset.hash)] }
    return known.flatMap { $0.until > connection.now ? $0.isPresent : nil }
  }

  /// Copies content from the spool unless the shard has it.
  /// - Returns: false when neither has it.
  private func take(_ asset: Asset, into shard: Int, _ hours: inout [Int64]?) throws(AssetError) -> Bool {
    let place = Place(shard: shard, hash: asset.hash)
    let now = connection.now
    let isDoubtful = state.withLock { state in
      state.leaving = state.leaving.filter { $0.value > now }
      state.doubtful = state.doubtful.filter { $0.value > now }
      return state.leaving[place] != nil || state.doubtful[place] != nil
    }
    let target = key(of: asset.hash, shard: shard)
    if isDoubtful { throw .unavailable("\(location): the removal of \(target) was not answered yet") }
    let present = try form(of: target, asset)
    if present == .sealed || present == .plain && !keys.canSeal { return true }
    let source = try spooled(asset, &hours) { $0 == .sealed || present == nil }
    guard let source, try copy(source, of: asset, to: target) else { return present != nil }
    return true
  }

  public func present(_ assets: [Asset], in shard: Int) throws(AssetError) -> Set<Asset> {
    try present(assets, in: folder(ofShard: shard), asksFor: Self.askedCount) { key(of: $0.hash, shard: shard) }
  }

  /// The assets whose objects have the right length.
  /// - Parameters:
  ///   - assets: ascending by hash.
  ///   - folder: has all keys.
  ///   - askedCount: the most assets to ask for one by one.
  private func present(
    _ assets: [Asset], in folder: String, asksFor askedCount: Int, _ key: (Asset) -> String
  ) throws(AssetError) -> Set<Asset> {
    var present: Set<Asset> = []
    guard assets.count > askedCount, let first = assets.first, let last = assets.last else {
      for asset in assets where try form(of: key(asset), asset) != nil { present.insert(asset) }
      return present
    }
    var lengths: [String: Int64] = [:]
    let end = key(last)
    // The list begins behind this key, which no object has.
    try list(folder, after: String(key(first).dropLast())) { objects in
      for object in objects { lengths[object.key] = object.byteCount }
      return objects.last.map { $0.key < end } ?? false
    }
    for asset in assets where form(ofLength: lengths[key(asset)], asset) != nil { present.insert(asset) }
    return present
  }

  /// Copies one content after the other, and gives up once copies have taken a while. Each attempt makes one at least,
  /// and the next attempt skips what was copied.
  public func offer(_ assets: [Asset], of shard: Int, until expiry: Int64) throws(AssetError) -> Set<Asset> {
    let hour = SpoolHour.hour(ofOffer: expiry)
    let assets = Self.ascending(Set(assets))
    func target(_ asset: Asset) -> String { spoolKey(hour, Hex.encode(asset.hash)) }
    var offered = try present(assets, in: spoolKey(hour, ""), asksFor: Self.askedOffers, target)
    var deadline = connection.now + limits.patienceSeconds
    var hasCopied = false
    for asset in assets where !offered.contains(asset) {
      let start = connection.now
      if hasCopied, start >= deadline { throw .unavailable("\(location): copies from shard \(shard) take too long") }
      if try copy(key(of: asset.hash, shard: shard), of: asset, to: target(asset)) {
        offered.insert(asset)
        hasCopied = true
      } else {
        // The next attempt asks for it again.
        deadline += connection.now - start
      }
    }
    return offered
  }

  public var removalTime: Duration { .seconds(Self.doubtfulSeconds) }

  public func announceRemoval(of hashes: [[UInt8]], from shard: Int) -> Int64? {
    let time = connection.now
    changeRemovals(of: hashes, from: shard) { $0.leaving[$1] = time + Self.doubtfulSeconds }
    return time
  }

  public func remove(_ hashes: [[UInt8]], from shard: Int, announcedAt time: Int64?) throws(AssetError) {
    let (now, time) = (connection.now, time ?? connection.now)
    let end = time + Self.doubtfulSeconds
    // The success of this removal would hide that an earlier one may still be carried out.
    let isDoubtful = state.withLock { state in
      hashes.contains { state.doubtful[Place(shard: shard, hash: $0)].map { $0 > now } ?? false }
    }
    changeRemovals(of: hashes, from: shard) { $0.leaving[$1] = end }
    defer { changeRemovals(of: hashes, from: shard) { $0.leaving[$1] = nil } }
    if isDoubtful { throw .unavailable("\(location): a removal from shard \(shard) was not answered yet") }
    guard now < time + S3Request.lifetime else {
      throw .unavailable("\(location): a removal from shard \(shard) comes too late")
    }
    do throws(AssetError) {
      // One attempt: a repetition could come too late, after a commit has adopted the content again.
      try delete(hashes.map { key(of: $0, shard: shard) }, .once, decidedAt: time)
    } catch {
      changeRemovals(of: hashes, from: shard) { $0.doubtful[$1] = end }
      throw error
    }
  }

  private func changeRemovals(of hashes: [[UInt8]], from shard: Int, _ change: (inout State, Place) -> Void) {
    state.withLock { state in
      for hash in hashes {
        let place = Place(shard: shard, hash: hash)
        state.sought[place]?.isOutdated = true
        state.known[place] = nil
        change(&state, place)
      }
    }
  }

  public var keepsFiles: Bool { false }
  public func file(of asset: Asset, shard: Int) -> String? { nil }
}
