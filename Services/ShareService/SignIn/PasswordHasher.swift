// Where passwords are stretched: on threads of their own, few at a time, so that neither the directory nor the memory suffers.

import Crypto
import Synchronization

/// Makes and verifies password hashes.
final class PasswordHasher: Sendable {
  /// Each needs 64 MiB while it runs.
  static let laneCount = 2
  /// Computations that wait for a lane; one more is refused.
  static let waitingLimit = 64
  static let byteLimit = 1024
  static let leastByteCount = 8

  struct Overloaded: Error {}

  let cost: PasswordHash
  private let lanes = (0..<laneCount).map { Lane("passwords-\($0)") }
  private let pending = Mutex([Int](repeating: 0, count: laneCount))
  /// What nobody's password is verified against, so that an unknown name takes as long as a wrong password.
  private let decoy: String

  /// One computation at a time.
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

  /// nil when there is no memory for it.
  func make(_ password: [UInt8]) async throws(Overloaded) -> String? {
    let cost = cost
    return try await compute { cost.make(password) }
  }

  /// - Parameter hash: nil for somebody without a password: takes as long, and is false.
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
