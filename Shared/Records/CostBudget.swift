// A limit on the work that a client's input may cause: one counter, so that no request keeps a thread for itself.

/// Steps that an evaluation may take. A step is about the work of comparing two short values, some tens of
/// nanoseconds. The budget measures no time, so that the same input always costs the same.
///
/// Evaluations spend steps before they do the work, inside loops too: work that is not paid for does not begin.
public struct CostBudget {
  /// The work costs more steps than the limit.
  public struct Exceeded: Error, Hashable {
    public init() {}
  }

  /// Bytes that one step compares, hashes or copies.
  public static let bytesPerStep = 64
  /// Steps between two calls of `checkWanted`: a millisecond of work, or less.
  private static let interval = 16_384

  public let limit: Int
  public private(set) var spent = 0
  private let checkWanted: () throws -> Void
  private var nextCheck: Int

  /// - Parameter checkWanted: called every 16 384 steps; throws when nobody waits for the work any longer.
  public init(limit: Int, checkWanted: @escaping () throws -> Void = {}) {
    self.limit = limit
    self.checkWanted = checkWanted
    nextCheck = min(Self.interval, limit)
  }

  /// - Throws: `Exceeded` beyond the limit, or an error of `checkWanted`.
  public mutating func spend(_ steps: Int = 1) throws {
    spent += steps
    if spent > nextCheck { try check() }
  }

  /// Spends the steps of one pass over `count` bytes.
  public mutating func spend(bytes count: Int) throws { try spend(1 + count / Self.bytesPerStep) }

  private mutating func check() throws {
    if spent > limit { throw Exceeded() }
    nextCheck = min(spent + Self.interval, limit)
    try checkWanted()
  }
}
