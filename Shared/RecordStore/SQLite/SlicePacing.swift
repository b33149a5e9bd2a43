// Divides a writer's time between saves and background work.

/// Tells when the next slice of background work may begin. Without saves, slices follow each other directly. With
/// saves, a pause after each slice leaves them four fifths of the time, and the work still finishes however many saves
/// come.
struct SlicePacing {
  /// The length of a pause as a multiple of the slice before it.
  static let pauseFactor = 4

  private var wasSavedTo = false
  private var pauseEnd: ContinuousClock.Instant?

  /// Notes a committed group.
  mutating func noteSave() { wasSavedTo = true }

  /// Notes a finished slice.
  mutating func note(from start: ContinuousClock.Instant, to end: ContinuousClock.Instant) {
    wasSavedTo = false
    pauseEnd = end.advanced(by: start.duration(to: end) * Self.pauseFactor)
  }

  /// The time for which the next slice waits for a save: zero lets it run after the waiting saves, nil before them.
  func patience(at now: ContinuousClock.Instant) -> Duration? {
    // Saves that arrived during the previous slice have waited for it, so they come first.
    guard wasSavedTo else { return .zero }
    guard let pauseEnd, now < pauseEnd else { return nil }
    return now.duration(to: pauseEnd)
  }
}
