// Stories of three devices with a real server, many seeds: `replica-convergence-runs --runs 100000 --seed 1`.

import CLinux
import Foundation
import HTTPClient
import OneProcessServer
import ReplicaWorld
import Synchronization

/// The options of the command line.
private struct Options: Sendable {
  var runs = 2000
  var seed = 1
  var jobs = 8
  var broken: Rule?
  var tells = false
  var endsZone = false
  var counts = false
  var usesProcesses = false

  /// nil for a command line with a mistake.
  init?(_ arguments: [String]) {
    var rest = arguments[...]
    while let name = rest.popFirst() {
      if let flag = Self.flags[name] {
        self[keyPath: flag] = true
        continue
      }
      guard let text = rest.popFirst() else { return nil }
      switch (name, Int(text)) {
      case ("--runs", let number?): runs = number
      case ("--seed", let number?): seed = number
      case ("--jobs", let number?) where number > 0: jobs = number
      case ("--broken", _):
        broken = Rule(rawValue: text)
        if broken == nil { return nil }
      default: return nil
      }
    }
  }

  private static let flags: [String: any WritableKeyPath<Options, Bool> & Sendable] = [
    "--tell": \.tells, "--zone-ends": \.endsZone, "--count": \.counts, "--processes": \.usesProcesses,
  ]
}

@main
private enum ReplicaConvergences {
  static func main() async {
    guard let options = Options(Array(CommandLine.arguments.dropFirst())) else {
      print(
        """
        replica-convergence-runs [--runs N] [--seed S] [--jobs N] [--zone-ends] [--processes] [--tell] [--count] \
        [--broken \(Rule.allCases.map(\.rawValue).joined(separator: "|"))]
        N stories from seed S on, so many side by side as --jobs says, with the server's services in this process, or \
        with --processes with the executables in AQUIFER_BIN; prints the seeds that diverge or have no end, with the \
        reason and the command that repeats them, and with --tell what their devices saved, asked and were answered; \
        with --zone-ends the zone ends in each story; --broken breaks a rule in every replica; --count prints how \
        often each kind of thing happened
        """)
      HTTPClient.endProcess(2)
    }
    // Each story opens and closes files, whose memory need not go back to the kernel.
    mallopt(M_TRIM_THRESHOLD, .max)
    mallopt(M_TOP_PAD, 16 << 20)
    mallopt(M_MMAP_THRESHOLD, 1 << 30)
    do {
      HTTPClient.endProcess(try await count(options) == 0 ? 0 : 1)
    } catch {
      print("replica-convergence-runs: \(error)")
      HTTPClient.endProcess(1)
    }
  }

  /// - Returns: how many stories diverged, or have no end.
  private static func count(_ options: Options) async throws -> Int {
    let start = ContinuousClock.now
    var count = 0
    if options.usesProcesses {
      try await Server.run(Server.unlimited, in: Server.memory) { count = await told(options, $0) }
    } else {
      try await OneProcessServer.run(in: Server.memory) { count = await told(options, $0) }
    }
    print(
      """
      \(options.runs) stories from seed \(options.seed) on in \(ContinuousClock.now - start), \(count) diverged
      """)
    return count
  }

  private static func told(_ options: Options, _ server: Server) async -> Int {
    let counts = Mutex(StoryCounts())
    let stories = ConvergenceStories(
      server, seeds: options.seed..<options.seed + options.runs, broken: options.broken, jobs: options.jobs,
      endsZone: options.endsZone)
    let note: @Sendable (StoryCounts) -> Void = { one in counts.withLock { $0.add(one) } }
    let count = await stories.tell(ended: options.counts ? note : nil) { story, ending in
      let rule = options.broken.map { " --broken \($0.rawValue)" } ?? ""
      let flags = (options.endsZone ? " --zone-ends" : "") + (options.usesProcesses ? " --processes" : "")
      let command = "\(CommandLine.arguments[0]) --runs 1 --seed \(story.seed)\(rule)\(flags)"
      let lines = ["seed \(story.seed): \(ending)", "  again: \(command)"] + (options.tells ? story.trace.lines : [])
      // At once, since others print, too.
      print(lines.joined(separator: "\n"))
    }
    for line in counts.withLock({ $0.lines }) { print(line) }
    return count
  }
}
