// A store of assets as far away as a bucket: tests see what runs on a shard's threads, and choose when calls end.

public import Assets
public import Crypto
import Dispatch
import Foundation
public import Records
import Synchronization

/// Contents in a folder, behind the rules of a network. A shard's own threads may not make slow calls; other threads
/// wait at a gate if there is one.
public final class DistantAssets: AssetStore {
  private struct State {
    var known: Set<Asset> = []
    var leaving: Set<[UInt8]> = []
    var failure: AssetError?
    /// Commits that come after the time in which a preparation is known.
    var lateCommitCount = 0
    var losesRemovals = false
    /// The removals without an answer.
    var lost: [(hashes: [[UInt8]], shard: Int)] = []
    var callCount = 0
    var watchers: [(count: Int, continuation: CheckedContinuation<Void, Never>)] = []
  }

  private let near: AssetFolder
  private let state = Mutex(State())
  private let gate: DispatchSemaphore?
  public let removalTime: Duration
  private let announced: @Sendable () -> Void

  /// - Parameters:
  ///   - isGated: whether preparations and removals wait until they are let through.
  ///   - removalTime: how long a shard's next owner fears the removals of the one before.
  ///   - announced: called on the writer's thread after each announcement of a removal.
  public init(
    _ near: AssetFolder, isGated: Bool = false, removalTime: Duration = .milliseconds(1),
    announced: @escaping @Sendable () -> Void = {}
  ) {
    self.near = near
    self.announced = announced
    self.removalTime = removalTime
    gate = isGated ? DispatchSemaphore(value: 0) : nil
  }

  /// Calls that have come to the gate.
  public var callCount: Int { state.withLock(\.callCount) }

  public func fail(with failure: AssetError?) { state.withLock { $0.failure = failure } }

  /// The next content that a commit wants is no longer known.
  public func forgetOnce() { state.withLock { $0.lateCommitCount += 1 } }

  /// From now on removals get no answer. They are carried out by `carryOutLostRemovals`.
  public func loseRemovals() { state.withLock { $0.losesRemovals = true } }

  public func carryOutLostRemovals() throws(AssetError) {
    for removal in state.withLock(\.lost) { try near.remove(removal.hashes, from: removal.shard, announcedAt: nil) }
  }

  /// Lets that many calls through, now or when they come.
  public func open(for count: Int) { for _ in 0..<count { gate?.signal() } }

  /// Returns when that many calls have come to the gate.
  public func calls(_ count: Int) async {
    await withCheckedContinuation { continuation in
      let isOver = state.withLock { state in
        if state.callCount < count { state.watchers.append((count, continuation)) }
        return state.callCount >= count
      }
      if isOver { continuation.resume() }
    }
  }

  /// Called by each call that may be slow.
  private func checkThread() throws(AssetError) {
    let name = (try? String(contentsOfFile: "/proc/thread-self/comm", encoding: .utf8)) ?? ""
    if name.hasPrefix("shard") || name.hasPrefix("read") { throw .io("the thread '\(name)' makes a slow call") }
  }

  private func wait() throws(AssetError) {
    try checkThread()
    let reached = state.withLock { state in
      state.callCount += 1
      defer { state.watchers.removeAll { $0.count <= state.callCount } }
      return state.watchers.filter { $0.count <= state.callCount }
    }
    for watcher in reached { watcher.continuation.resume() }
    gate?.wait()
    if let failure = state.withLock(\.failure) { throw failure }
  }

  public var keys: KeyRing { near.keys }
  public var keepsFiles: Bool { false }

  public func prepare(_ assets: Set<Asset>, for shard: Int) throws(AssetError) {
    try wait()
    if state.withLock({ state in assets.contains { state.leaving.contains($0.hash) } }) {
      throw .unavailable("a removal is under way")
    }
    state.withLock { $0.known.formUnion(assets) }
  }

  public func adopt(_ asset: Asset, into shard: Int) throws(AssetError) -> Adoption {
    let isKnown = state.withLock { state in
      guard state.known.remove(asset) != nil else { return false }
      if state.lateCommitCount == 0 { return true }
      state.lateCommitCount -= 1
      return false
    }
    return isKnown ? try near.adopt(asset, into: shard) : .unprepared
  }

  public func canAdopt(_ asset: Asset, into shard: Int) throws(AssetError) -> Bool? {
    state.withLock { $0.known.contains(asset) } ? try near.canAdopt(asset, into: shard) : nil
  }

  public func announceRemoval(of hashes: [[UInt8]], from shard: Int) -> Int64? {
    state.withLock { state in
      state.leaving.formUnion(hashes)
      state.known = []
    }
    announced()
    return 0
  }

  public func remove(_ hashes: [[UInt8]], from shard: Int, announcedAt time: Int64?) throws(AssetError) {
    try wait()
    let isLost = state.withLock { state in
      if state.losesRemovals { state.lost.append((hashes, shard)) }
      return state.losesRemovals
    }
    if isLost { throw .unavailable("no answer") }
    try near.remove(hashes, from: shard, announcedAt: nil)
    state.withLock { $0.leaving.subtract(hashes) }
  }

  public func sync(_ place: String) throws(AssetError) { try near.sync(place) }
  public func present(_ assets: [Asset], in shard: Int) -> Set<Asset> { near.present(assets, in: shard) }
  public func offer(_ assets: [Asset], of shard: Int, until expiry: Int64) throws(AssetError) -> Set<Asset> {
    try checkThread()
    return try near.offer(assets, of: shard, until: expiry)
  }
  public func parts(of shard: Int) throws(AssetError) -> [Int] { try near.parts(of: shard) }
  public func hashes(in part: Int, of shard: Int) throws(AssetError) -> [[UInt8]] {
    try near.hashes(in: part, of: shard)
  }
  public func adoptUnsharded(_ assets: [Asset], into shard: Int) throws(AssetError) {
    try near.adoptUnsharded(assets, into: shard)
  }
  public func open(_ hash: [UInt8], of shard: Int) throws(AssetError) -> AssetContent? {
    try near.open(hash, of: shard)
  }
  public func read(_ asset: Asset, shard: Int) throws(AssetError) -> [UInt8] {
    try checkThread()
    return try near.read(asset, shard: shard)
  }
  public func file(of asset: Asset, shard: Int) -> String? { nil }
  public var uploadMemoryByteCount: Int { 0 }
  public func spool(until expiry: Int64) throws(AssetError) -> SpooledContent {
    try checkThread()
    return try near.spool(until: expiry)
  }
  public func sweepSpool(now: Int64) throws(AssetError) -> Int { try near.sweepSpool(now: now) }
}
