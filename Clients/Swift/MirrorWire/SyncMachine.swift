// Decides what a store sends next. It has no clock and does no I/O; its caller does what it says, one thing at a time.

/// The mirroring of one store: a value that inputs change.
public struct SyncMachine: Hashable, Sendable {
  /// What is under way; there is one request at a time (K2).
  package enum Work: Hashable, Sendable { case setUp, export, setAside, importPage(waits: Bool), reset, restore }

  /// Why nothing is sent until a wait is over, or until somebody acts.
  private struct Block: Hashable, Sendable {
    let idle: SyncIdle
    /// The wait that ends it; nil: only a user or a new start does.
    var timer: Int?
  }

  private var isStarted = false
  private var isPaused = false
  private var isOnline = true
  private var hasPings = true
  private var isSetUp = false
  private var hasOpenedPings = false
  private var hasPending = false
  /// A save came during an export, whose answer may not count it.
  private var isSavedMeanwhile = false
  private var hasUnknownFate = false
  private var isImportWanted = false
  private var isImportNext = false
  private var isSyncWanted = false
  /// The server may not have exported what it acknowledged. It does before it answers the next page.
  private var hasUnexported = false
  private var isResetWanted = false
  /// Saves that a restored server may have lost wait: they go before anything is imported.
  private var isRestoring = false
  private var resetCount = 0
  private var block: Block?
  private var timer = 0
  private var isTimerSet = false
  private var importEvent = false
  package private(set) var work: Work?
  private var backoff: Backoff
  /// What went wrong last; nil after a success.
  public private(set) var lastFailure: SyncFailure?

  private static let period = Duration.seconds(15 * 60)
  private static let resetLimit = 2

  /// - Parameter seed: of the jitter.
  public init(seed: UInt64) { backoff = Backoff(seed: seed) }

  public var idle: SyncIdle {
    if isPaused || !isStarted { return .paused }
    if let block { return block.idle }
    if !isOnline { return .offline }
    if hasPending || isImportWanted || isResetWanted || !isSetUp { return .working }
    switch work {
    case nil, .importPage(waits: true)?: return .nothingPending
    default: return .working
    }
  }

  /// - Returns: what to do, in this order.
  public mutating func handle(_ input: SyncInput) -> [SyncOutput] {
    var outputs: [SyncOutput] = []
    take(input, &outputs)
    proceed(&outputs)
    return outputs
  }

  private mutating func take(_ input: SyncInput, _ outputs: inout [SyncOutput]) {
    switch input {
    case .started(let facts): start(facts)
    case .stopped:
      isStarted = false
      hasOpenedPings = false
      endWait(&outputs)
    case .saved:
      hasPending = true
      if work == .export || work == .setAside { isSavedMeanwhile = true }
      endWait(&outputs)
    case .pinged:
      isImportWanted = true
      if block?.idle == .offline || block?.idle == .modelUnknown { unblock() }
      endWait(&outputs)
    case .syncWanted(let isWanted):
      isSyncWanted = isWanted
      if isWanted { take(.pinged, &outputs) }
    case .online(let isOnline): setOnline(isOnline, &outputs)
    case .paused(let isPaused): setPaused(isPaused, &outputs)
    case .resetWanted:
      isResetWanted = true
      if block?.idle == .failed { unblock() }
      endWait(&outputs)
    case .signedIn:
      guard block?.idle == .signedOut else { return }
      unblock()
      // Somebody else may have signed in: the server compares the accounts (P2).
      isSetUp = false
    case .timer(let number): ring(number)
    case .answered(let answer): end(answer, &outputs)
    }
  }

  // MARK: Inputs

  private mutating func start(_ facts: SyncFacts) {
    // A second start changes nothing.
    if isStarted { return }
    isStarted = true
    isSetUp = facts.isSetUp
    hasPending = hasPending || facts.hasPending
    hasUnknownFate = hasUnknownFate || facts.hasUnknownFate
    resetCount = facts.resetCount
    hasPings = facts.hasPings
    isImportWanted = true
    unblock()
  }

  private mutating func setPaused(_ isPaused: Bool, _ outputs: inout [SyncOutput]) {
    if self.isPaused == isPaused { return }
    self.isPaused = isPaused
    if isPaused { endWait(&outputs) } else { isImportWanted = true }
  }

  private mutating func setOnline(_ isOnline: Bool, _ outputs: inout [SyncOutput]) {
    let wasOnline = self.isOnline
    self.isOnline = isOnline
    if isOnline {
      if !wasOnline { isImportWanted = true }
      if block?.idle == .offline { unblock() }
    } else {
      endWait(&outputs)
    }
  }

  private mutating func ring(_ number: Int) {
    guard isTimerSet, number == timer else { return }
    isTimerSet = false
    if block?.timer == number { block = nil } else { isImportWanted = true }
  }

  private mutating func unblock() {
    block = nil
    isTimerSet = false
    backoff.succeeded()
  }

  private func endWait(_ outputs: inout [SyncOutput]) {
    if work == .importPage(waits: true) { outputs.append(.endWait) }
  }

  // MARK: Answers

  private mutating func end(_ answer: SyncAnswer, _ outputs: inout [SyncOutput]) {
    guard let ended = work else { return }
    work = nil
    switch answer {
    case .failed(.cancelled): return endCancelled(ended, &outputs)
    case .failed(let failure): return fail(ended, failure, &outputs)
    default: break
    }
    backoff.succeeded()
    lastFailure = nil
    switch (ended, answer) {
    case (.setUp, .isSetUp):
      isSetUp = true
      outputs.append(.emit(.ended(.setUp, nil)))
    case (.export, .exported(let hasMore)):
      hasUnexported = true
      endExport(hasMore: hasMore)
      outputs.append(.emit(.ended(.export, nil)))
    case (.setAside, .setAside(let hasMore)): endExport(hasMore: hasMore)
    case (.importPage, .imported(let hasMore, let isCaughtUp)):
      isImportWanted = isImportWanted || hasMore
      if isCaughtUp { resetCount = 0 }
      if !hasMore { endImport(nil, &outputs) }
    // The first page of the second copy comes next.
    case (.reset, _): isImportWanted = true
    case (.restore, _):
      (isRestoring, hasPending, hasUnknownFate, isResetWanted) = (true, true, true, true)
    case (.export, _):
      endExport(hasMore: false)
      outputs.append(.emit(.ended(.export, nil)))
    case (.setAside, _): endExport(hasMore: false)
    case (.importPage, _): endImport(nil, &outputs)
    case (.setUp, _): outputs.append(.emit(.ended(.setUp, nil)))
    }
  }

  private mutating func endExport(hasMore: Bool) {
    isRestoring = isRestoring && hasMore
    hasPending = hasMore || isSavedMeanwhile
    hasUnknownFate = isRestoring
  }

  /// What was cancelled is begun again when its time comes; something sent keeps its unknown fate.
  private mutating func endCancelled(_ ended: Work, _ outputs: inout [SyncOutput]) {
    switch ended {
    case .setUp: outputs.append(.emit(.ended(.setUp, .cancelled)))
    case .export: outputs.append(.emit(.ended(.export, .cancelled)))
    case .importPage(let waits):
      if !waits { isImportWanted = true }
      endImport(.cancelled, &outputs)
    case .reset: isResetWanted = true
    case .setAside, .restore: isImportWanted = true
    }
  }

  private mutating func endImport(_ failure: SyncFailure?, _ outputs: inout [SyncOutput]) {
    if importEvent { outputs.append(.emit(.ended(.import, failure))) }
    importEvent = false
  }

  private mutating func fail(_ ended: Work, _ failure: SyncFailure, _ outputs: inout [SyncOutput]) {
    lastFailure = failure
    switch ended {
    case .setUp: outputs.append(.emit(.ended(.setUp, failure)))
    case .export: outputs.append(.emit(.ended(.export, failure)))
    case .importPage:
      endImport(failure, &outputs)
      isImportWanted = true
    // The app may have asked for it, and nothing else would ask again.
    case .reset: isResetWanted = true
    case .setAside, .restore: break
    }
    switch failure {
    case .transport: wait(.offline, &outputs)
    case .full: wait(.diskFull, &outputs)
    case .damaged, .cancelled: wait(.failed, &outputs)
    case .server(let error): mend(ended, error, &outputs)
    }
  }

  private mutating func mend(_ ended: Work, _ error: ServerError, _ outputs: inout [SyncOutput]) {
    switch error.remedy {
    // The file has the objects of another account (P2).
    case _ where error.cocoaErrorCode == ServerError.accountChanged: block = Block(idle: .signedOut)
    case .tryAgain(let seconds):
      // A gateway that refuses for the load has not passed the request on.
      if ended == .export, error.status == 429 { hasUnknownFate = isRestoring }
      wait(.throttled, after: seconds, &outputs)
    case .reachServer: wait(.offline, after: error.retryAfter, &outputs)
    case .signIn: block = Block(idle: .signedOut)
    case .waitForModel:
      isSetUp = false
      wait(.modelUnknown, &outputs)
    case .giveUpLease where ended == .reset: giveResetUp(&outputs)
    case .giveUpLease:
      isSetUp = false
      wait(.leaseLost, after: error.retryAfter, &outputs)
    // A save that was based on an earlier state waits a moment for the next look at all saves.
    case .restore where isRestoring:
      isRestoring = false
      wait(.failed, &outputs)
    case .restore where ended == .export || ended == .importPage(waits: false) || ended == .importPage(waits: true):
      work = .restore
      outputs.append(.restore)
    case .importAnew where ended == .importPage(waits: false) || ended == .importPage(waits: true):
      guard resetCount < Self.resetLimit else { return giveResetUp(&outputs) }
      resetCount += 1
      work = .reset
      outputs.append(.reset)
    case .setUpAgain where ended != .setUp && backoff.failureCount == 0:
      isSetUp = false
      _ = backoff.failed()
    case .none where ended == .export:
      work = .setAside
      outputs.append(.setAside(error))
    default:
      // A reset that is refused is not asked for again: pages say whether one is due.
      if ended == .reset { isResetWanted = false }
      wait(.failed, after: error.retryAfter, &outputs)
    }
  }

  private mutating func giveResetUp(_ outputs: inout [SyncOutput]) {
    isResetWanted = false
    block = Block(idle: .failed)
    outputs.append(.abandonReset)
  }

  private mutating func wait(_ idle: SyncIdle, after seconds: Double? = nil, _ outputs: inout [SyncOutput]) {
    setTimer(backoff.failed(retryAfter: seconds), &outputs)
    block = Block(idle: idle, timer: timer)
  }

  private mutating func setTimer(_ duration: Duration, _ outputs: inout [SyncOutput]) {
    timer += 1
    isTimerSet = true
    outputs.append(.wait(duration, timer))
  }

  // MARK: The next step

  private mutating func proceed(_ outputs: inout [SyncOutput]) {
    guard isStarted, !isPaused, isOnline, block == nil, work == nil else { return }
    if isSyncWanted, hasUnexported, !hasPending { isImportWanted = true }
    if !isSetUp {
      outputs.append(.emit(.began(.setUp)))
      begin(.setUp, .setUp, &outputs)
      return
    }
    if hasPings, !hasOpenedPings {
      hasOpenedPings = true
      outputs.append(.openPings)
    }
    // Nothing is imported while the fate of something sent is unknown (K3); else the two take turns (K4).
    if hasUnknownFate || (hasPending && !(isImportNext && isImportWanted)) {
      isImportNext = true
      hasUnknownFate = true
      outputs.append(.emit(.began(.export)))
      begin(.export, .export, &outputs)
    } else if isResetWanted {
      isResetWanted = false
      begin(.reset, .reset, &outputs)
    } else if isImportWanted {
      isImportNext = false
      isImportWanted = false
      hasUnexported = false
      if !importEvent { outputs.append(.emit(.began(.import))) }
      importEvent = true
      begin(.importPage(waits: false), .importPage(waits: false), &outputs)
    } else if !hasPings {
      begin(.importPage(waits: true), .importPage(waits: true), &outputs)
    } else if !isTimerSet {
      setTimer(backoff.spread(Self.period), &outputs)
    }
  }

  private mutating func begin(_ work: Work, _ output: SyncOutput, _ outputs: inout [SyncOutput]) {
    self.work = work
    if work == .export { isSavedMeanwhile = false }
    outputs.append(output)
  }
}
