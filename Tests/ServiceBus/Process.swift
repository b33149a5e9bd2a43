// Peers that can be killed and suspended: real processes over ZeroMQ, or a node of the in-memory network.

import Foundation
import InMemoryServiceBus
import ServiceBus

/// Another process of the installation.
protocol Neighbour: Sendable {
  var endpoint: String { get }
  /// Sends SIGKILL.
  func kill()
  /// Send SIGSTOP and SIGCONT.
  func stop()
  func goOn()
  /// Whether the process still runs.
  var isRunning: Bool { get }
  /// Gives the process a line of standard input.
  func tell(_ line: String)
  /// Ends the process if it still runs.
  func end()
}

extension Fabric {
  /// Starts a process that serves the test messages and connects to `endpoints`.
  /// - Parameter livenessSeconds: a long time for a neighbour that is suspended and must not count as lost.
  func neighbour(_ name: String, _ role: Role = .worker, livenessSeconds: Int = 2, connectedTo endpoints: String...)
    throws -> any Neighbour
  {
    switch transport {
    case .memory:
      var configuration = BusConfiguration()
      configuration.liveness = .seconds(livenessSeconds)
      let station = try station(name, role, configuration: configuration)
      for endpoint in endpoints { station.bus.connect(to: endpoint) }
      return MemoryNeighbour(station: station, name: name)
    case .ipc, .tcp, .brief:
      return try ChildNeighbour([name, role.rawValue, freshEndpoint(), "\(livenessSeconds)"] + endpoints, fabric: self)
    }
  }
}

private struct MemoryNeighbour: Neighbour {
  let station: Station
  let name: String
  var endpoint: String { station.endpoint }
  func kill() { station.fabric.network.kill(name) }
  func stop() { station.fabric.network.pause(name) }
  func goOn() { station.fabric.network.resume(name) }
  var isRunning: Bool { true }
  func tell(_ line: String) {}
  func end() { station.bus.close() }
}

/// A child process of the test.
private struct ChildNeighbour: Neighbour {
  let endpoint: String
  private let identifier: pid_t
  private let input: Int32
  private let fabric: Fabric

  struct NotStarted: Error {}

  init(_ arguments: [String], fabric: Fabric) throws {
    self.fabric = fabric
    let program = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath().deletingLastPathComponent().appending(
      path: "ServiceBusPeer"
    ).path
    var toChild: [Int32] = [0, 0]
    var fromChild: [Int32] = [0, 0]
    guard pipe(&toChild) == 0, pipe(&fromChild) == 0 else { throw NotStarted() }
    for descriptor in toChild + fromChild { _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC) }
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    posix_spawn_file_actions_adddup2(&actions, toChild[0], 0)
    posix_spawn_file_actions_adddup2(&actions, fromChild[1], 1)
    var child = pid_t()
    var words = ([program] + arguments).map { strdup($0) }
    words.append(nil)
    // A process that crashes ends at once, and its threads are not written down first.
    let environment = ProcessInfo.processInfo.environment.merging(["SWIFT_BACKTRACE": "enable=no"]) { $1 }
    var variables = environment.map { strdup("\($0)=\($1)") }
    variables.append(nil)
    let result = posix_spawn(&child, program, &actions, nil, words, variables)
    for text in words + variables { free(text) }
    posix_spawn_file_actions_destroy(&actions)
    close(toChild[0])
    close(fromChild[1])
    guard result == 0 else { throw NotStarted() }
    identifier = child
    input = toChild[1]
    endpoint = Self.line(from: fromChild[0])
    close(fromChild[0])
    if endpoint.isEmpty { throw NotStarted() }
  }

  private static func line(from descriptor: Int32) -> String {
    var text: [UInt8] = []
    var byte: UInt8 = 0
    while read(descriptor, &byte, 1) == 1, byte != UInt8(ascii: "\n") { text.append(byte) }
    return String(decoding: text, as: UTF8.self)
  }

  func kill() { _ = Glibc.kill(identifier, SIGKILL) }
  func stop() { _ = Glibc.kill(identifier, SIGSTOP) }
  func goOn() { _ = Glibc.kill(identifier, SIGCONT) }

  var isRunning: Bool {
    var status = siginfo_t()
    return waitid(P_PID, id_t(identifier), &status, WEXITED | WNOHANG | WNOWAIT) == 0 && status.si_signo == 0
  }

  func tell(_ line: String) {
    // The process may be dead.
    signal(SIGPIPE, SIG_IGN)
    let bytes = Array((line + "\n").utf8)
    _ = write(input, bytes, bytes.count)
  }

  func end() {
    kill()
    close(input)
    var status: Int32 = 0
    waitpid(identifier, &status, 0)
  }
}
