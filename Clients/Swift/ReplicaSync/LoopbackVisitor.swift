// One connection to a port of this machine on which a program waits for a browser.

#if canImport(Darwin)
  import Darwin
#elseif canImport(Musl)
  import Musl
#else
  import Glibc
#endif

private let systemSend = send

/// A browser, or anybody else of this machine. The connection is closed when it is let go of.
final class LoopbackVisitor {
  enum Heard {
    /// The request is not here wholly.
    case part
    /// The first line of a request whose head is here.
    case request(String)
    case tooMuch
    /// The visitor is gone.
    case end
  }

  private static let byteLimit = 16 * 1024
  private static let patience = Duration.seconds(5)
  private static let headEnd = Array("\r\n\r\n".utf8)

  let connection: Int32
  let deadline: ContinuousClock.Instant
  private var bytes: [UInt8] = []

  init(_ connection: Int32) {
    self.connection = connection
    deadline = .now + Self.patience
  }

  deinit { close(connection) }

  /// Takes what has arrived, and waits for nothing.
  func hear() -> Heard {
    var buffer = [UInt8](repeating: 0, count: 4096)
    let count = recv(connection, &buffer, buffer.count, Int32(MSG_DONTWAIT))
    guard count > 0 else { return count < 0 && (errno == EAGAIN || errno == EINTR) ? .part : .end }
    bytes += buffer[..<count]
    if bytes.count > Self.byteLimit { return .tooMuch }
    guard bytes.firstRange(of: Self.headEnd) != nil else { return .part }
    return .request(String(decoding: bytes.prefix { $0 != UInt8(ascii: "\r") }, as: UTF8.self))
  }

  /// A browser that is gone must not end the process.
  func answer(_ status: String, _ text: String) {
    #if canImport(Darwin)
      var isOn: Int32 = 1
      setsockopt(connection, SOL_SOCKET, SO_NOSIGPIPE, &isOn, socklen_t(MemoryLayout<Int32>.size))
      let flags: Int32 = 0
    #else
      let flags = Int32(MSG_NOSIGNAL)
    #endif
    let answer =
      "HTTP/1.1 \(status)\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: \(text.utf8.count)\r\n"
      + "Cache-Control: no-store\r\nConnection: close\r\n\r\n\(text)"
    _ = answer.withCString { systemSend(connection, $0, strlen($0), flags) }
  }
}
