// Devices that edit, lose answers and die become equal: against the real server's processes.

import ReplicaWorld
import Synchronization
import Testing

@Suite(.serialized, .enabled(if: Server.binaries != nil)) struct ConvergenceTests {
  /// A few; `deploy/test` has a release tell thousands.
  @Test func `three devices and a fresh one are equal, whatever is lost and whoever dies`() async throws {
    try await Server.run(Server.unlimited, in: Server.memory) { server in
      _ = await ConvergenceStories(server, seeds: 1..<9).tell { story, ending in
        Issue.record("seed \(story.seed): \(ending)")
      }
    }
  }

  /// Without K4 a page shows the value before an edit again, until the edit comes back from the server.
  @Test func `a value that goes back without an edit is seen`() async throws {
    let setbacks = Mutex(0)
    try await Server.run(Server.unlimited, in: Server.memory) { server in
      _ = await ConvergenceStories(server, seeds: 1..<33, broken: .keepsPending).tell { _, ending in
        guard case .different(let difference) = ending, difference.contains("went back") else { return }
        setbacks.withLock { $0 += 1 }
      }
    }
    #expect(setbacks.withLock { $0 } > 0)
  }

  @Test(arguments: Rule.allCases) func `a rule that is broken is seen`(_ rule: Rule) async throws {
    try await Server.run(Server.unlimited, in: Server.memory) { server in
      let stories = ConvergenceStories(server, seeds: 1..<600, broken: rule)
      let count = await stories.tell(endsAtFirst: true) { story, ending in
        if case .different = ending { return print("broken \(rule.rawValue): seen at seed \(story.seed)") }
        Issue.record("seed \(story.seed): \(ending)")
      }
      #expect(count > 0, "\(rule.rawValue)")
    }
  }
}
