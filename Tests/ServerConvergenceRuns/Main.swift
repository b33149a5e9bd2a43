// More runs over the real worker than CI has time for: `server-convergence-runs --runs 1000 --steps 300`.

import Foundation
import ServerWorld

/// The options of the command line.
private struct Options {
  var runs = 20
  var seed = 0
  var model = "policies"
  var shrinks = false
  var jobs = 2
  var run = RunOptions()
  var steps: [Int]?

  /// nil for a command line with a mistake.
  init?(_ arguments: [String]) {
    var rest = arguments[...]
    while let name = rest.popFirst() {
      switch name {
      case "--shrink":
        shrinks = true
        continue
      case "--tell":
        run.tells = true
        continue
      case "--alone":
        run.shares = false
        continue
      default: break
      }
      guard let text = rest.popFirst() else { return nil }
      switch (name, Int(text)) {
      case ("--only", _): steps = text.split(separator: ",").compactMap { Int($0) }
      case ("--runs", let number?): runs = number
      case ("--seed", let number?): seed = number
      case ("--steps", let number?): run.stepCount = number
      case ("--jobs", let number?): jobs = number
      case ("--flaw", _): run.flaw = text
      case ("--model", _): model = text
      default: return nil
      }
    }
  }
}

@main
private enum ServerConvergences {
  static func main() async throws {
    guard let options = Options(Array(CommandLine.arguments.dropFirst())), let shape = RunModels.named(options.model)
    else {
      print(
        """
        server-convergence-runs [--runs N] [--seed S] [--steps N] [--jobs N] [--model \
        policies|sample|FILE.xcdatamodeld] [--flaw F] [--shrink] [--only STEPS] [--alone] [--tell]
        N runs from seed S on; prints the seeds that diverge, with what differs first, and with --shrink the fewest \
        steps that show it; --only 7,11 does those steps alone; --alone leaves out shares; --tell prints what was \
        done, asked and answered
        """)
      exit(2)
    }
    let start = ContinuousClock.now
    let failed = try await withThrowingTaskGroup(of: Int.self) { group in
      for job in 0..<options.jobs {
        group.addTask {
          var failed = 0
          for seed in stride(from: options.seed + job, to: options.seed + options.runs, by: options.jobs) {
            let outcome = try await ServerRun.outcome(ofSeed: seed, shape, options.run, steps: options.steps)
            if options.run.tells { print(outcome.trace.joined(separator: "\n")) }
            if outcome.differences.isEmpty { continue }
            failed += 1
            print("seed \(seed): \(outcome.differences.count) differences, first \(outcome.differences[0])")
            guard options.shrinks, let shortest = try await Shrinking.shortest(ofSeed: seed, shape, options.run) else {
              continue
            }
            print(
              (shortest.trace + shortest.differences.prefix(10).map { "=> \($0)" }).map { "  " + $0 }.joined(
                separator: "\n"))
          }
          return failed
        }
      }
      var failed = 0
      for try await count in group { failed += count }
      return failed
    }
    print(
      """
      \(options.runs) runs of \(options.run.stepCount) steps over \(options.model) from seed \(options.seed) on in \
      \(ContinuousClock.now - start), \(failed) diverged
      """
    )
    // Not `exit`: threads of the workers may still run (`ServiceProcess.run`).
    fflush(nil)
    _exit(failed == 0 ? 0 : 1)
  }
}
