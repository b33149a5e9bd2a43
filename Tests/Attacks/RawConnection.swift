// A connection without an HTTP client: it sends any bytes at any speed, and reads only when asked to.

import Glibc
import Installations

/// A TCP connection from an address of its own. No call blocks.
final class RawConnection: @unchecked Sendable {
  /// The attackers' address; bystanders use another one.
  static let source = "127.0.0.66"

  private let descriptor: Int32

  /// - Parameter receiveByteCount: the kernel's limit for unread bytes; nil: its default.
  /// - Throws: when no descriptor or port is left.
  init(to port: UInt16, from source: String = RawConnection.source, receiveByteCount: Int32? = nil) throws {
    descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | UInt32(SOCK_NONBLOCK.rawValue)), 0)
    guard descriptor >= 0 else { throw RunError("no socket: \(String(cString: strerror(errno)))") }
    if var count = receiveByteCount {
      setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &count, socklen_t(MemoryLayout<Int32>.size))
    }
    // The kernel chooses the port at connect, which gives all ports to each pair of addresses.
    var isLate: Int32 = 1
    setsockopt(descriptor, Int32(IPPROTO_IP), IP_BIND_ADDRESS_NO_PORT, &isLate, socklen_t(MemoryLayout<Int32>.size))
    guard Self.withAddress(source, 0, { bind(descriptor, $0, $1) }) == 0 else {
      throw RunError("\(source) can't be bound: \(String(cString: strerror(errno)))")
    }
    guard Self.withAddress("127.0.0.1", port, { connect(descriptor, $0, $1) }) == 0 || errno == EINPROGRESS else {
      throw RunError("no connection to \(port): \(String(cString: strerror(errno)))")
    }
  }

  deinit { close(descriptor) }

  private static func withAddress(_ host: String, _ port: UInt16, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32)
    -> Int32
  {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr.s_addr = inet_addr(host)
    return withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, socklen_t(MemoryLayout<sockaddr_in>.size)) }
    }
  }

  /// - Returns: the number of bytes that the kernel accepted; nil when the connection is gone.
  @discardableResult
  func send(_ bytes: [UInt8]) -> Int? {
    let count = Glibc.send(descriptor, bytes, bytes.count, Int32(MSG_DONTWAIT | MSG_NOSIGNAL))
    if count >= 0 { return count }
    return errno == EAGAIN || errno == ENOTCONN ? 0 : nil
  }

  /// Sends all bytes, waiting for room.
  /// - Returns: true when the connection accepted all of them.
  func sendAll(_ bytes: [UInt8], until isOver: () -> Bool) async -> Bool {
    var rest = bytes[...]
    while !rest.isEmpty, !isOver() {
      guard let count = send(Array(rest.prefix(1 << 18))) else { return false }
      rest = rest.dropFirst(count)
      // Dropped because a cancelled sleep leads to the check of `isOver`.
      if count == 0 { try? await Task.sleep(for: .milliseconds(5)) }
    }
    return rest.isEmpty
  }

  enum Reading: Sendable {
    case bytes([UInt8])
    case nothing
    case closed
  }

  /// The bytes that have arrived, at most `limit`.
  func read(_ limit: Int = 4096) -> Reading {
    var buffer = [UInt8](repeating: 0, count: limit)
    let count = recv(descriptor, &buffer, limit, Int32(MSG_DONTWAIT))
    if count > 0 { return .bytes(Array(buffer[..<count])) }
    return count < 0 && (errno == EAGAIN || errno == ENOTCONN) ? .nothing : .closed
  }

  /// True when there is something to read, or the connection is closed.
  var isAnswered: Bool {
    var byte: UInt8 = 0
    return recv(descriptor, &byte, 1, Int32(MSG_DONTWAIT | MSG_PEEK)) >= 0
  }

  /// The status of the answer that has arrived; `cut` when the connection closed without one, nil while there is
  /// nothing.
  func answer() -> String? {
    switch read() {
    case .nothing: return nil
    case .closed: return "cut"
    case .bytes(let bytes):
      let words = String(decoding: bytes.prefix(64), as: UTF8.self).split(separator: " ")
      return words.count > 1 && words[0].hasPrefix("HTTP/") ? String(words[1]) : "no HTTP"
    }
  }
}
