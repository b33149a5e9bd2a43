// Hears one callback of a browser on a port of this machine.

import MirrorWire
import ReplicaStore
import Synchronization

#if canImport(Darwin)
  import Darwin
#elseif canImport(Musl)
  import Musl
#else
  import Glibc
#endif

/// Listens on 127.0.0.1, on a port that the system chooses, until it is let go of. It takes one callback, which has its
/// nonce: any page in a browser and any program of this machine can call the port.
final class LoopbackListener: Sendable {
  private let port: UInt16
  private let nonce: String
  private let descriptor: Int32

  /// Connections at a time; the oldest is closed for another one.
  private static let visitorLimit = 16

  /// The address to be called back at. Only the sign-in page learns it (RFC 8252, 8.9).
  var callback: String { "http://127.0.0.1:\(port)/done?nonce=\(nonce)" }

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
        bind(descriptor, address, length) == 0 && listen(descriptor, Int32(Self.visitorLimit)) == 0
          && getsockname(descriptor, address, &length) == 0
      }
    }
    guard descriptor >= 0, isListening else { throw .damaged("no port is free for the sign-in page to call back") }
    // A visitor who is gone before they are let in must not keep others waiting.
    _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
    self.descriptor = descriptor
    port = UInt16(bigEndian: address.sin_port)
    var generator = SystemRandomNumberGenerator()
    nonce = (0..<4).map { _ in withUnsafeBytes(of: generator.next() as UInt64) { $0.hexadecimal } }.joined()
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
    var visitors: [LoopbackVisitor] = []
    while true {
      let now = ContinuousClock.now
      if now >= deadline { return nil }
      visitors.removeAll { $0.deadline <= now }
      let sockets = [descriptor] + visitors.map(\.connection)
      var entries = sockets.map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
      guard poll(&entries, nfds_t(entries.count), 500) > 0 else { continue }
      for (visitor, entry) in zip(visitors, entries.dropFirst()) where entry.revents != 0 {
        switch visitor.hear() {
        case .part: continue
        case .request(let line):
          if let query = callback(line) {
            visitor.answer("200 OK", "Go back to the app.\r\n")
            return query
          }
          // Browsers ask for icons, too.
          visitor.answer("404 Not Found", "Nothing is here.\r\n")
        case .tooMuch: visitor.answer("400 Bad Request", "The request is too long.\r\n")
        case .end: break
        }
        visitors.removeAll { $0 === visitor }
      }
      guard entries[0].revents != 0 else { continue }
      let connection = accept(descriptor, nil, nil)
      guard connection >= 0 else { continue }
      if visitors.count == Self.visitorLimit { visitors.removeFirst() }
      visitors.append(LoopbackVisitor(connection))
    }
  }

  /// The query of the callback; nil: the request is somebody else's.
  private func callback(_ line: String) -> [String: String]? {
    guard let query = Self.query(ofRequest: line), let nonce = query["nonce"], isOwn(nonce),
      query["ckWebAuthToken"] != nil || query["errorMessage"] != nil
    else { return nil }
    return query
  }

  /// Compares in the same time wherever they differ, so that nobody finds the nonce piece by piece.
  private func isOwn(_ other: String) -> Bool {
    let (own, other) = (Array(nonce.utf8), Array(other.utf8))
    return own.count == other.count && zip(own, other).reduce(0, { $0 | ($1.0 ^ $1.1) }) == 0
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
