// Waiting for peers, which services do at their start and tests everywhere.

extension Bus {
  /// Waits until the connected peers satisfy a condition.
  /// - Returns: false when the task was cancelled or the bus closed before.
  @discardableResult
  public func waitForPeers(where isSatisfied: ([Peer]) -> Bool) async -> Bool {
    for await peers in peerChanges() where isSatisfied(peers) { return true }
    return false
  }
}

/// Draws incarnations that rise from start to start while the wall clock does not go back.
public enum Incarnation {
  /// - Parameter milliseconds: since 1970.
  /// - Returns: the time in the upper 42 bits and 22 random ones.
  public static func draw(at milliseconds: Int64) -> UInt64 {
    UInt64(clamping: milliseconds) << 22 | UInt64.random(in: 0..<1 << 22)
  }
}
