// Kills, restarts and adds processes while clients save, and notes the times.

import Installations
import PowerLoss

/// One event, from its beginning until all processes answered again.
struct Happening: Hashable, Sendable {
  /// `kill worker`.
  let kind: String
  let started: UInt64
  let ended: UInt64
}

struct Nemesis {
  private let fleet: Fleet
  private let ledger: Ledger
  private var random: SeededRandom
  private(set) var happenings: [Happening] = []
  private var nextWorker: Int
  private let hasSeveralShares: Bool
  private var strikeCount = 0
  /// The next dice of strikes. Each ten strikes have every kind as often as its chance says.
  private var deck: [Int] = []
  /// Writes and names that power cuts took back.
  private(set) var takenBack = 0
  /// True when a process did not start again after an event.
  private(set) var isBeyondRepair = false

  private static let workerLimit = 5

  init(_ fleet: Fleet, _ ledger: Ledger, _ options: Options) {
    self.fleet = fleet
    self.ledger = ledger
    random = SeededRandom(seed: options.seed, stream: -1)
    nextWorker = options.workerCount + 1
    hasSeveralShares = options.shareCount > 1
  }

  // MARK: Plans

  /// Random events on random processes, sometimes two at once.
  mutating func rage(for time: Duration) async {
    let end = ContinuousClock.now + time
    while ContinuousClock.now < end, !Task.isCancelled {
      await rest(200...1000)
      let start = monotonicNanoseconds()
      var kinds = [await strike()].compactMap(\.self)
      if random.chance(25), let second = await strike() { kinds.append(second) }
      await fleet.waitUntilWhole()
      // The effect of two simultaneous events can't be attributed to either.
      if let kind = kinds.first { note(kinds.count == 1 ? kind : "two at once", start) }
    }
  }

  /// Kills workers with SIGKILL, including ones that are still starting.
  mutating func killWorkers(_ count: Int) async {
    for _ in 0..<count where !Task.isCancelled {
      await rest(20...400)
      let start = monotonicNanoseconds()
      guard let victim = await fleet.names(.worker).randomElement(using: &random) else { continue }
      while await !fleet.kill(victim) { await rest(1...10) }
      if random.chance(70) { await fleet.waitUntilWhole() } else { await rest(1...300) }
      note("kill worker", start)
    }
    await fleet.waitUntilWhole()
  }

  /// Adds three workers, restarts workers, notifiers and share service, and removes workers down to one. Gateways are
  /// restarted last, because that breaks clients' connections.
  /// - Parameter beforeGateways: called at a point where no call may have failed yet.
  mutating func scale(beforeGateways: () -> Void) async {
    for _ in 0..<3 { await calmly("join worker") { try await $0.fleet.start(.worker, $0.takeNumber()) } }
    for role in [Role.worker, .notifier, .share] {
      for name in await fleet.names(role) {
        await calmly("restart \(role)") { await $0.fleet.stop(name, forGood: false) }
      }
    }
    while let name = await fleet.names(.worker).last, await fleet.names(.worker).count > 1 {
      await calmly("leave worker") { await $0.fleet.stop(name, forGood: true) }
    }
    beforeGateways()
    for name in await fleet.names(.gateway) {
      await calmly("restart gateway") { await $0.fleet.stop(name, forGood: false) }
    }
  }

  /// Replaces every process by one of another release. Only calls over a connection to an ending gateway may fail.
  /// - Parameter repetitions: attempts repeated so far, by reason.
  mutating func upgrade(_ order: Options.Order, from binaries: String, repetitions: () -> [String: Int]) async {
    var steps: [(role: Role, name: String)] = []
    for role in Role.allCases { steps += await fleet.names(role).map { (role, $0) } }
    switch order {
    case .advised: break
    case .reversed: steps.reverse()
    case .mixed: steps.shuffle(using: &random)
    }
    var known = repetitions()
    func check(_ role: Role, _ what: String) {
      let latest = repetitions()
      for (reason, count) in latest
      where count > known[reason, default: 0] && (role != .gateway || reason.first?.isNumber == true) {
        ledger.refused("\(count - known[reason, default: 0]) calls failed with \(reason) while \(what)")
      }
      known = latest
    }
    var isFirstWorker = true
    for (role, name) in steps {
      await calmly("upgrade \(role)") { await $0.fleet.replace(name, from: binaries) }
      check(role, "\(name) was replaced")
      // The first worker's files have the newer format, so no earlier worker may take them over while it is away.
      guard role == .worker, isFirstWorker, order == .advised else { continue }
      isFirstWorker = false
      await calmly("kill worker") { await $0.fleet.kill(name) }
      check(role, "\(name), the only one of its release, was killed")
    }
  }

  /// Suspends the share service for a while, then resumes it.
  /// - Parameter repetitions: attempts repeated so far, by reason.
  mutating func sendAway(for time: Duration, repetitions: () -> [String: Int]) async {
    await rest(1000...1000)
    let (start, known) = (monotonicNanoseconds(), repetitions())
    for name in await fleet.names(.share) { await fleet.pause(name) }
    // Dropped because a cancelled sleep ends the plan.
    try? await Task.sleep(for: time)
    for name in await fleet.names(.share) { await fleet.resume(name) }
    await fleet.waitUntilWhole()
    await rest(1000...1000)
    note("share away", start)
    for (reason, count) in repetitions() where count > known[reason, default: 0] {
      ledger.refused(
        "\(count - known[reason, default: 0]) calls failed with \(reason) while the share service was away")
    }
  }

  /// Cuts the power: kills all processes at once, and takes back everything that was not synced.
  mutating func cutPower(_ count: Int, _ loss: PowerLoss) async {
    for _ in 0..<count where !Task.isCancelled {
      await rest(100...700)
      let start = monotonicNanoseconds()
      await fleet.pullPlug()
      do {
        let isWhole = random.chance(50)
        takenBack += try loss.strike { isWhole || random.chance(50) }
      } catch {
        await fleet.note("\(error)")
      }
      await fleet.plugIn()
      let isWhole = await fleet.waitUntilWhole()
      note("cut power", start)
      // A process that does not start again has lost more than a save.
      if !isWhole {
        isBeyondRepair = true
        return
      }
    }
  }

  // MARK: Single events

  private mutating func calmly(_ kind: String, _ body: (inout Nemesis) async throws -> Void) async {
    await rest(300...500)
    let start = monotonicNanoseconds()
    do {
      try await body(&self)
    } catch {
      await fleet.note("\(kind): \(error)")
    }
    await fleet.waitUntilWhole()
    // All processes answer, but some shards may still be moving.
    await rest(500...500)
    note(kind, start)
  }

  /// - Returns: the event's name; nil when it was not possible.
  private mutating func strike() async -> String? {
    strikeCount += 1
    if hasSeveralShares, strikeCount % 4 == 2, let leader = await fleet.leader {
      return await fleet.kill(leader) ? "kill leading share" : nil
    }
    let dice = takeDice()
    let workers = await fleet.names(.worker)
    if dice >= 90, workers.count < Self.workerLimit {
      do {
        try await fleet.start(.worker, takeNumber())
        return "join worker"
      } catch {
        await fleet.note("\(error)")
        return nil
      }
    }
    if dice >= 80, workers.count > 2, let victim = workers.randomElement(using: &random) {
      return await fleet.stop(victim, forGood: true) ? "leave worker" : nil
    }
    // Workers most often, because they hold the data.
    let role: Role = random.chance(55) ? .worker : [.gateway, .share, .notifier][Int.random(in: 0..<3, using: &random)]
    guard let victim = await fleet.names(role).randomElement(using: &random) else { return nil }
    if dice >= 45 { return await fleet.kill(victim) ? "kill \(role)" : nil }
    if dice >= 25 { return await fleet.stop(victim, forGood: false) ? "restart \(role)" : nil }
    guard await fleet.pause(victim) else { return nil }
    await rest(50...4000)
    await fleet.resume(victim)
    return "pause \(role)"
  }

  private mutating func takeDice() -> Int {
    if deck.isEmpty { deck = stride(from: 5, to: 100, by: 10).shuffled(using: &random) }
    return deck.removeLast()
  }

  private mutating func takeNumber() -> Int {
    defer { nextWorker += 1 }
    return nextWorker
  }

  private mutating func rest(_ milliseconds: ClosedRange<Int>) async {
    // Dropped because a cancelled sleep ends the plan.
    try? await Task.sleep(for: .milliseconds(Int.random(in: milliseconds, using: &random)))
  }

  private mutating func note(_ kind: String, _ start: UInt64) {
    happenings.append(Happening(kind: kind, started: start, ended: monotonicNanoseconds()))
  }
}
