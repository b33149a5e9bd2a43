// SIGKILL of each process at each of its steps of sharing, accepting, writing, moving, leaving and stopping.

import Foundation
import Testing

struct StepTests {
  /// The processes to kill, by their roles in the operations.
  fileprivate enum Victim: String, CaseIterable {
    case gateway, ownersWorker, guestsWorker, share, notifier
  }

  /// The behaviour of the client and the process during a kill.
  fileprivate enum Course: String {
    /// The client waits, and the remaining processes try to answer.
    case patient
    /// The client hangs up at the kill, so that no process repeats the request for it.
    case hangingUp
    /// The client hangs up, and the process is killed again while it starts.
    case killedTwice
  }

  /// The kills are made in two installations side by side.
  enum Part: CaseIterable {
    case ownersWorker, others

    fileprivate var courses: [(Victim, Course)] {
      switch self {
      case .ownersWorker: [(.ownersWorker, .patient), (.ownersWorker, .killedTwice)]
      case .others:
        [(.gateway, .patient), (.guestsWorker, .hangingUp), (.share, .patient), (.notifier, .patient)]
      }
    }
  }

  /// An operation with more steps than this never ends.
  private static let stepLimit = 60

  private struct Run {
    let installation: Installation
    let shim: StepShim
    let cast: StepCast
    /// The holders of the shards while all processes run.
    let holders: [Value]
    var zones: Set<String> = []
    var graphs: [StepGraph] = []
    /// Kills after which the whole operation, or nothing of it, was there.
    var doneCount = 0
    var notBegunCount = 0
    /// Kills of a process that was just restarting.
    var againCount = 0

    func name(of victim: Victim) -> String {
      switch victim {
      case .gateway, .share, .notifier: victim.rawValue
      case .ownersWorker: cast.ownersWorker
      case .guestsWorker: cast.guestsWorker
      }
    }

    /// Waits until every shard is at its usual holder and no process has work left.
    func settle() async throws {
      try await comeBack()
      try await calm()
    }

    static func holders(_ installation: Installation) async throws -> [Value] {
      try await installation.admin("GET", "/admin/1/shards")["shards"].elements.map { $0["worker"] }
    }

    private func comeBack() async throws {
      for _ in 0..<1500 {
        // Dropped because a process that is not back yet is asked again.
        if let shards = try? await Self.holders(installation), shards == holders { return }
        try await Task.sleep(for: .milliseconds(10))
      }
      throw Unexpected("the shards do not come back")
    }

    private func calm(orKilled victim: String? = nil) async throws {
      let names = ["gateway", "notifier", "share", "worker-1", "worker-2"]
      var (last, stillCount) = ([Int](), 0)
      for _ in 0..<500 where stillCount < 4 {
        if let victim, try shim.progress(of: victim).wasKilled { return }
        let counts = try names.map(shim.count)
        stillCount = counts == last ? stillCount + 1 : 0
        last = counts
        try await Task.sleep(for: .milliseconds(10))
      }
    }

    /// Requests an operation, and kills a process at one of its steps.
    private mutating func attempt(
      _ operation: StepOperation, _ shape: StepGraph, _ requestID: String, killing name: String, at step: Int,
      _ course: Course
    ) async throws -> (StepOutcome, StepShim.Progress) {
      try await settle()
      try shim.arm(name, at: step)
      let (people, shim, watcher, guest) = (cast.people, shim, cast.watcher, cast.bobs)
      let request = Task { try await people.attempt(operation, shape, requestID: requestID) }
      let watch = Task {
        while try !shim.progress(of: name).wasKilled { try await Task.sleep(for: .milliseconds(1)) }
        if course != .patient { request.cancel() }
        async let own: Void = watcher.watch(shape, asOwner: true, "\(operation), \(name) killed at step \(step)")
        async let others: Void = guest.watch(shape, asOwner: false, "\(operation), \(name) killed at step \(step)")
        _ = try await (own, others)
      }
      let outcome = try await request.value
      // Work that an answer leaves behind is part of the operation.
      try await calm(orKilled: name)
      let progress = try shim.progress(of: name)
      if progress.wasKilled, course == .killedTwice, try await killAgain(name, at: 1 + step % 4) { againCount += 1 }
      if progress.wasKilled { try await comeBack() }
      watch.cancel()
      if case .failure(let error) = await watch.result, !(error is CancellationError) { throw error }
      try shim.disarm(name)
      return (outcome, progress)
    }

    /// Kills a restarted process again at one of its first steps.
    private func killAgain(_ name: String, at step: Int) async throws -> Bool {
      try shim.arm(name, at: step)
      for _ in 0..<500 {
        if try shim.progress(of: name).wasKilled { return true }
        try await Task.sleep(for: .milliseconds(2))
      }
      return false
    }

    /// Checks the state after a kill: the operation must be complete or without any effect.
    /// - Returns: true when it was complete.
    private mutating func expectWhole(
      _ operation: StepOperation, _ shape: StepGraph, _ outcome: StepOutcome, _ note: Comment
    ) async throws -> Bool {
      try await settle()
      let before = cast.sight(of: shape)
      let seen = try await cast.look(at: shape)
      let isDone = seen != before
      let zoneName = shape.zoneName ?? (isDone ? seen.zoneName : nil)
      if isDone {
        #expect(seen == cast.sight(of: cast.done(operation, shape, in: zoneName)), note)
        doneCount += 1
      } else {
        notBegunCount += 1
      }
      if case .answered = outcome { #expect(isDone, note) }
      #expect(try await cast.shareZones() == zones.union([zoneName].compactMap { $0 }), note)
      try await cast.expectGuests(see: seen, of: shape, in: zoneName)
      return isDone
    }

    /// Runs an operation with a kill, checks, repeats it if needed, and checks again.
    mutating func run(
      _ operation: StepOperation, _ shape: StepGraph, killing name: String, at step: Int, _ course: Course
    ) async throws -> (StepGraph, StepShim.Progress) {
      var requestID = UUID().uuidString
      var (outcome, progress) = try await attempt(operation, shape, requestID, killing: name, at: step, course)
      let note: Comment = "\(operation) with \(name) killed at step \(step) of \(progress.kinds)"
      var isDone = false
      if progress.wasKilled {
        // A guest's save is on its way to the owner as soon as the guest's shard has it.
        if operation == .write {
          try await settle()
        } else {
          isDone = try await expectWhole(operation, shape, outcome, note)
        }
        let first = outcome
        // A client that has forgotten its request makes a new one.
        let isAnew = course != .patient && operation.isRepeatable
        if isAnew { requestID = UUID().uuidString } else { isDone = false }
        outcome = try await cast.people.attempt(operation, shape, requestID: requestID)
        if case .answered(let answer) = outcome, case .answered(let earlier) = first, !isAnew {
          #expect(answer["moved"] == earlier["moved"], note)
        }
      }
      let (answer, done) = try await finish(operation, shape, outcome, requestID: requestID, note)
      if operation.isMove {
        #expect(Set(answer["moved"].elements.compactMap(\.string)) == Set(isDone ? [] : shape.objectIDs), note)
      }
      #expect(try await cast.look(at: done) == cast.sight(of: done), note)
      try await cast.expectGuests(see: cast.sight(of: done), of: done, in: done.zoneName)
      try await cast.expectIndex(cast.sight(of: done).members.count)
      try await expectNews(of: operation, shape, note)
      return (done, progress)
    }

    /// Runs an operation without a kill.
    mutating func run(_ operation: StepOperation, _ shape: StepGraph) async throws -> StepGraph {
      let done = try await finish(operation, shape, .unanswered, requestID: UUID().uuidString, "\(operation)").done
      try await cast.tablet.pull()
      try await expectNews(of: operation, shape, "\(operation)")
      return done
    }

    /// Repeats a request until it is answered.
    private mutating func finish(
      _ operation: StepOperation, _ shape: StepGraph, _ first: StepOutcome, requestID: String, _ note: Comment
    ) async throws -> (answer: Value, done: StepGraph) {
      var outcome = first
      for _ in 0..<500 {
        if case .answered = outcome { break }
        outcome = try await cast.people.attempt(operation, shape, requestID: requestID)
        if case .unanswered = outcome { try await Task.sleep(for: .milliseconds(20)) }
      }
      guard case .answered(let answer) = outcome else { throw Unexpected("\(note): it is not answered") }
      var done = cast.done(operation, shape, in: shape.zoneName ?? answer["zoneID"]["zoneName"].string)
      if operation == .share { done.shortGUID = try #require(answer["share"]["shortGUID"].string) }
      if let zoneName = done.zoneName { zones.insert(zoneName) }
      if operation == .write {
        for _ in 0..<500 where try await cast.bobs.device.repeated("GET", "/status")["pendingUploads"].integer != 0 {
          try await Task.sleep(for: .milliseconds(20))
        }
        var object = try #require(done.graph.objects[done.bobs])
        object.zone = ["zoneName": .string(done.zoneName ?? "")]
        await cast.bobs.have(done.bobs, object)
      }
      return (answer, done)
    }

    /// A move must have come as one move of each object.
    private func expectNews(of operation: StepOperation, _ shape: StepGraph, _ note: Comment) async throws {
      let news = await cast.tablet.takeNews().filter { shape.objectIDs.contains($0["objectID"].string ?? "") }
      let kinds = news.compactMap { $0["changeType"].string }
      #expect(!kinds.contains("delete") && !kinds.contains("unlink"), note)
      #expect(kinds.count { $0 == "move" } == (operation.isMove ? shape.objectIDs.count : 0), "\(note) told \(kinds)")
    }

    /// New devices of the owner must have all graphs, and new devices of the guests none.
    func expectEverything() async throws {
      var expected = Graph()
      for shape in graphs {
        expected.objects.merge(shape.graph.objects) { $1 }
        expected.pairs.formUnion(shape.graph.pairs)
      }
      #expect(try await cast.alice.device("new").importedGraph().graph == expected)
      for guest in [cast.bob, cast.carol] {
        #expect(try await guest.device("new", in: "shared").importedGraph().graph == Graph())
      }
    }

    /// Carol accepts without a kill; bob imports the graph for the later writes.
    func letCarolIn(_ shape: StepGraph) async throws -> StepGraph {
      var shape = shape
      _ = try await cast.carols.device.repeated(
        "POST", "/accept", ["shortGUIDs": [["value": .string(shape.shortGUID)]]])
      shape.carolIsIn = true
      try await cast.bobs.pull()
      return shape
    }
  }

  @Test(.timeLimit(.minutes(10)), arguments: Part.allCases)
  func
    `T-P01 T-P02 T-P09 T-P10 a kill at any step leaves each call of sharing wholly done or not begun`(_ part: Part)
    async throws
  {
    let folder = try Installation.makeFolder()
    defer { try? FileManager.default.removeItem(at: folder) }
    let shim = try StepShim(in: folder)
    let began = ContinuousClock.now
    try await Installation.run(workers: 2, options: ["--restart-pause", "50"], environment: shim.environment) {
      installation in
      let cast = try await StepCast(installation)
      var run = Run(installation: installation, shim: shim, cast: cast, holders: try await Run.holders(installation))
      var killCounts: [StepOperation: [Victim: Int]] = [:]
      for (victim, course) in part.courses {
        var open = Set(StepOperation.allCases)
        for step in 1...Self.stepLimit where !open.isEmpty {
          var shape = try await cast.make(run.graphs.count + 1)
          for operation in StepOperation.allCases {
            if open.contains(operation) {
              let (next, progress) = try await run.run(
                operation, shape, killing: run.name(of: victim), at: step, course)
              shape = next
              if progress.wasKilled {
                killCounts[operation, default: [:]][victim, default: 0] += 1
              } else {
                open.remove(operation)
                print("\(operation), \(victim), \(course): \(step - 1) kills, steps at last \(progress.kinds)")
              }
            } else {
              shape = try await run.run(operation, shape)
            }
            if operation == .accept { shape = try await run.letCarolIn(shape) }
          }
          run.graphs.append(shape)
        }
        #expect(open.isEmpty, "\(victim) has no end of steps in \(open)")
      }
      print(
        """
        \(part): killed \(run.doneCount + run.notBegunCount) times, of which \(run.notBegunCount) before anything was \
        done, and \(run.againCount) again, in \(began.duration(to: .now))
        """
      )
      for operation in StepOperation.allCases {
        for (victim, least) in Self.leastKills(of: operation) where part.courses.contains(where: { $0.0 == victim }) {
          #expect(killCounts[operation]?[victim] ?? 0 >= least, "\(operation), \(victim)")
        }
      }
      #expect(run.doneCount > 0 && run.notBegunCount > 0 && (run.againCount > 0) == (part == .ownersWorker))
      try await run.expectEverything()
    }
  }

  /// The least number of kills for each process. The gateway and the owner's worker take part in every operation.
  private static func leastKills(of operation: StepOperation) -> [Victim: Int] {
    let others: [Victim: Int] =
      switch operation {
      case .share: [.share: 1]
      case .write: [.share: 1, .guestsWorker: 5]
      case .accept: [.share: 3, .guestsWorker: 2]
      case .leave: [.share: 3, .guestsWorker: 3]
      case .stop: [.share: 2]
      case .moveOut, .moveIn: [:]
      }
    return others.merging([.gateway: 2, .ownersWorker: 8]) { $1 }
  }
}
