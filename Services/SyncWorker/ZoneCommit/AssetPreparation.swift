// Fetches contents for a commit before it is queued, because other saves wait for the writer.

package import Assets
import Crypto
package import Records
package import ServiceKit

extension AssetStore {
  /// Prepares the contents that a commit is going to use.
  /// - Parameters:
  ///   - assets: in any order, repetitions included; collected only for a store that is asked before. Skips those that
  ///     an answer showed and no receipt names.
  ///   - party: whose turn the calls take.
  /// - Throws: `TRY_AGAIN_LATER` while the store does not answer.
  package func prepare(
    _ assets: @autoclosure () -> [Asset], for shard: Int, of party: String, log: Log
  ) async throws(RecordError) {
    // The commit itself asks for files.
    if keepsFiles { return }
    let wanted = Set(assets().filter { $0.hash.count == SHA256.byteCount })
    if wanted.isEmpty { return }
    do throws(AssetError) {
      try await apart(of: party) { store throws(AssetError) in try store.prepare(wanted, for: shard) }
    } catch {
      throw RecordError(storing: error, log: log)
    }
  }
}

extension FieldValue {
  /// The assets that the value names, in its order.
  package var assets: [Asset] {
    switch self {
    case .asset(let asset): [asset]
    case .list(element: .asset, let values): values.flatMap(\.assets)
    default: []
    }
  }
}
