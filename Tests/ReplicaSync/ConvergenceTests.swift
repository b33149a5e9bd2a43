// Devices that edit, lose answers and die become equal: against the real server's processes.

import ReplicaWorld
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

  @Test(arguments: Rule.allCases) func `a rule that is broken is seen`(_ rule: Rule) async throws {
    try await Server.run(Server.unlimited, in: Server.memory) { server in
      let stories = ConvergenceStories(server, seeds: 1..<200, broken: rule)
      let count = await stories.tell(endsAtFirst: true) { story, ending in
        if case .different = ending { return print("broken \(rule.rawValue): seen at seed \(story.seed)") }
        Issue.record("seed \(story.seed): \(ending)")
      }
      #expect(count > 0, "\(rule.rawValue)")
    }
  }
}
