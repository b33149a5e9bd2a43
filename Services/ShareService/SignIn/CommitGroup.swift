// Writes many small notes durably: those that arrive during a commit share the next one.

/// Collects items for one write at a time.
actor CommitGroup<Item: Sendable, Outcome: Sendable> {
  private let write: @Sendable ([Item]) async throws -> [Outcome]
  /// A continuation gets the outcome, or nil when its caller is the next to write.
  private var waiting: [(item: Item, continuation: CheckedContinuation<Outcome?, any Error>)] = []
  private var isWriting = false

  /// - Parameter write: makes all items durable in one change; returns an outcome for each, in their order.
  init(_ write: @escaping @Sendable ([Item]) async throws -> [Outcome]) { self.write = write }

  /// - Returns: the item's outcome, once it is durable.
  func commit(_ item: Item) async throws -> Outcome {
    if isWriting, let outcome = try await withCheckedThrowingContinuation({ waiting.append((item, $0)) }) {
      return outcome
    }
    isWriting = true
    let others = waiting
    waiting = []
    let outcomes: Result<[Outcome], any Error>
    do {
      outcomes = .success(try await write([item] + others.map(\.item)))
    } catch {
      outcomes = .failure(error)
    }
    if waiting.isEmpty { isWriting = false } else { waiting.removeFirst().continuation.resume(returning: nil) }
    for (index, other) in others.enumerated() { other.continuation.resume(with: outcomes.map { $0[index + 1] }) }
    return try outcomes.get()[0]
  }
}
