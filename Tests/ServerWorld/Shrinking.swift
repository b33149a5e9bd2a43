// Finds a short list of steps that still diverge, for people to read.

package enum Shrinking {
  /// - Parameter limit: the most runs to try.
  /// - Returns: the outcome of the shortest run that still fails; nil when the whole run does not fail.
  package static func shortest(ofSeed seed: Int, _ shape: ModelShape, _ options: RunOptions, limit: Int = 400)
    async throws -> RunOutcome?
  {
    var steps = Array(0..<options.stepCount)
    var best = try await ServerRun.outcome(ofSeed: seed, shape, options)
    if best.differences.isEmpty { return nil }
    var tries = 0
    var size = steps.count / 2
    while size > 0, tries < limit {
      var start = 0
      var hasShrunk = false
      while start < steps.count, tries < limit {
        var fewer = steps
        fewer.removeSubrange(start..<min(start + size, steps.count))
        tries += 1
        let outcome = try await ServerRun.outcome(ofSeed: seed, shape, options, steps: fewer)
        if outcome.differences.isEmpty {
          start += size
        } else {
          steps = fewer
          best = outcome
          hasShrunk = true
        }
      }
      if size == 1, !hasShrunk { break }
      size = max(1, size / 2)
    }
    return best
  }
}
