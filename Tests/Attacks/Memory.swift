// The memory of processes, and its limit for each role.

import Glibc
import Installations

/// Watches processes during an attack, and kills one that exceeds its limit, as a container engine would.
struct Memory: Sendable {
  let fleet: Fleet

  /// The default limit in MB, the same as in compose.yaml.
  static func limit(_ role: Role) -> Int {
    switch role {
    case .gateway: 512
    case .worker: 1024
    case .notifier, .share: 256
    }
  }

  /// Resets the peaks.
  func reset() async {
    for process in await fleet.processes() {
      guard let file = fopen("/proc/\(process.pid)/clear_refs", "w") else { continue }
      // Resets VmHWM (proc(5)).
      fputs("5", file)
      fclose(file)
    }
  }

  /// The peak of each process since the last reset, in MB.
  func peaks() async -> [(name: String, role: Role, peak: Int)] {
    await fleet.processes().map { ($0.name, $0.role, Self.megabytes("VmHWM", of: $0.pid)) }
  }

  /// Runs until its task is cancelled.
  func enforce() async {
    while !Task.isCancelled {
      for process in await fleet.processes() where Self.megabytes("VmRSS", of: process.pid) > Self.limit(process.role) {
        kill(process.pid, SIGKILL)
      }
      // Dropped because a cancelled sleep ends the loop.
      try? await Task.sleep(for: .milliseconds(20))
    }
  }

  private static func megabytes(_ name: String, of pid: pid_t) -> Int {
    let text = String(decoding: ServerProcess.contents("/proc/\(pid)/status") ?? [], as: UTF8.self)
    guard let line = text.split(separator: "\n").first(where: { $0.hasPrefix(name + ":") }) else { return 0 }
    return (Int(line.filter(\.isNumber)) ?? 0) / 1024
  }
}
