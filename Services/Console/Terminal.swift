// The console's input and output: the process's own streams, or a test's buffers.

import CLinux
import Glibc
import Synchronization

/// The streams of a command.
struct Terminal: Sendable {
  let output: @Sendable (String) -> Void
  let problem: @Sendable (String) -> Void
  /// All of standard input; of a terminal one line, of which nothing is shown.
  let input: @Sendable () -> [UInt8]
  /// The reason why a part of the output was lost; nil while there is none. A reader that went away wants no more.
  var loss: @Sendable () -> String? = { nil }
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

  /// The process's own streams.
  static let standard = writing(to: STDOUT_FILENO)

  /// Writes each line at once and whole.
  static func writing(to output: Int32) -> Terminal {
    let loss = FirstLoss()
    return Terminal(
      output: { line in if let code = write(line + "\n", to: output), code != EPIPE { loss.note(code) } },
      // Dropped because there is no place to report to when the terminal is gone.
      problem: { _ = write($0 + "\n", to: STDERR_FILENO) },
      input: { TypedSecret.read(from: STDIN_FILENO, asking: "Password: ") ?? readAll(from: STDIN_FILENO) },
      loss: { loss.reason }, isScreen: isatty(output) == 1)
  }

  private final class FirstLoss: Sendable {
    private let code = Mutex<Int32?>(nil)
    func note(_ code: Int32) { self.code.withLock { $0 = $0 ?? code } }
    var reason: String? { code.withLock(\.self).map { String(cString: strerror($0)) } }
  }

  /// - Returns: the error number of a failure.
  private static func write(_ text: String, to descriptor: Int32) -> Int32? {
    var bytes = Array(text.utf8)[...]
    while !bytes.isEmpty {
      let count = bytes.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { return count < 0 ? errno : EIO }
      bytes = bytes.dropFirst(count)
    }
    return nil
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
