// Turns signals into bytes in a pipe, so that one loop can wait for them and for a timeout.

import Glibc
import Synchronization

/// The descriptor that the signal handler writes to; only the handler reads it. -1: none.
private let writeEnd = Atomic<Int32>(-1)

private func noteSignal(_ signal: Int32) {
  let saved = errno
  var byte = UInt8(truncatingIfNeeded: signal)
  // A full pipe is enough to wake the reader.
  _ = write(writeEnd.load(ordering: .relaxed), &byte, 1)
  errno = saved
}

struct SignalPipe {
  private let readEnd: Int32

  /// Catches `signals` from now on, for the rest of the process's life. Only one may be made in a process.
  init(catching signals: [Int32]) throws(SystemProblem) {
    let ends = try Self.pipe()
    readEnd = ends.read
    for end in [ends.read, ends.write] { _ = fcntl(end, F_SETFL, O_NONBLOCK) }
    writeEnd.store(ends.write, ordering: .relaxed)
    // The parent process may have blocked these signals; they would never arrive.
    var unblocked = sigset_t()
    sigemptyset(&unblocked)
    for signal in signals { sigaddset(&unblocked, signal) }
    pthread_sigmask(SIG_UNBLOCK, &unblocked, nil)
    for signal in signals {
      var action = sigaction()
      action.__sigaction_handler.sa_handler = noteSignal
      action.sa_flags = SA_RESTART
      sigaction(signal, &action, nil)
    }
  }

  /// Waits for a signal, at most `limit`.
  /// - Returns: the signals that came since the last call, in order.
  func wait(atMost limit: Duration) -> [Int32] {
    var descriptor = pollfd(fd: readEnd, events: Int16(POLLIN), revents: 0)
    let milliseconds = limit.components.seconds * 1000 + limit.components.attoseconds / 1_000_000_000_000_000
    poll(&descriptor, 1, Int32(clamping: max(0, milliseconds)))
    var buffer = [UInt8](repeating: 0, count: 64)
    let count = read(readEnd, &buffer, buffer.count)
    return count > 0 ? buffer[..<count].map(Int32.init) : []
  }

  /// A pipe that child processes don't inherit.
  static func pipe() throws(SystemProblem) -> (read: Int32, write: Int32) {
    var ends: [Int32] = [-1, -1]
    guard Glibc.pipe(&ends) == 0 else { throw SystemProblem("A pipe can't be made") }
    for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    return (ends[0], ends[1])
  }
}
