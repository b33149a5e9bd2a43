// What processes hold in memory, and the limit of each.

import Glibc
import Installations

/// Watches processes while they are attacked, and ends one that exceeds its limit, as a container's engine would.
struct Memory: Sendable {
  let fleet: Fleet

  /// By default, MB: compose.yaml has the same.
  static func limit(_ role: Role) -> Int {
    switch role {
    case .gateway: 512
    case .worker: 1024
    case .notifier, .share: 256
    }
  }

  /// Peaks begin anew.
  func reset() async {
    for process in await fleet.processes() {
      guard let file = fopen("/proc/\(process.pid)/clear_refs", "w") else { continue }
      // Resets VmHWM (proc(5)).
      fputs("5", file)
      fclose(file)
    }
  }

  /// MB by process since the last reset.
  func peaks() async -> [(name: String, role: Role, peak: Int)] {
    await fleet.processes().map { ($0.name, $0.role, Self.megabytes("VmHWM", of: $0.pid)) }
  }

  /// Until its task is cancelled.
  func enforce() async {
    while !Task.isCancelled {
      for process in await fleet.processes() where Self.megabytes("VmRSS", of: process.pid) > Self.limit(process.role) { kill(process.pid, SIGKILL) }
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
