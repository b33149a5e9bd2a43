// The order of the answers that a session waits for, and the consequence of a loss at each point. It does no I/O.

/// The steps that were sent and are not answered yet, in order.
struct Pipeline {
  enum Step: Hashable {
    case preparation(of: String)
    /// A caller's command, whose rows they get.
    case command(String)
    /// A command of the session's own, whose answer says nothing.
    case control(String)
    case commit
    /// The end of a stretch. After a failure the server skips everything up to here.
    case end

    /// The name for errors.
    var name: String {
      switch self {
      case .preparation(let name), .command(let name), .control(let name): name
      case .commit: "COMMIT"
      case .end: "synchronization"
      }
    }
  }

  private var steps: [Step] = []
  private var answeredCount = 0
  /// The failure of the current stretch, which made the server skip the rest of it.
  private var stretchFailure: PostgreSQLError?
  /// The first failure since the last `settle`.
  private var failure: PostgreSQLError?
  var isInTransaction = false
  let isReadOnly: Bool

  init(isReadOnly: Bool) { self.isReadOnly = isReadOnly }

  var next: Step? { answeredCount < steps.count ? steps[answeredCount] : nil }
  /// The number of callers' commands since the last `settle`.
  private(set) var commandCount = 0

  mutating func append(_ step: Step) {
    steps.append(step)
    if case .command = step { commandCount += 1 }
  }

  /// Notes the answer of the next step.
  mutating func answer(_ failure: PostgreSQLError? = nil) {
    if let failure {
      if self.failure == nil { self.failure = failure }
      if stretchFailure == nil { stretchFailure = failure }
    }
    if next == .end { stretchFailure = nil }
    answeredCount += 1
  }

  /// Forgets the answered steps.
  /// - Throws: the first failure among them.
  mutating func settle() throws(PostgreSQLError) {
    steps.removeFirst(answeredCount)
    (answeredCount, commandCount) = (0, 0)
    defer { failure = nil }
    if let failure { throw failure }
  }

  /// What the loss of the session means now for the changes that were sent.
  var loss: PostgreSQLError.Kind {
    if isReadOnly || stretchFailure != nil { return .connectionLost }
    // A commit that is answered counts as well: its caller hears of the loss only.
    if steps.contains(.commit) { return .unknownOutcome }
    // Outside of a transaction, the end of a stretch commits it.
    let commits = !isInTransaction && steps.last == .end && commandCount > 0
    return commits ? .unknownOutcome : .connectionLost
  }
}
