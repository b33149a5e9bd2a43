// Records used signatures durably. Claims that arrive during a commit share the next one.

import ServiceBus

/// Answers `ClaimSignature`.
actor SignatureLedger {
  private let directory: Directory
  /// A continuation gets the outcome, or nil when its caller is the next to write.
  private var waiting: [(claim: ClaimSignature, continuation: CheckedContinuation<Bool?, any Error>)] = []
  private var isWriting = false

  init(directory: Directory) { self.directory = directory }

  /// - Returns: true when no other request has used the signature.
  func claim(_ claim: ClaimSignature) async throws -> Bool {
    if isWriting, let outcome = try await withCheckedThrowingContinuation({ waiting.append((claim, $0)) }) {
      return outcome
    }
    isWriting = true
    let others = waiting
    waiting = []
    let outcomes: Result<[Bool], any Error>
    do {
      outcomes = .success(try await directory.claim([claim] + others.map(\.claim)))
    } catch {
      outcomes = .failure(error)
    }
    if waiting.isEmpty { isWriting = false } else { waiting.removeFirst().continuation.resume(returning: nil) }
    for (index, other) in others.enumerated() { other.continuation.resume(with: outcomes.map { $0[index + 1] }) }
    return try outcomes.get()[0]
  }
}
