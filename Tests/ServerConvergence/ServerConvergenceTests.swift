// Random runs over the real worker's code with files, both planes, exports, imports and kills. Planted flaws must be
// noticed.

import ServerWorld
import Testing

/// The number of runs in CI; `server-convergence-runs` does thousands.
private let seedCount = 20

private var short: RunOptions {
  var options = RunOptions()
  options.stepCount = 120
  return options
}

@Test(.timeLimit(.minutes(5)), arguments: 0..<seedCount, ["policies", "sample"])
func
  `T-O06 devices, a new device and the records are equal in the end, whatever is lost, repeated or killed`(
    _ seed: Int, _ model: String
  ) async throws
{
  let shape = try #require(RunModels.named(model))
  for difference in try await ServerRun.outcome(ofSeed: seed, shape, short).differences.prefix(3) {
    Issue.record("seed \(seed): \(difference)")
  }
}

@Test(arguments: ServerRun.knownSeeds) func `runs over the worker that failed once converge`(
  _ seed: ServerRun.KnownSeed
) async throws {
  let shape = try #require(RunModels.named(seed.model))
  var options = RunOptions()
  options.stepCount = seed.stepCount
  #expect(try await ServerRun.outcome(ofSeed: seed.number, shape, options).differences.prefix(3) == [])
}

/// Several runs, because a flaw does not show in every run.
@Test(arguments: ServerRun.flaws) func `a client with a mistake is seen`(_ flaw: String) async throws {
  var options = short
  options.flaw = flaw
  options.stepCount = 100
  for seed in 0..<20 where try await !ServerRun.outcome(ofSeed: seed, RunModels.policies, options).differences.isEmpty {
    return
  }
  Issue.record("20 runs don't notice \(flaw)")
}
