// The processes of a run: keeps those running that should, and does to them what the run wants done.

package import Glibc
import HTTPClient

/// Starts again what ends, unless it was asked to leave.
package actor Fleet {
  private struct Member {
    var specification: Specification
    var pid: pid_t?
    var isStopped = false
    /// What its end is allowed to be, as `ServerProcess.reap` says it; nil: it has no reason to end.
    var expectedEnd: Int32?
    var isLeaving = false
    var isReady = false
  }

  private let installation: Installation
  /// Where executables of the processes to start are.
  private let binaries: String
  private let http = HTTPClient()
  private var members: [String: Member] = [:]
  /// What processes did that nobody asked for.
  package private(set) var faults: [String] = []
  /// While the plug is out nothing is started.
  private var isHeld = false

  package static let readyLimit: Duration = .seconds(30)
  package static let stopLimit: Duration = .seconds(15)
  private static let look: Duration = .milliseconds(5)

  /// - Parameter binaries: nil: the installation's.
  package init(_ installation: Installation, binaries: String? = nil) {
    self.installation = installation
    self.binaries = binaries ?? installation.binaries
  }

  // MARK: Who is there

  package func start(_ role: Role, _ number: Int) throws {
    let specification = installation.specification(role, number, binaries: binaries)
    members[specification.name] = Member(specification: specification, pid: try ServerProcess.spawn(specification))
  }

  /// Names of a role's members that stay, in order.
  package func names(_ role: Role) -> [String] { members.values.filter { $0.specification.role == role && !$0.isLeaving }.map(\.specification.name).sorted() }

  package func allNames() -> [String] { members.keys.sorted() }

  /// Those that run.
  package func processes() -> [(name: String, role: Role, pid: pid_t)] {
    members.values.compactMap { member in member.pid.map { (member.specification.name, member.specification.role, $0) } }.sorted { $0.name < $1.name }
  }

  /// Looks after the members until its task is cancelled.
  package func watch() async {
    while !Task.isCancelled {
      for name in members.keys.sorted() { noteEnd(of: name) }
      // Dropped because a cancelled sleep ends the loop.
      try? await Task.sleep(for: Self.look)
    }
  }

  private func noteEnd(of name: String) {
    guard let member = members[name], let pid = member.pid, let end = ServerProcess.reap(pid) else { return }
    if end != member.expectedEnd { faults.append("\(name) (pid \(pid)) ended with \(end) by itself, see \(member.specification.log)") }
    members[name]?.pid = nil
    members[name]?.isReady = false
    members[name]?.expectedEnd = nil
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

  /// Whether everything that should be there answers.
  package func isWhole() async -> Bool {
    for (name, member) in members.sorted(by: { $0.key < $1.key }) where !member.isReady {
      guard !member.isLeaving, let pid = member.pid, !member.isStopped, await Installation.answers(member.specification.readyFile, pid: pid, http) else { return false }
      if members[name]?.pid == pid { members[name]?.isReady = true }
    }
    return true
  }

  /// - Returns: whether everything answers in time; if not, that is noted.
  @discardableResult
  package func waitUntilWhole(within limit: Duration = readyLimit) async -> Bool {
    let end = ContinuousClock.now + limit
    while await !isWhole() {
      guard ContinuousClock.now < end else {
        faults.append("not ready after \(limit): " + members.filter { !$0.value.isReady }.keys.sorted().joined(separator: ", "))
        return false
      }
      // Dropped because who cancels does not wait for the answer.
      try? await Task.sleep(for: Self.look)
    }
    return true
  }

  package func note(_ fault: String) { faults.append(fault) }

  // MARK: What happens to them

  /// - Returns: false when it is not there, or on its way out already.
  @discardableResult
  package func kill(_ name: String) -> Bool {
    guard let member = members[name], let pid = member.pid, member.expectedEnd == nil else { return false }
    members[name]?.expectedEnd = -SIGKILL
    members[name]?.isReady = false
    return Glibc.kill(pid, SIGKILL) == 0
  }

  @discardableResult
  package func pause(_ name: String) -> Bool {
    guard let member = members[name], let pid = member.pid, member.expectedEnd == nil, !member.isStopped else { return false }
    members[name]?.isStopped = true
    members[name]?.isReady = false
    return Glibc.kill(pid, SIGSTOP) == 0
  }

  package func resume(_ name: String) {
    guard let member = members[name], member.isStopped, let pid = member.pid else { return }
    members[name]?.isStopped = false
    _ = Glibc.kill(pid, SIGCONT)
  }

  /// SIGTERM; it is started again, or leaves for good, when it has ended with 0.
  @discardableResult
  package func stop(_ name: String, forGood: Bool) -> Bool {
    guard let member = members[name], let pid = member.pid, member.expectedEnd == nil, !member.isStopped else { return false }
    members[name]?.expectedEnd = 0
    members[name]?.isLeaving = forGood
    members[name]?.isReady = false
    return Glibc.kill(pid, SIGTERM) == 0
  }

  /// The same; it is started again as an executable of another folder.
  @discardableResult
  package func replace(_ name: String, from binaries: String) -> Bool {
    guard let role = members[name]?.specification.role else { return false }
    members[name]?.specification.executable = "\(binaries)/aquifer-\(role.rawValue)"
    return stop(name, forGood: false)
  }

  /// Kills everything at once, as a power cut does, and starts nothing until `plugIn`.
  package func pullPlug() async {
    isHeld = true
    for name in members.keys { kill(name) }
    while members.values.contains(where: { $0.pid != nil }) {
      for name in members.keys.sorted() { noteEnd(of: name) }
      // Dropped because processes that were killed end.
      try? await Task.sleep(for: .milliseconds(1))
    }
  }

  package func plugIn() {
    isHeld = false
    for role in Role.allCases { for name in names(role) { startAgain(name) } }
  }

  /// The end of the run: everything is asked to stop, and made to if it does not.
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
      // Dropped because what was told to end is waited for in any case.
      try? await Task.sleep(for: Self.look)
    }
  }
}
