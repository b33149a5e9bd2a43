// Keeps the processes of one installation running: one loop that waits for signals, ends and due times.

import Glibc

/// A process of the installation.
struct FleetMember: Hashable, Sendable {
  /// In the order in which they stop: whoever asks stops before whoever answers.
  enum Role: String, Hashable, Sendable, CaseIterable {
    case gateway, notifier, worker, share
  }

  /// Stable over restarts: `worker-1`.
  let name: String
  let role: Role
}

/// The addresses a process wrote into its ready file.
struct MemberAddresses: Hashable, Sendable {
  /// `http://host:port`; nil for processes that serve no clients.
  var client: String?
  var admin: String?
}

/// Runs a fleet until it is told to stop.
final class Supervisor {
  enum Event {
    /// Everything answers, for the first time.
    case ready
    /// A process has a new pid, or other addresses, after the first time.
    case changed
    case ended(FleetMember, pid_t, ExitStatus, restartIn: Duration)
    /// It runs and does not answer: it is killed, so that others can have what it holds.
    case silent(FleetMember, pid_t)
    /// It can't run; everything is stopped.
    case gaveUp(FleetMember, ExitStatus)
  }

  struct Running {
    let pid: pid_t
    let addresses: MemberAddresses
  }

  private struct Child {
    let member: FleetMember
    var pid: pid_t?
    var startedAt: ContinuousClock.Instant?
    var dueAt: ContinuousClock.Instant?
    var policy: RestartPolicy
    /// Kept over restarts, so that ports stay.
    var addresses: MemberAddresses?
    var isReady = false
    var silence = Silence()
  }

  /// Ctrl-C, an operator's or an init system's stop, and the end of the terminal.
  static let stopSignals: Set<Int32> = [SIGTERM, SIGINT, SIGHUP]
  static let stopLimit: Duration = .seconds(10)
  private static let startingPause: Duration = .milliseconds(5)
  private static let steadyPause: Duration = .seconds(1)
  /// How often it is looked who lives.
  private static let lookPause: Duration = .seconds(2)

  private var children: [Child]
  private let group: pid_t
  private let signals: SignalPipe
  private let clock = ContinuousClock()
  /// The command line of a member, given the addresses known so far; nil: it must wait for another's.
  private let specification: (FleetMember, [FleetMember: MemberAddresses]) -> ChildSpecification?
  /// Where a member of that pid answers; nil until it is ready.
  private let readiness: (FleetMember, pid_t) async -> MemberAddresses?
  /// Which of these admin addresses answer that their processes live.
  private let living: (Set<String>) async -> Set<String>
  private var wasReady = false
  private var lookedAt: ContinuousClock.Instant

  init(
    _ members: [FleetMember], group: pid_t, signals: SignalPipe, policy: RestartPolicy,
    specification: @escaping (FleetMember, [FleetMember: MemberAddresses]) -> ChildSpecification?,
    readiness: @escaping (FleetMember, pid_t) async -> MemberAddresses?, living: @escaping (Set<String>) async -> Set<String>
  ) {
    children = members.map { Child(member: $0, policy: policy) }
    self.group = group
    self.signals = signals
    self.specification = specification
    self.readiness = readiness
    self.living = living
    lookedAt = clock.now
  }

  /// The processes that run, in the fleet's order.
  var running: [(member: FleetMember, process: Running)] {
    children.compactMap { child in child.pid.map { (child.member, Running(pid: $0, addresses: child.addresses ?? MemberAddresses())) } }
  }

  /// Starts everything, replaces what ends, and returns after a signal to stop, when all is stopped.
  /// - Returns: whether everything stopped by itself.
  /// - Throws: when a process can't be started, or ends again and again before the installation was ever ready; all are stopped then.
  func run(_ note: (Event) -> Void) async throws(SystemProblem) -> Bool {
    do throws(SystemProblem) {
      for index in children.indices { try start(index) }
      while true {
        let caught = signals.wait(atMost: pause)
        if caught.contains(where: Self.stopSignals.contains) { break }
        try replaceEnded(note)
        await noteReadiness(note)
        await killSilent(note)
      }
    } catch {
      _ = stop()
      throw error
    }
    return stop()
  }

  private var pause: Duration {
    if !children.allSatisfy(\.isReady) { return Self.startingPause }
    return Self.steadyPause
  }

  private func start(_ index: Int) throws(SystemProblem) {
    var addresses: [FleetMember: MemberAddresses] = [:]
    for child in children { addresses[child.member] = child.addresses }
    guard let specification = specification(children[index].member, addresses) else {
      children[index].dueAt = clock.now
      return
    }
    children[index].pid = try ChildProcess.spawn(specification, group: group)
    children[index].startedAt = clock.now
    children[index].dueAt = nil
    children[index].isReady = false
    children[index].silence = Silence()
  }

  private func replaceEnded(_ note: (Event) -> Void) throws(SystemProblem) {
    for index in children.indices {
      let child = children[index]
      if let pid = child.pid, let startedAt = child.startedAt, let status = ChildProcess.reap(pid) {
        let pause = children[index].policy.pause(afterLifetime: clock.now - startedAt)
        children[index].pid = nil
        children[index].isReady = false
        if !wasReady, status.isFinal || children[index].policy.failureCount >= RestartPolicy.startFailureLimit {
          note(.gaveUp(child.member, status))
          throw SystemProblem(giving: "\(child.member.name) can't be started: it \(status.text)")
        }
        children[index].dueAt = clock.now + pause
        note(.ended(child.member, pid, status, restartIn: pause))
      } else if let dueAt = child.dueAt, clock.now >= dueAt {
        try start(index)
        if wasReady { note(.changed) }
      }
    }
  }

  private func noteReadiness(_ note: (Event) -> Void) async {
    var hasChanged = false
    for index in children.indices where !children[index].isReady {
      guard let pid = children[index].pid, let addresses = await readiness(children[index].member, pid) else { continue }
      children[index].isReady = true
      if children[index].addresses != addresses {
        children[index].addresses = addresses
        hasChanged = true
      }
    }
    if !wasReady, children.allSatisfy(\.isReady) {
      wasReady = true
      note(.ready)
    } else if wasReady, hasChanged {
      note(.changed)
    }
  }

  /// A process that was stopped, or hangs, keeps its shards from everybody: it can't be asked to leave.
  private func killSilent(_ note: (Event) -> Void) async {
    guard clock.now - lookedAt >= Self.lookPause else { return }
    lookedAt = clock.now
    let asked = Set(children.filter(\.isReady).compactMap { $0.addresses?.admin })
    let answers = await living(asked)
    for index in children.indices where children[index].isReady {
      guard let pid = children[index].pid, let admin = children[index].addresses?.admin, asked.contains(admin) else { continue }
      guard children[index].silence.isOver(afterAnswer: answers.contains(admin)) else { continue }
      note(.silent(children[index].member, pid))
      kill(pid, SIGKILL)
    }
  }

  /// Role by role SIGTERM and time to finish; SIGKILL for what is left when the time is over, or at a second signal.
  private func stop() -> Bool {
    let end = clock.now + Self.stopLimit
    var isImpatient = false
    for role in FleetMember.Role.allCases where !isImpatient {
      let indices = children.indices.filter { children[$0].member.role == role }
      for index in indices { if let pid = children[index].pid { kill(pid, SIGTERM) } }
      while clock.now < end, !isImpatient, indices.contains(where: { children[$0].pid != nil }) {
        isImpatient = signals.wait(atMost: .milliseconds(20)).contains(where: Self.stopSignals.contains)
        reapAll()
      }
    }
    let left = children.compactMap(\.pid)
    for pid in left { kill(pid, SIGKILL) }
    for pid in left { waitpid(pid, nil, 0) }
    return left.isEmpty
  }

  private func reapAll() {
    for index in children.indices {
      if let pid = children[index].pid, ChildProcess.reap(pid) != nil { children[index].pid = nil }
    }
  }
}
