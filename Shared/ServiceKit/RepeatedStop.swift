// Tells a second stop from the first one that is told again.

/// The process that sent a signal to stop.
enum StopSender: UInt8, Sendable {
  /// It started this process: `aquifer dev`, an init system, a shell.
  case parent
  case other
}

/// The signals after the one that began a stop. An init system may tell all processes of a service at once, `aquifer
/// dev` among them. That one passes the stop on when the turn of a process has come, which may be seconds later.
struct RepeatedStop: Sendable {
  /// A signal so soon after the beginning is of the same stop, from any sender.
  static let limit = Duration.seconds(1)

  private let end: ContinuousClock.Instant
  private var isPassedOn: Bool

  /// - Parameters:
  ///   - first: the sender of the first signal.
  ///   - start: the beginning of the stop.
  init(after first: StopSender?, at start: ContinuousClock.Instant) {
    end = start + Self.limit
    isPassedOn = first == .parent
  }

  /// - Returns: true for a stop of its own, after which the process must not wait any longer. The parent's first signal
  ///   is none.
  mutating func isImpatient(_ sender: StopSender, at now: ContinuousClock.Instant) -> Bool {
    if sender == .parent, !isPassedOn {
      isPassedOn = true
      return false
    }
    return now >= end
  }
}
