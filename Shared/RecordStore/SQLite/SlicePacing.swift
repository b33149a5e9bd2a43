// How much of a writer's time goes to work that nobody waits for.

/// Tells when the next slice of background work may begin: one after the other while nobody saves; while somebody does, with pauses that leave
/// saves four fifths of the time, and the work an end however many saves come.
struct SlicePacing {
  /// A pause is so many times as long as the slice before it.
  static let pauseFactor = 4

  private var wasSavedTo = false
  private var pauseEnd: ContinuousClock.Instant?

  /// A group was committed.
  mutating func noteSave() { wasSavedTo = true }

  /// A slice was done.
  mutating func note(from start: ContinuousClock.Instant, to end: ContinuousClock.Instant) {
    wasSavedTo = false
    pauseEnd = end.advanced(by: start.duration(to: end) * Self.pauseFactor)
  }

  /// How long a slice waits for whoever saves next: zero, it goes after those who wait already; nil, it goes before them.
  func patience(at now: ContinuousClock.Instant) -> Duration? {
    // Who came during the slice before has waited for it.
    guard wasSavedTo else { return .zero }
    guard let pauseEnd, now < pauseEnd else { return nil }
    return now.duration(to: pauseEnd)
  }
}
