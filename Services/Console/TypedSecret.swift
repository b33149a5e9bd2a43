// A secret that a person types at a terminal: nothing of it is shown, and Enter ends it.

import Glibc

/// The bytes of a line while it is typed, with the keys that correct it. It reads nothing itself.
struct TypedSecret: Hashable, Sendable {
  enum End: Hashable, Sendable {
    case entered
    /// Ctrl-C.
    case interrupted
  }

  private(set) var bytes: [UInt8] = []

  /// - Returns: nil while more is to come.
  mutating func take(_ byte: UInt8) -> End? {
    switch byte {
    case UInt8(ascii: "\n"), UInt8(ascii: "\r"), Self.endOfInput: return .entered
    case Self.interrupt: return .interrupted
    case Self.erase, Self.backspace:
      while let last = bytes.popLast(), last & 0xc0 == 0x80 {}
    case Self.erasesLine: bytes.removeAll()
    default: bytes.append(byte)
    }
    return nil
  }

  private static let interrupt: UInt8 = 0x03
  private static let endOfInput: UInt8 = 0x04
  private static let backspace: UInt8 = 0x08
  private static let erasesLine: UInt8 = 0x15
  private static let erase: UInt8 = 0x7f

  /// Asks on standard error and reads a line. Ctrl-C ends the process, and leaves the terminal as it was.
  /// - Returns: nil when the descriptor is no terminal; nothing was read then.
  static func read(from terminal: Int32, asking question: String) -> [UInt8]? {
    var usual = termios()
    guard tcgetattr(terminal, &usual) == 0 else { return nil }
    var hidden = usual
    hidden.c_lflag &= ~tcflag_t(ECHO | ICANON | ISIG)
    guard tcsetattr(terminal, TCSADRAIN, &hidden) == 0 else { return nil }
    tell(question)
    var secret = Self()
    var end: End?
    var byte: UInt8 = 0
    while end == nil {
      let count = Glibc.read(terminal, &byte, 1)
      if count < 0, errno == EINTR { continue }
      end = count > 0 ? secret.take(byte) : .entered
    }
    tcsetattr(terminal, TCSADRAIN, &usual)
    tell("\n")
    if end == .interrupted { raise(SIGINT) }
    return secret.bytes
  }

  private static func tell(_ text: String) {
    let bytes = Array(text.utf8)
    // Dropped because a question that nobody sees can be answered all the same.
    _ = write(STDERR_FILENO, bytes, bytes.count)
  }
}
