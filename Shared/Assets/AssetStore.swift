// The seam of asset contents: the calls that workers and gateways make, whatever keeps the contents.

public import Crypto
public import Records

/// Content-addressed contents, named by the SHA-256 of the content: a spool that takes uploads, and one part a shard
/// for the contents that its records use.
///
/// Uploads arrive in the spool (`AssetUpload`, `put`) and stay there until their receipt expires, so no client can
/// remove another client's upload. A shard's writer takes content from the spool into the shard's part (`adopt`) and
/// alone removes it from there. So the spool needs no reference counts.
///
/// With a key, every written content is sealed (`SealedFile`), because an encrypted attribute may use it later. Names
/// (the hashes) and lengths stay in clear. Contents written before the key was added stay readable.
///
/// Calls block on a disk or a network; a task makes them by `apart`. Each throws `unavailable` when the store does not
/// answer; a repetition of any call does no harm.
public protocol AssetStore: Sendable {
  /// The keys that seal and open contents. Without keys, contents are stored plain.
  var keys: KeyRing { get }

  // MARK: A shard's contents

  /// Does the slow part of `adopt` for contents that a commit is going to use.
  func prepare(_ assets: Set<Asset>, for shard: Int) throws(AssetError)
  /// Takes uploaded content into the shard's part. Only the shard's writer calls it, and other saves wait for that, so
  /// a store on a network uses only what `prepare` has found out.
  /// - Throws: `full`, `io`. The content may exist then without a record that uses it.
  func adopt(_ asset: Asset, into shard: Int) throws(AssetError) -> Adoption
  /// Makes adopted contents durable.
  /// - Parameter place: from a result of `adopt`.
  func sync(_ place: String) throws(AssetError)
  /// True when `adopt` finds the content; nil when only `prepare` can tell.
  func canAdopt(_ asset: Asset, into shard: Int) throws(AssetError) -> Bool?
  /// The assets whose content the shard has with the right length, plain or sealed.
  /// - Parameter assets: ascending by hash, without repetitions; at most 1000.
  func present(_ assets: [Asset], in shard: Int) throws(AssetError) -> Set<Asset>
  /// Puts a shard's contents into the spool, so that another shard can adopt them until `expiry` (seconds since 1970).
  /// Durable on return. Repetitions cost nothing.
  /// - Returns: the assets that the shard has.
  func offer(_ assets: [Asset], of shard: Int, until expiry: Int64) throws(AssetError) -> Set<Asset>
  /// How long a removal may still be carried out when its worker has no answer, or has lost the shard. Zero when
  /// removals end with their call.
  var removalTime: Duration { get }
  /// Called on the writer's thread before contents are removed, while the worker surely has the shard.
  /// - Returns: the time for `remove`, which is to be called on another thread. No commit adopts the contents until
  ///   that call has ended. nil when the writer's thread calls `remove`.
  func announceRemoval(of hashes: [[UInt8]], from shard: Int) -> Int64?
  /// Removes contents of a shard durably. Skips missing ones.
  /// - Parameters:
  ///   - hashes: 32 bytes each.
  ///   - time: from `announceRemoval`.
  func remove(_ hashes: [[UInt8]], from shard: Int, announcedAt time: Int64?) throws(AssetError)
  /// The first bytes of the hashes of a shard's contents; ascending.
  func parts(of shard: Int) throws(AssetError) -> [Int]
  /// The hashes of a shard's contents that begin with one byte. Skips names that are no hashes.
  func hashes(in part: Int, of shard: Int) throws(AssetError) -> [[UInt8]]
  /// Takes files that format 1 kept for all shards together into a shard's part, durably.
  func adoptUnsharded(_ assets: [Asset], into shard: Int) throws(AssetError)
  /// Opens a shard's content for reading.
  /// - Returns: nil when the shard does not have it; a doubtful content (`isDoubtful`) when `keys` may lack its key.
  /// - Throws: `corrupt` for an impossible length; `io`.
  func open(_ hash: [UInt8], of shard: Int) throws(AssetError) -> AssetContent?
  /// Reads the whole content of a shard's asset, verified against its hash. Reads the spool while no commit has adopted
  /// the content.
  /// - Throws: `io` when the content is missing, `corrupt` when it differs from its name, `missingKey` when `keys`
  ///   lacks the key that sealed it.
  func read(_ asset: Asset, shard: Int) throws(AssetError) -> [UInt8]
  /// True when contents are files of this machine, which backups copy. Backups leave other contents where they are.
  var keepsFiles: Bool { get }
  /// The file of a shard's content, whether or not it exists; nil unless `keepsFiles`.
  func file(of asset: Asset, shard: Int) -> String?

  // MARK: The spool

  /// Bytes of memory that one upload may hold at a time.
  var uploadMemoryByteCount: Int { get }
  /// Begins a content in the spool.
  /// - Parameter expiry: the end of the time in which shards can adopt it, seconds since 1970.
  func spool(until expiry: Int64) throws(AssetError) -> SpooledContent
  /// Removes expired content and the unfinished uploads that crashes left.
  /// - Parameter now: seconds since 1970.
  /// - Returns: the number of removed contents.
  func sweepSpool(now: Int64) throws(AssetError) -> Int
}

/// The outcome of taking a content into a shard's part.
public enum Adoption: Hashable, Sendable {
  /// The shard has the content, once that place is synced.
  case done(place: String)
  /// Neither shard nor spool has the content.
  case missing
  /// Only `prepare` can tell.
  case unprepared
}

extension AssetStore {
  /// Compares the whole content of a shard's asset with its hash. Holds some megabytes of it at most.
  /// - Throws: as `read`.
  public func verify(_ asset: Asset, shard: Int) throws(AssetError) {
    guard let content = try open(asset.hash, of: shard) else {
      throw .io("asset \(asset.relativePath(inShard: shard)) is missing")
    }
    try content.compare(with: asset)
  }

  /// Writes `content` durably into the spool.
  /// - Parameter expiry: the end of the time in which shards can adopt it, seconds since 1970.
  /// - Throws: `full`, `io`; nothing is left behind then.
  public func put(_ content: [UInt8], until expiry: Int64) throws(AssetError) -> Asset {
    let spooled = try spool(until: expiry)
    do throws(AssetError) {
      try spooled.write(content)
      return try spooled.finish()
    } catch {
      spooled.discard()
      throw error
    }
  }
}
