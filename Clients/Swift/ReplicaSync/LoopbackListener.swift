// Hears one callback of a browser on a port of this machine.

import MirrorWire
import Synchronization

#if canImport(Darwin)
  import Darwin
#elseif canImport(Musl)
  import Musl
#else
  import Glibc
#endif

private let systemSend = send

/// Listens on 127.0.0.1, on a port that the system chooses, until it is let go of.
final class LoopbackListener: Sendable {
  let port: UInt16
  private let descriptor: Int32

  private static let requestLimit = 16 * 1024
  private static let answer =
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\nContent-Length: 21\r\n\r\n"
    + "Go back to the app.\r\n"

  /// - Throws: `damaged` without a free port.
  init() throws(SyncFailure) {
    #if canImport(Glibc)
      let kind = Int32(SOCK_STREAM.rawValue)
    #else
      let kind = SOCK_STREAM
    #endif
    let descriptor = socket(AF_INET, kind, 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let isListening = withUnsafeMutablePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
        bind(descriptor, address, length) == 0 && listen(descriptor, 4) == 0
          && getsockname(descriptor, address, &length) == 0
      }
    }
    guard descriptor >= 0, isListening else { throw .damaged("no port is free for the sign-in page to call back") }
    self.descriptor = descriptor
    port = UInt16(bigEndian: address.sin_port)
  }

  deinit { close(descriptor) }

  /// Waits for the callback and answers it.
  /// - Throws: `signedOut` as a failure of the server when none comes in time.
  func query(timeout: Duration) async throws(SyncFailure) -> [String: String] {
    let deadline = ContinuousClock.now + timeout
    let query: [String: String]? = await withCheckedContinuation { continuation in
      // A thread of its own, because the socket's calls block.
      Thread.start { [self] in continuation.resume(returning: wait(until: deadline)) }
    }
    guard let query else {
      throw .server(ServerError(status: 421, serverErrorCode: "AUTHENTICATION_REQUIRED", reason: "nobody signed in"))
    }
    return query
  }

  private func wait(until deadline: ContinuousClock.Instant) -> [String: String]? {
    while ContinuousClock.now < deadline {
      var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
      guard poll(&entry, 1, 500) > 0 else { continue }
      let connection = accept(descriptor, nil, nil)
      guard connection >= 0 else { continue }
      defer { close(connection) }
      // Browsers ask for icons, too.
      guard let query = Self.query(ofRequest: Self.head(connection)) else { continue }
      guard query["ckWebAuthToken"] != nil || query["errorMessage"] != nil else { continue }
      Self.send(Self.answer, to: connection)
      return query
    }
    return nil
  }

  /// A browser that is gone must not end the process.
  private static func send(_ text: String, to connection: Int32) {
    #if canImport(Darwin)
      var isOn: Int32 = 1
      setsockopt(connection, SOL_SOCKET, SO_NOSIGPIPE, &isOn, socklen_t(MemoryLayout<Int32>.size))
      let flags: Int32 = 0
    #else
      let flags = Int32(MSG_NOSIGNAL)
    #endif
    _ = text.withCString { systemSend(connection, $0, strlen($0), flags) }
  }

  private static func head(_ connection: Int32) -> String {
    var limit = timeval(tv_sec: 5, tv_usec: 0)
    setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 4096)
    while bytes.count < requestLimit, !bytes.contains(UInt8(ascii: "\n")) {
      let count = read(connection, &buffer, buffer.count)
      guard count > 0 else { break }
      bytes += buffer[..<count]
    }
    return String(decoding: bytes.prefix { $0 != UInt8(ascii: "\r") && $0 != UInt8(ascii: "\n") }, as: UTF8.self)
  }

  /// `GET /done?a=b HTTP/1.1` → its query; nil for another request.
  static func query(ofRequest line: String) -> [String: String]? {
    let words = line.split(separator: " ")
    guard words.count == 3, words[0] == "GET", words[1].hasPrefix("/done?") else { return nil }
    var query: [String: String] = [:]
    for pair in words[1].dropFirst("/done?".count).split(separator: "&") {
      let parts = pair.split(separator: "=", maxSplits: 1)
      if parts.count == 2, let value = decoded(parts[1]) { query[String(parts[0])] = value }
    }
    return query
  }

  private static func decoded(_ text: Substring) -> String? {
    var bytes: [UInt8] = []
    var rest = text.utf8[...]
    while let byte = rest.popFirst() {
      guard byte == UInt8(ascii: "%") else {
        bytes.append(byte)
        continue
      }
      guard let code = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16) else { return nil }
      bytes.append(code)
      rest = rest.dropFirst(2)
    }
    return String(validating: bytes, as: UTF8.self)
  }
}

/// A thread for one call that blocks.
private enum Thread {
  fileprivate final class Box {
    let body: @Sendable () -> Void
    init(_ body: @escaping @Sendable () -> Void) { self.body = body }
  }

  static func start(_ body: @escaping @Sendable () -> Void) {
    let box = Unmanaged.passRetained(Box(body)).toOpaque()
    #if canImport(Darwin)
      var thread: pthread_t?
      pthread_create(&thread, nil, { Unmanaged<Box>.fromOpaque($0).takeRetainedValue().run() }, box)
      if let thread { pthread_detach(thread) }
    #else
      var thread = pthread_t()
      pthread_create(
        &thread, nil, { context in context.map { Unmanaged<Box>.fromOpaque($0).takeRetainedValue().run() } ?? nil }, box
      )
      pthread_detach(thread)
    #endif
  }
}

extension Thread.Box {
  fileprivate func run() -> UnsafeMutableRawPointer? {
    body()
    return nil
  }
}
