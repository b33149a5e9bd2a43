// One content on its way into the spool of either engine: hashed, sealed if there is a key, and named at its end.

import Crypto
public import Records
import Synchronization

/// A content whose bytes arrive in order, and which has its name at the end only. Calls block.
package protocol UnnamedContent: AnyObject {
  /// The parts that have left this process's memory.
  var partCount: Int { get }
  func add(_ bytes: [UInt8]) throws(AssetError)
  /// Makes the content durable under its name, in place of an earlier one.
  /// - Parameter name: below the place of all contents.
  /// - Throws: `full`, `io`, `unavailable`. The caller has to `discard` the content then.
  func finish(as name: String) throws(AssetError)
  /// Removes the content unless it is finished.
  func discard()
}

/// A content that appears in the spool complete or not at all. Calls block; any thread may make them, one at a time.
public final class SpooledContent: Sendable {
  private struct State {
    var intake: ContentIntake
    let content: any UnnamedContent
    var isOver = false
  }

  private let hour: Int64
  private let state: Mutex<State>

  /// - Parameters:
  ///   - keys: seal the content.
  ///   - hour: the part of the spool.
  init(_ content: sending any UnnamedContent, keys: KeyRing, hour: Int64) {
    self.hour = hour
    state = Mutex(State(intake: ContentIntake(keys), content: content))
  }

  /// The parts that have left this process's memory.
  var partCount: Int { state.withLock(\.content.partCount) }

  public func write(_ content: [UInt8]) throws(AssetError) {
    try state.withLock { state throws(AssetError) in
      if state.isOver { throw .io("the upload is over") }
      try state.content.add(state.intake.add(content))
    }
  }

  /// Makes the content durable under its name.
  /// - Throws: `full`, `io`, `unavailable`. The caller has to `discard` the content then.
  public func finish() throws(AssetError) -> Asset {
    try state.withLock { state throws(AssetError) -> Asset in
      if state.isOver { throw .io("the upload is over") }
      let (end, asset) = state.intake.finish()
      try state.content.add(end)
      try state.content.finish(as: SpoolHour.name(hour, Hex.encode(asset.hash)))
      state.isOver = true
      return asset
    }
  }

  /// Removes the content unless it is finished.
  public func discard() {
    state.withLock { state in
      if !state.isOver { state.content.discard() }
      state.isOver = true
    }
  }
}
