// Ends what `aquifer dev` started when `aquifer dev` itself was killed and could not.

import Glibc

/// A process of its own whose standard input is a pipe from `dev`: when it ends, so does the group.
enum GroupGuard {
  static let grace: Duration = .seconds(2)

  /// Blocks until standard input ends, then stops every process of the group it leads, and returns.
  static func run() {
    let group = getpgrp()
    // Run by hand it leads no group of services, and its shell's must not be ended.
    guard group == getpid() else { return }
    // The group is stopped as a whole, this process included: it must outlive the first signal.
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
    // Its parent is gone, so nothing tells when the others are: it looks, and ends the rest by force.
    while clock.now < end, others(in: group) { usleep(20_000) }
    if others(in: group) { kill(-group, SIGKILL) }
  }

  /// Whether the group has a member besides this process; unknown counts as yes.
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
