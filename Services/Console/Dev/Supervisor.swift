// Keeps the processes of one installation running: one loop that waits for signals, exits and due restarts.

import Glibc

/// A process of the installation.
struct FleetMember: Hashable, Sendable {
  /// In the order of stopping: clients before their servers.
  enum Role: String, Hashable, Sendable, CaseIterable {
    case gateway, notifier, worker, share
  }

  /// Stays the same across restarts: `worker-1`.
  let name: String
  let role: Role
}

/// The addresses that a process wrote into its ready file.
struct MemberAddresses: Hashable, Sendable {
  /// `http://host:port`; nil for processes without clients.
  var client: String?
  var admin: String?
  /// The console's pages; nil for processes without them.
  var console: String?
}

/// Runs a fleet until it is told to stop.
final class Supervisor {
  enum Event {
    /// All processes answer for the first time.
    case ready
    /// After that, a process has a new pid or other addresses.
    case changed
    case ended(FleetMember, pid_t, ExitStatus, restartIn: Duration)
    /// A process could not be started again: no executable, or no memory for a process.
    case notStarted(FleetMember, SystemProblem, restartIn: Duration)
    /// A process runs but does not answer. It is killed, so that others can take over its shards.
    case silent(FleetMember, pid_t)
    /// A process can't run; all processes are stopped.
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
    /// Kept across restarts, so that ports stay the same.
    var addresses: MemberAddresses?
    var isReady = false
    var silence = Silence()
  }

  /// Ctrl-C, a stop by an operator or an init system, and the end of the terminal.
  static let stopSignals: Set<Int32> = [SIGTERM, SIGINT, SIGHUP]
  static let stopLimit: Duration = .seconds(10)
  /// A signal so soon after the first one is of the same stop: a terminal and an init system tell this process and its
  /// parent, which passes it on.
  private static let repetitionLimit: Duration = .seconds(1)
  private static let startingPause: Duration = .milliseconds(5)
  private static let steadyPause: Duration = .seconds(1)
  /// Time between two checks that the processes are alive.
  private static let lookPause: Duration = .seconds(2)

  private var children: [Child]
  private let group: pid_t
  private let signals: SignalPipe
  private let clock = ContinuousClock()
  /// The command line of a member, given the addresses known so far; nil: it must wait for another member's address.
  private let specification: (FleetMember, [FleetMember: MemberAddresses]) -> ChildSpecification?
  /// The addresses of a member with that pid; nil until it is ready.
  private let readiness: (FleetMember, pid_t) async -> MemberAddresses?
  /// The admin addresses among these whose processes answer that they are alive.
  private let living: (Set<String>) async -> Set<String>
  private var wasReady = false
  private var lookedAt: ContinuousClock.Instant

  init(
    _ members: [FleetMember], group: pid_t, signals: SignalPipe, policy: RestartPolicy,
    specification: @escaping (FleetMember, [FleetMember: MemberAddresses]) -> ChildSpecification?,
    readiness: @escaping (FleetMember, pid_t) async -> MemberAddresses?,
    living: @escaping (Set<String>) async -> Set<String>
  ) {
    children = members.map { Child(member: $0, policy: policy) }
    self.group = group
    self.signals = signals
    self.specification = specification
    self.readiness = readiness
    self.living = living
    lookedAt = clock.now
  }

  /// The running processes in the fleet's order.
  var running: [(member: FleetMember, process: Running)] {
    children.compactMap { child in
      child.pid.map { (child.member, Running(pid: $0, addresses: child.addresses ?? MemberAddresses())) }
    }
  }

  /// Starts all processes, restarts those that end, and returns after a stop signal, when all have ended.
  /// - Returns: true when all processes ended without being killed.
  /// - Throws: when a process can't be started, or keeps ending, before the installation was ready once; all are
  ///   stopped then. Later it is tried again, because the others serve.
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
        try startAgain(index, note)
      }
    }
  }

  private func startAgain(_ index: Int, _ note: (Event) -> Void) throws(SystemProblem) {
    do throws(SystemProblem) {
      try start(index)
      if wasReady { note(.changed) }
    } catch {
      guard wasReady else { throw error }
      let pause = children[index].policy.pause(afterLifetime: .zero)
      children[index].dueAt = clock.now + pause
      note(.notStarted(children[index].member, error, restartIn: pause))
    }
  }

  private func noteReadiness(_ note: (Event) -> Void) async {
    var hasChanged = false
    for index in children.indices where !children[index].isReady {
      guard let pid = children[index].pid, let addresses = await readiness(children[index].member, pid) else {
        continue
      }
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

  /// Kills processes that hang or were suspended: they would keep their shards, and can't be asked to give them up.
  private func killSilent(_ note: (Event) -> Void) async {
    guard clock.now - lookedAt >= Self.lookPause else { return }
    lookedAt = clock.now
    let asked = Set(children.filter(\.isReady).compactMap { $0.addresses?.admin })
    let answers = await living(asked)
    for index in children.indices where children[index].isReady {
      guard let pid = children[index].pid, let admin = children[index].addresses?.admin, asked.contains(admin) else {
        continue
      }
      guard children[index].silence.isOver(afterAnswer: answers.contains(admin)) else { continue }
      note(.silent(children[index].member, pid))
      kill(pid, SIGKILL)
    }
  }

  /// Sends SIGTERM role by role and waits. Sends SIGKILL to the rest when the time is over or a second signal comes, a
  /// second or more after the first.
  private func stop() -> Bool {
    let began = clock.now
    let end = began + Self.stopLimit
    var isImpatient = false
    for role in FleetMember.Role.allCases where !isImpatient {
      let indices = children.indices.filter { children[$0].member.role == role }
      for index in indices { if let pid = children[index].pid { kill(pid, SIGTERM) } }
      while clock.now < end, !isImpatient, indices.contains(where: { children[$0].pid != nil }) {
        let isTold = signals.wait(atMost: .milliseconds(20)).contains(where: Self.stopSignals.contains)
        isImpatient = isTold && clock.now - began >= Self.repetitionLimit
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
