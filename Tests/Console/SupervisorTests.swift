import Glibc
import Synchronization
import Testing

@testable import Console

/// A supervisor of processes that only sleep.
struct SupervisorTests {
  @Test(.timeLimit(.minutes(1)))
  func `a process that can't be started again is tried until it can, and the others live on`() async throws {
    let members = [FleetMember(name: "gateway-1", role: .gateway), FleetMember(name: "worker-1", role: .worker)]
    let signals = try SignalPipe(catching: [SIGHUP])
    var (starts, failures, others) = (0, 0, Set<pid_t>())
    var supervisor: Supervisor?
    let made = Supervisor(members, group: 0, signals: signals, policy: RestartPolicy(longestPause: .milliseconds(50))) {
      member, _ in
      if member.role == .worker { starts += 1 }
      // The executables are just being replaced.
      let isMissing = member.role == .worker && (2...3).contains(starts)
      return ChildSpecification(executable: isMissing ? "/nowhere/sleep" : "/bin/sleep", arguments: ["60"])
    } readiness: { _, _ in
      MemberAddresses()
    } living: {
      $0
    }
    supervisor = made
    let isClean = try await made.run { event in
      let running = supervisor?.running ?? []
      others.formUnion(running.filter { $0.member.role == .gateway }.map(\.process.pid))
      switch event {
      case .ready: for child in running where child.member.role == .worker { kill(child.process.pid, SIGKILL) }
      case .notStarted(let member, let problem, _):
        #expect(member.name == "worker-1" && problem.reason.contains("/nowhere/sleep"))
        failures += 1
      case .changed: kill(getpid(), SIGHUP)
      default: break
      }
    }
    #expect(isClean && starts == 4 && failures == 2 && others.count == 1)
  }
}
