// Processor time and memory of the server's processes, read from their admin addresses.

import CLinux
import Glibc
import HTTPClient
import JSON

/// The state of one process at one moment.
struct ProcessState: Equatable {
  let name: String
  /// Since the process started.
  let processorSeconds: Double
  /// Resident memory in bytes.
  let memory: Double

  /// - Parameter metrics: in Prometheus's text format.
  init?(name: String, metrics: String) {
    var values: [Substring: Double] = [:]
    for line in metrics.split(separator: "\n") where line.hasPrefix("process_") {
      let parts = line.split(separator: " ")
      if parts.count == 2, let value = Double(parts[1]) { values[parts[0]] = value }
    }
    guard let seconds = values["process_cpu_seconds_total"], let memory = values["process_resident_memory_bytes"] else {
      return nil
    }
    self.init(name: name, processorSeconds: seconds, memory: memory)
  }

  init(name: String, processorSeconds: Double, memory: Double) {
    self.name = name
    self.processorSeconds = processorSeconds
    self.memory = memory
  }
}

/// The costs of a process in a run.
struct ProcessUse: Equatable {
  let name: String
  let processorSeconds: Double
  /// Megabytes of 2^20 bytes, at the end of the run.
  let memory: Double

  /// Only processes that existed before and after the run.
  static func between(_ before: [ProcessState], _ after: [ProcessState]) -> [ProcessUse] {
    after.compactMap { state in
      guard let earlier = before.first(where: { $0.name == state.name }),
        state.processorSeconds >= earlier.processorSeconds
      else { return nil }
      return ProcessUse(
        name: state.name, processorSeconds: state.processorSeconds - earlier.processorSeconds,
        memory: state.memory / 1_048_576)
    }
  }
}

/// The server's processes with reachable admin addresses, and this process.
struct ProcessWatch {
  private let addresses: [(name: String, url: String)]
  private let client = HTTPClient()

  /// Empty without an operator token, or away from the server's machine.
  init(_ admin: Admin) async {
    guard admin.operatorToken != nil, let status = try? await admin.call("GET", "/admin/1/status", body: []) else {
      addresses = []
      return
    }
    addresses = (status["members"]?.elements ?? []).compactMap { member in
      guard let name = member["name"]?.string, let url = member["adminURL"]?.string else { return nil }
      return (name, url)
    }.sorted { $0.name < $1.name }
  }

  /// The states of the processes that answer.
  func look() async -> [ProcessState] {
    var states: [ProcessState] = []
    for (name, url) in addresses {
      // Dropped because a process that does not answer has no figures.
      guard let answer = try? await client.send("GET", url + "/metrics", headers: [], body: nil, timeout: .seconds(2)),
        answer.status == 200
      else { continue }
      if let state = ProcessState(name: name, metrics: String(decoding: answer.body, as: UTF8.self)) {
        states.append(state)
      }
    }
    if !states.isEmpty { states.append(Self.generator) }
    return states
  }

  private static var generator: ProcessState {
    var time = timespec()
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
    let pages = ProcFile.text("/proc/self/statm").split(separator: " ").dropFirst().first.flatMap { Double($0) } ?? 0
    return ProcessState(
      name: "generator", processorSeconds: Double(time.tv_sec) + Double(time.tv_nsec) * 1e-9,
      memory: pages * Double(sysconf(Int32(_SC_PAGESIZE))))
  }
}
