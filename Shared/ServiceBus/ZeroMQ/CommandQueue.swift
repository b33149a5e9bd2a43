// Hands commands to the thread that owns the sockets: a list under a lock, and an eventfd written only while the thread
// sleeps.

import CLinux
import Glibc
import Synchronization

final class CommandQueue: Sendable {
  private struct State {
    var commands: [Command] = []
    var isAsleep = false
    var isClosed = false
  }
  private let state = Mutex(State())
  /// Readable when the thread must wake up.
  let descriptor: Int32

  init() throws(BusError) {
    descriptor = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
    guard descriptor >= 0 else {
      throw BusError(.refused, "no eventfd: \(String(cString: strerror(errno))); raise the limit of open files")
    }
  }

  deinit { _ = CLinux.close(descriptor) }

  /// - Returns: false if the bus is closed; the command is dropped then.
  func post(_ command: Command) -> Bool {
    let (isTaken, wakes) = state.withLock { state in
      if state.isClosed { return (false, false) }
      state.commands.append(command)
      defer { state.isAsleep = false }
      return (true, state.isAsleep)
    }
    if wakes { eventfd_write(descriptor, 1) }
    return isTaken
  }

  /// Closes the queue and wakes the thread.
  func close() {
    let isFirst = state.withLock { state in
      defer { state.isClosed = true }
      return !state.isClosed
    }
    if isFirst { eventfd_write(descriptor, 1) }
  }

  /// For the thread: whether it may sleep. From here on, posting writes the eventfd.
  func prepareSleep() -> Bool {
    state.withLock { state in
      guard state.commands.isEmpty, !state.isClosed else { return false }
      state.isAsleep = true
      return true
    }
  }

  /// For the thread: swaps the posted commands for an empty array.
  /// - Returns: whether the queue is closed.
  func take(into commands: inout [Command]) -> Bool {
    commands.removeAll(keepingCapacity: true)
    return state.withLock { state in
      state.isAsleep = false
      swap(&state.commands, &commands)
      return state.isClosed
    }
  }

  func acknowledgeWake() {
    var count: eventfd_t = 0
    eventfd_read(descriptor, &count)
  }
}
