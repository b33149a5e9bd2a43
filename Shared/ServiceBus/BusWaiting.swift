// Waiting for peers: services do it at their start, and tests everywhere.

extension Bus {
  /// Waits until the connected peers satisfy a condition.
  /// - Returns: false if the task was cancelled or the bus closed first.
  @discardableResult
  public func waitForPeers(where isSatisfied: ([Peer]) -> Bool) async -> Bool {
    for await peers in peerChanges() where isSatisfied(peers) { return true }
    return false
  }
}

/// Draws incarnations that rise from start to start, as long as the wall clock does not go back.
public enum Incarnation {
  /// - Parameter milliseconds: since 1970.
  /// - Returns: the time in the upper 42 bits, and 22 random bits.
  public static func draw(at milliseconds: Int64) -> UInt64 {
    UInt64(clamping: milliseconds) << 22 | UInt64.random(in: 0..<1 << 22)
  }
}
