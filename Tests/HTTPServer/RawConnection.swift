// A TCP client that sends exactly the given bytes and parses answers strictly: the oracle for the server.

import Dispatch
import Glibc
import Synchronization

struct RawAnswer: Sendable {
  var status: Int
  /// Names in lower case.
  var headers: [(name: String, value: String)]
  var body: [UInt8]

  func header(_ name: String) -> String? { headers.first { $0.name == name }?.value }
  var text: String { String(decoding: body, as: UTF8.self) }
}

/// Runs blocking system calls outside of Swift's thread pool: on two cores, two blocked tests would leave no thread for
/// handlers.
func blocking<T: Sendable>(_ work: @escaping @Sendable () throws -> T) async throws -> T {
  try await withCheckedThrowingContinuation { continuation in
    Thread.detach { continuation.resume(with: Result(catching: work)) }
  }
}

private enum Thread {
  static func detach(_ work: @escaping @Sendable () -> Void) {
    final class Box: Sendable {
      let work: @Sendable () -> Void
      init(_ work: @escaping @Sendable () -> Void) { self.work = work }
    }
    var thread = pthread_t()
    let box = Unmanaged.passRetained(Box(work))
    let code = pthread_create(
      &thread, nil,
      { pointer in
        guard let pointer else { return nil }
        Unmanaged<Box>.fromOpaque(pointer).takeRetainedValue().work()
        return nil
      }, box.toOpaque())
    precondition(code == 0, "no thread: \(code)")
    pthread_detach(thread)
  }
}

final class RawConnection: Sendable {
  struct Failure: Error, CustomStringConvertible {
    let description: String
  }

  private let fd: Int32
  private let buffer = Mutex<[UInt8]>([])
  private let isClosed = Mutex(false)

  /// - Parameters:
  ///   - patience: seconds that a read waits before the test fails.
  ///   - source: the address to connect from, any of 127.0.0.0/8.
  init(port: UInt16, patience: Int = 20, from source: UInt32 = 0x7f00_0001) throws {
    fd = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    var own = sockaddr_in()
    own.sin_family = sa_family_t(AF_INET)
    own.sin_addr.s_addr = in_addr_t(source).bigEndian
    let bound = withUnsafeBytes(of: &own) {
      bind(fd, $0.assumingMemoryBound(to: sockaddr.self).baseAddress, socklen_t($0.count))
    }
    var name = sockaddr_in()
    name.sin_family = sa_family_t(AF_INET)
    name.sin_port = port.bigEndian
    name.sin_addr.s_addr = in_addr_t(0x7f00_0001).bigEndian
    let code = withUnsafeBytes(of: &name) {
      connect(fd, $0.assumingMemoryBound(to: sockaddr.self).baseAddress, socklen_t($0.count))
    }
    // All properties are initialised, so a failure runs `deinit`, which closes the socket.
    guard bound == 0, code == 0 else { throw Failure(description: "connect: \(String(cString: strerror(errno)))") }
    var time = timeval(tv_sec: patience, tv_usec: 0)
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, socklen_t(MemoryLayout<timeval>.size))
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, socklen_t(MemoryLayout<timeval>.size))
    var on: Int32 = 1
    setsockopt(fd, Int32(IPPROTO_TCP), TCP_NODELAY, &on, socklen_t(MemoryLayout<Int32>.size))
  }

  deinit { close() }

  func close() {
    let wasClosed = isClosed.withLock { value in
      defer { value = true }
      return value
    }
    if !wasClosed { Glibc.close(fd) }
  }

  func closeForWriting() { shutdown(fd, Int32(SHUT_WR)) }

  /// Makes the kernel stop receiving early, for tests of slow readers.
  func shrinkReceiveBuffer() {
    var size: Int32 = 262_144
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, socklen_t(MemoryLayout<Int32>.size))
  }

  /// Repeats a call after a signal: the kernel does not resume calls that have a time limit.
  private static func resumed(_ call: () -> Int) -> Int {
    while true {
      let count = call()
      if count >= 0 || errno != EINTR { return count }
    }
  }

  func send(_ text: String) async throws { try await send(Array(text.utf8)) }

  func send(_ bytes: [UInt8]) async throws { try await blocking { try self.sendNow(bytes) } }

  /// Sends `count` pieces of so many bytes, with a pause of so many milliseconds behind each. All on one thread,
  /// because a task that sleeps may wait long for its turn.
  func sendSteadily(count: Int, of byteCount: Int, pause milliseconds: UInt32) async throws {
    let piece = [UInt8](repeating: UInt8(ascii: "x"), count: byteCount)
    try await blocking {
      for _ in 0..<count {
        try self.sendNow(piece)
        usleep(milliseconds * 1000)
      }
    }
  }

  private func sendNow(_ bytes: [UInt8]) throws {
    var sent = 0
    while sent < bytes.count {
      let count = bytes[sent...].withUnsafeBytes { rest in
        Self.resumed { Glibc.send(fd, rest.baseAddress, rest.count, Int32(MSG_NOSIGNAL)) }
      }
      guard count > 0 else { throw Failure(description: "send: \(String(cString: strerror(errno)))") }
      sent += count
    }
  }

  /// Waits for more bytes. Returns false at the end of the stream.
  private func fill(_ bytes: inout [UInt8]) throws -> Bool {
    var chunk = [UInt8](repeating: 0, count: 65_536)
    let count = chunk.withUnsafeMutableBytes { chunk in Self.resumed { recv(fd, chunk.baseAddress, chunk.count, 0) } }
    guard count >= 0 else {
      throw Failure(
        description: errno == EAGAIN ? "nothing arrived in time" : "receive: \(String(cString: strerror(errno)))")
    }
    bytes.append(contentsOf: chunk[..<count])
    return count > 0
  }

  /// All bytes until the server closes.
  func readToEnd() async throws -> [UInt8] {
    try await blocking {
      try self.buffer.withLock { bytes in
        while try self.fill(&bytes) {}
        defer { bytes = [] }
        return bytes
      }
    }
  }

  /// The bytes up to `mark`, which is included.
  func read(through mark: String) async throws -> String {
    try await blocking {
      try self.buffer.withLock { String(decoding: try self.take(&$0, through: mark), as: UTF8.self) }
    }
  }

  private func take(_ bytes: inout [UInt8], through mark: String) throws -> [UInt8] {
    let mark = Array(mark.utf8)
    var searched = 0
    while true {
      while searched + mark.count <= bytes.count {
        if bytes[searched..<searched + mark.count].elementsEqual(mark) {
          let end = searched + mark.count
          defer { bytes.removeFirst(end) }
          return Array(bytes[..<end])
        }
        searched += 1
      }
      guard try fill(&bytes) else {
        throw Failure(description: "the stream ended after \(String(decoding: bytes, as: UTF8.self))")
      }
    }
  }

  /// Status line and headers; the body stays in the stream.
  func readHead() async throws -> RawAnswer {
    try await blocking { try self.buffer.withLock { try self.head(&$0) } }
  }

  private func head(_ bytes: inout [UInt8]) throws -> RawAnswer {
    let lines = String(decoding: try take(&bytes, through: "\r\n\r\n"), as: UTF8.self).split(separator: "\r\n")
    let parts = lines[0].split(separator: " ", maxSplits: 2)
    guard parts.count >= 2, parts[0].hasPrefix("HTTP/1."), let status = Int(parts[1]) else {
      throw Failure(description: "no status line: \(lines[0])")
    }
    let headers = lines.dropFirst().map { line in
      let pair = line.split(separator: ":", maxSplits: 1)
      return (name: pair[0].lowercased(), value: pair.count > 1 ? String(pair[1].drop { $0 == " " }) : "")
    }
    return RawAnswer(status: status, headers: headers, body: [])
  }

  /// One answer with its body.
  /// - Parameter hasBody: false for the answer to a HEAD.
  func readAnswer(hasBody: Bool = true) async throws -> RawAnswer {
    try await blocking {
      try self.buffer.withLock { bytes in
        var answer = try self.head(&bytes)
        if answer.status == 100 { answer = try self.head(&bytes) }
        guard hasBody, answer.status != 204, answer.status != 304 else { return answer }
        if let length = answer.header("content-length").flatMap({ Int($0) }) {
          while bytes.count < length {
            guard try self.fill(&bytes) else { throw Failure(description: "the body was cut short") }
          }
          answer.body = Array(bytes[..<length])
          bytes.removeFirst(length)
        } else if answer.header("transfer-encoding") == "chunked" {
          answer.body = try self.chunks(&bytes)
        } else {
          while try self.fill(&bytes) {}
          answer.body = bytes
          bytes = []
        }
        return answer
      }
    }
  }

  private func chunks(_ bytes: inout [UInt8]) throws -> [UInt8] {
    var body: [UInt8] = []
    while true {
      let line = String(decoding: try take(&bytes, through: "\r\n").dropLast(2), as: UTF8.self)
      guard let length = Int(line, radix: 16) else { throw Failure(description: "no chunk length: \(line)") }
      while bytes.count < length + 2 {
        guard try fill(&bytes) else { throw Failure(description: "the chunk was cut short") }
      }
      body.append(contentsOf: bytes[..<length])
      bytes.removeFirst(length + 2)
      if length == 0 { return body }
    }
  }
}
