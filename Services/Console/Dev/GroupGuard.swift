// Ends the processes of `aquifer dev` after `aquifer dev` itself was killed.

import Glibc

/// A process of its own whose standard input is a pipe from `dev`. When the pipe closes, it ends the group.
enum GroupGuard {
  static let grace: Duration = .seconds(2)

  /// Blocks until standard input ends, then stops every process of the group that it leads.
  static func run() {
    let group = getpgrp()
    // Run by hand it leads no group, and must not end the shell's.
    guard group == getpid() else { return }
    // The signal goes to the whole group, and this process must survive it.
    signal(SIGTERM, SIG_IGN)
    signal(SIGINT, SIG_IGN)
    var byte: UInt8 = 0
    while true {
      let count = read(0, &byte, 1)
      if count == 0 || (count < 0 && errno != EINTR) { break }
    }
    guard others(in: group) else { return }
    kill(-group, SIGTERM)
    let clock = ContinuousClock()
    let end = clock.now + grace
    // The parent is gone, so nobody reports the ends of the others: poll for them, then kill the rest.
    while clock.now < end, others(in: group) { usleep(20_000) }
    if others(in: group) { kill(-group, SIGKILL) }
  }

  /// True when the group has a member besides this process, or when that can't be found out.
  private static func others(in group: pid_t) -> Bool {
    guard let directory = opendir("/proc") else { return true }
    defer { closedir(directory) }
    while let entry = readdir(directory) {
      let name = withUnsafeBytes(of: entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
      guard let pid = pid_t(name), pid != getpid() else { continue }
      if getpgid(pid) == group { return true }
    }
    return false
  }
}
