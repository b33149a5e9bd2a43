// A run: an installation, its bystanders, and one attack after the other.

import Installations

struct Run {
  let options: Options
  private let folder: String
  private let installation: Installation
  private let fleet: Fleet

  /// An attack that slowed others is repeated for this many times its duration.
  private static let patience = 4.0
  /// Time in which the installation must recover from an attack.
  private static let aftermath: Duration = .seconds(30)

  init(_ options: Options, binaries: String) throws {
    self.options = options
    folder = try temporaryFolder(named: "attacks")
    installation = try Installation(binaries: binaries, folder: folder, gatewayCount: 1, shardCount: Stage.shardCount)
    fleet = Fleet(installation)
  }

  /// Runs all attacks. Removes the installation unless a fault was found.
  func report() async throws -> Report {
    let watch = Task { await fleet.watch() }
    let memory = Memory(fleet: fleet)
    let enforcement = Task { await memory.enforce() }
    var report = Report()
    var failure: (any Error)?
    do {
      try await startAll()
      let stage = try await Stage(installation)
      let near = Bystander(user: try await stage.user("near", from: nil))
      let far = Bystander(user: try await stage.user("far", from: nil) { $0 != near.user.shard })
      Report.printHeading()
      for attack in Attack.all where options.names.isEmpty || options.names.contains(attack.name) {
        var row = try await row(of: attack, stage, near, far, memory, for: options.seconds)
        // A longer run decides: p99 of a few seconds is a single call, and other programs use this machine, too.
        if row.isOnlySlow {
          row.print()
          row = try await self.row(of: attack, stage, near, far, memory, for: Self.patience * options.seconds)
        }
        row.print()
        report.rows.append(row)
      }
    } catch {
      failure = error
    }
    enforcement.cancel()
    await fleet.stopAll()
    watch.cancel()
    await watch.value
    if report.isGood, failure == nil, !options.keepsFolder {
      removeFolder(folder)
    } else {
      say("data and logs are in \(folder)")
    }
    if let failure { throw failure }
    return report
  }

  private func startAll() async throws {
    for role in Role.allCases {
      for number in 1...(role == .worker ? Stage.workerCount : 1) { try await fleet.start(role, number) }
    }
    guard await fleet.waitUntilWhole() else { throw RunError("the installation does not start") }
  }

  private func row(
    of attack: Attack, _ stage: Stage, _ near: Bystander, _ far: Bystander, _ memory: Memory, for seconds: Double
  ) async throws -> Report.Row {
    let attacker = try await stage.user(attack.name) { $0 == near.user.shard }
    let scene = Scene(stage, attacker: attacker, isLong: options.isLong)
    let work: Attack.Work
    do {
      work = try await attack.prepare(scene)
    } catch {
      scene.complain("the attack can't be prepared: \(error)")
      work = {}
    }
    // No longer than a moment: with more calls the slowest is slower, and an attack may slow others more.
    let quiet = await quiet(near, far) { scene.complain("others wait before the attack begins") }
    await memory.reset()
    let faultCount = await fleet.faults.count
    async let under = calm(near, far, for: .seconds(seconds))
    async let attacked: Void = carryOut(work, in: scene)
    let attackedCalm = await under
    scene.end()
    await attacked
    let peaks = await memory.peaks()
    let faults = await Array(fleet.faults.dropFirst(faultCount))
    if !faults.isEmpty { await fleet.waitUntilWhole() }
    _ = await self.quiet(near, far) { scene.complain("others still wait \(Self.aftermath) later") }
    return Report.Row(
      name: attack.name, quiet: quiet, attacked: attackedCalm, peaks: peaks, answers: scene.answers,
      complaints: scene.complaints + faults)
  }

  private func carryOut(_ work: @escaping Attack.Work, in scene: Scene) async {
    do {
      try await work()
    } catch {
      scene.complain("\(error)")
    }
  }

  /// - Parameter complain: called when others still wait after all that time.
  private func quiet(_ near: Bystander, _ far: Bystander, orElse complain: () -> Void) async -> Report.Calms {
    async let first = near.quiet(within: Self.aftermath)
    async let second = far.quiet(within: Self.aftermath)
    let (near, far) = (await first, await second)
    if !near.isQuiet || !far.isQuiet { complain() }
    return Report.Calms(near: near.calm, far: far.calm)
  }

  private func calm(_ near: Bystander, _ far: Bystander, for duration: Duration) async -> Report.Calms {
    async let first = near.calm(for: duration)
    async let second = far.calm(for: duration)
    return Report.Calms(near: await first, far: await second)
  }
}
