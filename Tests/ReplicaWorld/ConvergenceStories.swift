// Many stories, several side by side: the server has many users at once.

import Synchronization

package struct ConvergenceStories: Sendable {
  private let server: Server
  private let seeds: Range<Int>
  private let broken: Rule?
  private let jobs: Int
  private let endsZone: Bool

  /// - Parameters:
  ///   - broken: the rule that all replicas break.
  ///   - jobs: how many stories are told at a time.
  ///   - endsZone: the zone ends in each story, not only in those of chance.
  package init(_ server: Server, seeds: Range<Int>, broken: Rule? = nil, jobs: Int = 8, endsZone: Bool = false) {
    (self.server, self.seeds, self.broken, self.jobs, self.endsZone) = (server, seeds, broken, jobs, endsZone)
  }

  /// - Parameters:
  ///   - endsAtFirst: no story begins after one that is told.
  ///   - ended: takes what happened in each story.
  ///   - told: takes a story whose devices are not equal, or that has no end.
  /// - Returns: how many stories were told so.
  package func tell(
    endsAtFirst: Bool = false, ended: (@Sendable (StoryCounts) -> Void)? = nil,
    _ told: @escaping @Sendable (ConvergenceStory, ConvergenceStory.Ending) -> Void
  ) async -> Int {
    let rest = Seeds(seeds)
    return await withTaskGroup(of: Int.self) { group in
      for _ in 0..<jobs {
        group.addTask { [server, broken, endsZone] in
          var count = 0
          while let seed = rest.next() {
            let story = ConvergenceStory(server, seed: seed, broken: broken, endsZone: endsZone)
            let ending = await story.ending()
            ended?(story.trace.counts)
            if ending == .equal { continue }
            count += 1
            if endsAtFirst { rest.end() }
            told(story, ending)
          }
          return count
        }
      }
      return await group.reduce(0, +)
    }
  }
}

/// Seeds whose stories have not begun.
private final class Seeds: Sendable {
  private let rest: Mutex<Range<Int>>

  init(_ seeds: Range<Int>) { rest = Mutex(seeds) }

  func next() -> Int? { rest.withLock { $0.popFirst() } }
  func end() { rest.withLock { $0 = $0.upperBound..<$0.upperBound } }
}
