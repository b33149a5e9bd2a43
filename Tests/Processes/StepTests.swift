// SIGKILL of each process at each of its steps of sharing, accepting, moving, leaving and stopping.

import Foundation
import Testing

@Suite(.serialized) struct StepTests {
  /// The processes that are killed, by what they are to the operations.
  private enum Victim: String, CaseIterable {
    case gateway, ownersWorker, guestsWorker, share
  }

  /// More steps than these are no operation's: something goes on for ever.
  private static let stepLimit = 60

  private struct Run {
    let installation: Installation
    let shim: StepShim
    let cast: StepCast
    /// Holders of the shards while everything runs.
    let holders: Value
    var zones: Set<String> = []
    var graphs: [StepGraph] = []
    /// How often a process was killed after which all of an operation was there, or nothing.
    var doneCount = 0
    var notBegunCount = 0

    func name(of victim: Victim) -> String {
      switch victim {
      case .gateway, .share: victim.rawValue
      case .ownersWorker: cast.ownersWorker
      case .guestsWorker: cast.guestsWorker
      }
    }

    /// Waits until every shard is where it belongs and no process has anything to do.
    func settle() async throws {
      for _ in 0..<1500 {
        // Dropped because a process that is not there yet is asked again.
        if let shards = try? await installation.admin("GET", "/admin/1/shards"), shards == holders { return try await calm() }
        try await Task.sleep(for: .milliseconds(10))
      }
      throw Unexpected("the shards do not come back")
    }

    private func calm() async throws {
      let names = ["gateway", "share", "worker-1", "worker-2"]
      var (last, stillCount) = ([Int](), 0)
      for _ in 0..<500 where stillCount < 4 {
        let counts = try names.map(shim.count)
        stillCount = counts == last ? stillCount + 1 : 0
        last = counts
        try await Task.sleep(for: .milliseconds(10))
      }
    }

    /// Asks for an operation, with a process that is killed at a step of it.
    /// - Parameter hangsUp: nobody waits for an answer once it is killed, and so nobody in the installation repeats the request either.
    private func attempt(
      _ operation: StepOperation, _ shape: StepGraph, _ requestID: String, killing name: String, at step: Int, hangsUp: Bool
    ) async throws -> (StepOutcome, StepShim.Progress) {
      try await settle()
      try shim.arm(name, at: step)
      let (people, shim) = (cast.people, shim)
      let request = Task { try await people.attempt(operation, shape, requestID: requestID) }
      let watch = Task {
        while !Task.isCancelled, hangsUp {
          if try shim.progress(of: name).wasKilled { return request.cancel() }
          try await Task.sleep(for: .milliseconds(1))
        }
      }
      let outcome = try await request.value
      watch.cancel()
      // What an answer leaves to be done is part of the operation.
      try await calm()
      let progress = try shim.progress(of: name)
      try shim.disarm(name)
      return (outcome, progress)
    }

    /// What is there after a process died: the operation as a whole, or nothing of it.
    private mutating func expectWhole(_ operation: StepOperation, _ shape: StepGraph, _ outcome: StepOutcome, _ note: Comment) async throws {
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
    }

    /// Does an operation, looks, if need be repeats it, and looks again.
    mutating func run(
      _ operation: StepOperation, _ shape: StepGraph, killing name: String?, at step: Int, hangsUp: Bool
    ) async throws -> (StepGraph, StepShim.Progress?) {
      let requestID = UUID().uuidString
      var (outcome, progress, note): (StepOutcome, StepShim.Progress?, Comment) = (.unanswered, nil, "\(operation)")
      if let name {
        let (first, steps) = try await attempt(operation, shape, requestID, killing: name, at: step, hangsUp: hangsUp)
        (outcome, progress, note) = (first, steps, "\(operation) with \(name) killed at step \(step) of \(steps.kinds)")
        if steps.wasKilled {
          try await expectWhole(operation, shape, first, note)
          outcome = try await cast.people.attempt(operation, shape, requestID: requestID)
          if case .answered(let answer) = outcome, case .answered(let earlier) = first { #expect(answer["moved"] == earlier["moved"], note) }
        }
      }
      for _ in 0..<500 {
        if case .answered = outcome { break }
        outcome = try await cast.people.attempt(operation, shape, requestID: requestID)
        if case .unanswered = outcome { try await Task.sleep(for: .milliseconds(20)) }
      }
      guard case .answered(let answer) = outcome else { throw Unexpected("\(note): it is not answered") }
      var done = cast.done(operation, shape, in: shape.zoneName ?? answer["zoneID"]["zoneName"].string)
      if operation == .share { done.shortGUID = try #require(answer["share"]["shortGUID"].string) }
      let isMove = [.share, .moveOut, .moveIn].contains(operation)
      if isMove { #expect(Set(answer["moved"].elements.compactMap(\.string)) == Set(shape.objectIDs), note) }
      #expect(try await cast.look(at: done) == cast.sight(of: done), note)
      if let zoneName = done.zoneName { zones.insert(zoneName) }
      try await cast.expectGuests(see: cast.sight(of: done), of: done, in: done.zoneName)
      let news = cast.tablet.takeNews().filter { shape.objectIDs.contains($0["objectID"].string ?? "") }
      let kinds = news.compactMap { $0["changeType"].string }
      #expect(!kinds.contains("delete") && !kinds.contains("unlink"), note)
      #expect(kinds.count { $0 == "move" } == (isMove ? shape.objectIDs.count : 0), "\(note) told \(kinds)")
      return (done, progress)
    }

    /// Carol comes without anybody being killed.
    func letCarolIn(_ shape: StepGraph) async throws -> StepGraph {
      var shape = shape
      _ = try await cast.carols.device.repeated("POST", "/accept", ["shortGUIDs": [["value": .string(shape.shortGUID)]]])
      shape.carolIsIn = true
      return shape
    }
  }

  @Test(.timeLimit(.minutes(10)))
  func `T-P01 T-P02 T-P09 T-P10 whoever is killed at whatever step, sharing, accepting, moving, leaving and stopping are done wholly or not begun`() async throws {
    let folder = try Installation.makeFolder()
    defer { try? FileManager.default.removeItem(at: folder) }
    let shim = try StepShim(in: folder)
    let began = ContinuousClock.now
    try await Installation.run(workers: 2, options: ["--restart-pause", "50"], environment: shim.environment) { installation in
      let cast = try await StepCast(installation)
      var run = Run(installation: installation, shim: shim, cast: cast, holders: try await installation.admin("GET", "/admin/1/shards"))
      var killCounts: [String: Int] = [:]
      for (victim, hangsUp) in [
        (Victim.gateway, false), (.ownersWorker, false), (.ownersWorker, true), (.guestsWorker, false), (.guestsWorker, true), (.share, false), (.share, true),
      ] {
        var open = Set(StepOperation.allCases)
        for step in 1...Self.stepLimit where !open.isEmpty {
          var shape = try await cast.make(run.graphs.count + 1)
          for operation in StepOperation.allCases {
            let isOpen = open.contains(operation)
            let (next, progress) = try await run.run(operation, shape, killing: isOpen ? run.name(of: victim) : nil, at: step, hangsUp: hangsUp)
            shape = next
            if operation == .accept { shape = try await run.letCarolIn(shape) }
            guard let progress else { continue }
            if progress.wasKilled {
              killCounts["\(operation) \(victim)", default: 0] += 1
            } else {
              open.remove(operation)
              print("\(operation), \(victim): \(step - 1) kills, steps \(progress.kinds)")
            }
          }
          run.graphs.append(shape)
        }
        #expect(open.isEmpty, "\(victim) has no end of steps in \(open)")
        print("\(victim), \(hangsUp): \(began.duration(to: .now)) done \(run.doneCount), not begun \(run.notBegunCount)")
      }
      print(killCounts)
    }
  }
}
