// The processes of a run: restarts those that end, and signals those that the run wants to disturb.

package import Glibc
import HTTPClient

/// Restarts processes that end, except those that were asked to leave.
package actor Fleet {
  private struct Member {
    var specification: Specification
    var pid: pid_t?
    var isStopped = false
    /// The expected end, as `ServerProcess.reap` reports it; nil: the process should not end.
    var expectedEnd: Int32?
    /// It was told to stop before it was known to answer, so SIGTERM may have met it before it listens to signals.
    var mayNotListen = false
    var isLeaving = false
    var isReady = false
  }

  private let installation: Installation
  /// The folder of the executables.
  private let binaries: String
  private let http = HTTPClient()
  private var members: [String: Member] = [:]
  /// Failures of processes that the run did not cause.
  package private(set) var faults: [String] = []
  /// True during a power cut: no process is started.
  private var isHeld = false

  package static let readyLimit: Duration = .seconds(30)
  package static let stopLimit: Duration = .seconds(15)
  private static let look: Duration = .milliseconds(5)
  /// The code with which a share service ends that another one has followed.
  private static let lostLead: Int32 = 75

  /// - Parameter binaries: nil: the installation's.
  package init(_ installation: Installation, binaries: String? = nil) {
    self.installation = installation
    self.binaries = binaries ?? installation.binaries
  }

  // MARK: Members

  package func start(_ role: Role, _ number: Int) throws {
    let specification = installation.specification(role, number, binaries: binaries)
    members[specification.name] = Member(specification: specification, pid: try ServerProcess.spawn(specification))
  }

  /// The names of a role's members that are not leaving, ascending.
  package func names(_ role: Role) -> [String] {
    members.values.filter { $0.specification.role == role && !$0.isLeaving }.map(\.specification.name).sorted()
  }

  package func allNames() -> [String] { members.keys.sorted() }

  /// The running processes, ascending by name.
  package func processes() -> [(name: String, role: Role, pid: pid_t)] {
    members.values.compactMap { member in member.pid.map { (member.specification.name, member.specification.role, $0) }
    }.sorted { $0.name < $1.name }
  }

  /// Watches the members until its task is cancelled.
  package func watch() async {
    while !Task.isCancelled {
      for name in members.keys.sorted() { noteEnd(of: name) }
      // Dropped because a cancelled sleep ends the loop.
      try? await Task.sleep(for: Self.look)
    }
  }

  private func noteEnd(of name: String) {
    guard let member = members[name], let pid = member.pid, let end = ServerProcess.reap(pid) else { return }
    let isExpected = end == member.expectedEnd || member.mayNotListen && end == -SIGTERM
    if !isExpected, !(end == Self.lostLead && member.specification.role == .share && installation.shareCount > 1) {
      faults.append("\(name) (pid \(pid)) ended with \(end) by itself, see \(member.specification.log)")
    }
    members[name]?.pid = nil
    members[name]?.isReady = false
    members[name]?.expectedEnd = nil
    members[name]?.mayNotListen = false
    members[name]?.isStopped = false
    if member.isLeaving {
      members[name] = nil
    } else if !isHeld {
      startAgain(name)
    }
  }

  private func startAgain(_ name: String) {
    guard let member = members[name], member.pid == nil else { return }
    do {
      members[name]?.pid = try ServerProcess.spawn(member.specification)
    } catch {
      faults.append("\(error)")
    }
  }

  /// True when every member that should run answers, except share services that wait while another one answers.
  package func isWhole() async -> Bool {
    for (name, member) in members.sorted(by: { $0.key < $1.key }) where !member.isReady {
      // One that was told to stop still answers while it drains.
      guard !member.isLeaving, member.expectedEnd == nil, let pid = member.pid, !member.isStopped else { return false }
      guard await Installation.answers(member.specification.readyFile, pid: pid, http) else {
        if member.specification.role == .share, installation.shareCount > 1 { continue }
        return false
      }
      if let now = members[name], now.pid == pid, now.expectedEnd == nil { members[name]?.isReady = true }
    }
    return leader != nil || names(.share).isEmpty
  }

  /// The share service that answers: of several, the one that leads.
  package var leader: String? { names(.share).first { members[$0]?.isReady == true } }

  /// - Returns: true when every member answers in time; otherwise a fault is noted.
  @discardableResult
  package func waitUntilWhole(within limit: Duration = readyLimit) async -> Bool {
    let end = ContinuousClock.now + limit
    while await !isWhole() {
      guard ContinuousClock.now < end else {
        faults.append(
          "not ready after \(limit): " + members.filter { !$0.value.isReady }.keys.sorted().joined(separator: ", "))
        return false
      }
      // Dropped because a cancelled caller does not wait for the result.
      try? await Task.sleep(for: Self.look)
    }
    return true
  }

  package func note(_ fault: String) { faults.append(fault) }

  // MARK: Disturbances

  /// - Returns: false when it does not run, or is ending already.
  @discardableResult
  package func kill(_ name: String) -> Bool {
    guard let member = members[name], let pid = member.pid, member.expectedEnd == nil else { return false }
    members[name]?.expectedEnd = -SIGKILL
    members[name]?.isReady = false
    return Glibc.kill(pid, SIGKILL) == 0
  }

  @discardableResult
  package func pause(_ name: String) -> Bool {
    guard let member = members[name], let pid = member.pid, member.expectedEnd == nil, !member.isStopped else {
      return false
    }
    members[name]?.isStopped = true
    members[name]?.isReady = false
    return Glibc.kill(pid, SIGSTOP) == 0
  }

  package func resume(_ name: String) {
    guard let member = members[name], member.isStopped, let pid = member.pid else { return }
    members[name]?.isStopped = false
    _ = Glibc.kill(pid, SIGCONT)
  }

  /// Sends SIGTERM. A process that answers must end with 0; then it is restarted, or leaves for good.
  @discardableResult
  package func stop(_ name: String, forGood: Bool) -> Bool {
    guard let member = members[name], let pid = member.pid, member.expectedEnd == nil, !member.isStopped else {
      return false
    }
    members[name]?.expectedEnd = 0
    members[name]?.mayNotListen = !member.isReady
    members[name]?.isLeaving = forGood
    members[name]?.isReady = false
    return Glibc.kill(pid, SIGTERM) == 0
  }

  /// Does the same, and restarts it from the executable in another folder.
  @discardableResult
  package func replace(_ name: String, from binaries: String) -> Bool {
    guard let role = members[name]?.specification.role else { return false }
    members[name]?.specification.executable = "\(binaries)/aquifer-\(role.rawValue)"
    return stop(name, forGood: false)
  }

  /// Kills all processes at once, as a power cut does, and starts none until `plugIn`.
  package func pullPlug() async {
    isHeld = true
    for name in members.keys { kill(name) }
    while members.values.contains(where: { $0.pid != nil }) {
      for name in members.keys.sorted() { noteEnd(of: name) }
      // Dropped because killed processes end in any case.
      try? await Task.sleep(for: .milliseconds(1))
    }
  }

  package func plugIn() {
    isHeld = false
    for role in Role.allCases { for name in names(role) { startAgain(name) } }
  }

  /// Ends the run: asks all processes to stop, and kills those that don't.
  package func stopAll() async {
    isHeld = true
    let end = ContinuousClock.now + Self.stopLimit
    for (name, member) in members {
      resume(name)
      guard let pid = member.pid, member.expectedEnd == nil else { continue }
      members[name]?.expectedEnd = 0
      _ = Glibc.kill(pid, SIGTERM)
    }
    while members.values.contains(where: { $0.pid != nil }) {
      if ContinuousClock.now > end {
        for (name, member) in members {
          guard let pid = member.pid else { continue }
          faults.append("\(name) did not stop within \(Self.stopLimit)")
          members[name]?.expectedEnd = -SIGKILL
          _ = Glibc.kill(pid, SIGKILL)
        }
      }
      for name in members.keys.sorted() { noteEnd(of: name) }
      // Dropped because the loop waits for the processes in any case.
      try? await Task.sleep(for: Self.look)
    }
  }
}
