// More runs of the convergence property than CI has time for: `convergence-runs --runs 100000 --seed 2000`.

import Convergence
import Foundation

/// The options of the command line.
private struct Options {
  var runs = 10_000
  var seed = 0

  /// nil for a command line with a mistake.
  init?(_ arguments: [String]) {
    var rest = arguments[...]
    while let name = rest.popFirst() {
      guard let text = rest.popFirst(), let number = Int(text), number >= 0 else { return nil }
      switch name {
      case "--runs": runs = number
      case "--seed": seed = number
      default: return nil
      }
    }
  }
}

@main
private enum Convergences {
  static func main() async throws {
    guard let options = Options(Array(CommandLine.arguments.dropFirst())) else {
      print(
        """
        convergence-runs [--runs N] [--seed S]: N runs from seed S on, 10000 from 0 without them; prints the seeds \
        that fail
        """
      )
      exit(2)
    }
    let seeds = ConvergenceRun.knownSeeds + Array(options.seed..<options.seed + options.runs)
    let start = ContinuousClock.now
    let workerCount = max(1, ProcessInfo.processInfo.activeProcessorCount)
    let failed = try await withThrowingTaskGroup(of: [Int].self) { group in
      for worker in 0..<workerCount {
        group.addTask {
          var failed: [Int] = []
          for index in stride(from: worker, to: seeds.count, by: workerCount) {
            let failures =
              try ConvergenceRun.failures(ofSeed: seeds[index])
              + ConvergenceRun.failures(ofSeed: seeds[index], zones: ["home", "Trips", "Work"])
            if failures.isEmpty { continue }
            failed.append(seeds[index])
            print("seed \(seeds[index]): \(failures.joined(separator: "; "))")
          }
          return failed
        }
      }
      var all: [Int] = []
      for try await failed in group { all += failed }
      return all
    }
    print("\(seeds.count) runs from seed \(options.seed) on in \(ContinuousClock.now - start), \(failed.count) failed")
    exit(failed.isEmpty ? 0 : 1)
  }
}
