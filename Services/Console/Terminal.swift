// The console's input and output: the process's own streams, or a test's buffers.

import CLinux
import Glibc

/// The streams of a command.
struct Terminal: Sendable {
  let output: @Sendable (String) -> Void
  let problem: @Sendable (String) -> Void
  let input: @Sendable () -> [UInt8]
  /// True when the output goes to a terminal.
  var isScreen = false
  /// Milliseconds since 1970.
  var now: @Sendable () -> Int64 = Terminal.wallClock
  /// Waits for a number of seconds.
  /// - Returns: false when the command must stop.
  var pause: @Sendable (UInt32) -> Bool = { seconds in
    sleep(seconds)
    return true
  }

  private static let wallClock: @Sendable () -> Int64 = {
    var time = timespec()
    clock_gettime(CLOCK_REALTIME, &time)
    return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
  }

  /// Writes each line at once and whole.
  static let standard = Terminal(
    output: { write($0 + "\n", to: STDOUT_FILENO) }, problem: { write($0 + "\n", to: STDERR_FILENO) },
    input: { readAll(from: STDIN_FILENO) },
    isScreen: isatty(STDOUT_FILENO) == 1)

  private static func write(_ text: String, to descriptor: Int32) {
    var bytes = Array(text.utf8)[...]
    while !bytes.isEmpty {
      let count = bytes.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
      if count < 0, errno == EINTR { continue }
      // Dropped because there is no place to report to when the terminal is gone.
      guard count > 0 else { return }
      bytes = bytes.dropFirst(count)
    }
  }

  private static func readAll(from descriptor: Int32) -> [UInt8] {
    var content: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 65536)
    while true {
      let count = read(descriptor, &buffer, buffer.count)
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { return content }
      content += buffer[..<count]
    }
  }
}
