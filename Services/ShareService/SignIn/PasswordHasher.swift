// Hashes passwords on a few threads of their own, which bounds the memory and keeps the directory responsive.

import Crypto
import Synchronization

/// Makes and verifies password hashes.
final class PasswordHasher: Sendable {
  /// Parallel computations; each needs 64 MiB.
  static let laneCount = 2
  /// Computations that may wait for a lane; the next one is refused.
  static let waitingLimit = 64
  static let byteLimit = 1024
  static let leastByteCount = 8

  struct Overloaded: Error {}

  let cost: PasswordHash
  private let lanes = (0..<laneCount).map { Lane("passwords-\($0)") }
  private let pending = Mutex([Int](repeating: 0, count: laneCount))
  /// A hash that no password matches, so that an unknown name takes as long as a wrong password.
  private let decoy: String

  /// Runs one computation at a time.
  private actor Lane {
    private let executor: BlockingExecutor
    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    init(_ label: String) { executor = BlockingExecutor(label: label) }

    func run<Value: Sendable>(_ body: @Sendable () -> Value) -> Value { body() }
  }

  /// - Parameter decoy: 48 unpredictable bytes.
  init(cost: PasswordHash, decoy: [UInt8]) {
    self.cost = cost
    self.decoy = cost.decoy(decoy)
  }

  /// nil when the memory for the computation is not available.
  func make(_ password: [UInt8]) async throws(Overloaded) -> String? {
    let cost = cost
    return try await compute { cost.make(password) }
  }

  /// - Parameter hash: nil for a user without a password: the check takes as long, and fails.
  func isMatch(_ password: [UInt8], _ hash: String?) async throws(Overloaded) -> Bool {
    let text = hash ?? decoy
    let isMatch = try await compute { PasswordHash.isMatch(password, text) }
    return isMatch && hash != nil
  }

  private func compute<Value: Sendable>(_ body: @escaping @Sendable () -> Value) async throws(Overloaded) -> Value {
    let lane = pending.withLock { pending -> Int? in
      let shortest = pending.indices.min { pending[$0] < pending[$1] } ?? 0
      guard pending[shortest] <= Self.waitingLimit / Self.laneCount else { return nil }
      pending[shortest] += 1
      return shortest
    }
    guard let lane else { throw Overloaded() }
    let value = await lanes[lane].run(body)
    pending.withLock { $0[lane] -= 1 }
    return value
  }
}
