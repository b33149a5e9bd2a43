// What looking at clients' input may cost: counted in one place, so that nobody's request has a thread for itself.

/// Steps that an evaluation may take. A step is about as much work as comparing two short values, some tens of nanoseconds; nothing is timed, so that the
/// same input always costs the same.
///
/// Whoever evaluates spends before the work is done, and inside of loops: work that is not paid for does not begin.
public struct CostBudget {
  /// The work costs more than it may.
  public struct Exceeded: Error, Hashable {
    public init() {}
  }

  /// Bytes that one step compares, hashes or copies.
  public static let bytesPerStep = 64
  /// Steps between two questions whether the work is still wanted: a millisecond or less.
  private static let interval = 16_384

  public let limit: Int
  public private(set) var spent = 0
  private let checkWanted: () throws -> Void
  private var nextCheck: Int

  /// - Parameter checkWanted: asked every now and then; throws when nobody waits for the work any longer.
  public init(limit: Int, checkWanted: @escaping () throws -> Void = {}) {
    self.limit = limit
    self.checkWanted = checkWanted
    nextCheck = min(Self.interval, limit)
  }

  /// - Throws: `Exceeded`, or what `checkWanted` throws.
  public mutating func spend(_ steps: Int = 1) throws {
    spent += steps
    if spent > nextCheck { try check() }
  }

  /// Spends what it takes to go over so many bytes once.
  public mutating func spend(bytes count: Int) throws { try spend(1 + count / Self.bytesPerStep) }

  private mutating func check() throws {
    if spent > limit { throw Exceeded() }
    nextCheck = min(spent + Self.interval, limit)
    try checkWanted()
  }
}
