// The contents that bodies read and write, without waiting for a network on a shard's threads.

package import Assets
import Crypto
import Mirroring
package import Records
import Synchronization

/// Contents of assets for one export or answer.
///
/// A store that keeps files is asked at once. Of any other, a body gets what is at hand: it does without the rest, and
/// ends with `complete`, which has the rest fetched and the body run again.
package final class ContentsAtHand: AssetContents, Sendable {
  private struct State {
    var known: [[UInt8]: Result<[UInt8], AssetError>]
    var knownByteCount: Int64 = 0
    /// Hashes of contents that were stored.
    var stored: Set<[UInt8]> = []
    var wanted: Set<Asset> = []
    var unstored: [[UInt8]: [UInt8]] = [:]
  }

  private let assets: any AssetStore
  private let shard: Int
  /// When a written asset without a record expires: seconds since 1970.
  private let expiry: Int64
  private let state: Mutex<State>

  private let byteLimit: Int64

  /// - Parameters:
  ///   - recent: contents by hash.
  ///   - byteLimit: the bytes that are fetched for one body. What exceeds them stays an asset.
  package init(
    _ assets: any AssetStore, shard: Int, expiry: Int64, recent: [[UInt8]: [UInt8]] = [:], byteLimit: Int64 = 64 << 20
  ) {
    self.assets = assets
    self.shard = shard
    self.expiry = expiry
    self.byteLimit = byteLimit
    state = Mutex(State(known: recent.mapValues { .success($0) }))
  }

  package func content(of asset: Asset) throws -> [UInt8] {
    let known = state.withLock { state in
      let known = state.known[asset.hash]
      if known == nil, !assets.keepsFiles, state.knownByteCount + asset.byteCount <= byteLimit {
        state.wanted.insert(asset)
        state.knownByteCount += asset.byteCount
      }
      return known
    }
    if let known { return try known.get() }
    if assets.keepsFiles { return try assets.read(asset, shard: shard) }
    throw AssetError.unavailable("the content is not at hand")
  }

  package func asset(with content: [UInt8]) throws -> Asset {
    if assets.keepsFiles { return try assets.put(content, until: expiry) }
    let asset = Asset(hash: SHA256.hash(content), byteCount: Int64(content.count))
    state.withLock { state in
      if !state.stored.contains(asset.hash) { state.unstored[asset.hash] = content }
    }
    return asset
  }

  /// Ends a body.
  /// - Throws: `AssetCalls` when the body did without something.
  package func complete() throws {
    let (wanted, unstored) = state.withLock { state in
      defer { (state.wanted, state.unstored) = ([], [:]) }
      return (state.wanted, state.unstored)
    }
    if wanted.isEmpty, unstored.isEmpty { return }
    throw AssetCalls("shard \(shard): contents of values") { () throws(AssetError) in
      for (hash, content) in unstored {
        _ = try self.assets.put(content, until: self.expiry)
        self.state.withLock { _ = $0.stored.insert(hash) }
      }
      for asset in wanted {
        let found = Result { () throws(AssetError) in try self.assets.read(asset, shard: self.shard) }
        if case .failure(.unavailable(let reason)) = found { throw .unavailable(reason) }
        self.state.withLock { $0.known[asset.hash] = found }
      }
    }
  }
}
