// Keep-alive connections of one thread: one epoll that sends requests and reports answers, without blocking on a single
// one.

import CLinux
import Glibc

/// An IPv4 address to connect to.
struct Target: Hashable, Sendable {
  let host: String
  let address: UInt32
  let port: UInt16

  init?(url: String) {
    guard url.hasPrefix("http://") else { return nil }
    let authority = url.dropFirst(7).prefix { $0 != "/" }
    let parts = authority.split(separator: ":")
    guard let name = parts.first, parts.count <= 2, let port = parts.count == 2 ? UInt16(parts[1]) : 80 else {
      return nil
    }
    var found: UnsafeMutablePointer<addrinfo>?
    var hints = addrinfo()
    hints.ai_family = AF_INET
    guard getaddrinfo(String(name), nil, &hints, &found) == 0, let info = found else { return nil }
    defer { freeaddrinfo(found) }
    guard let address = info.pointee.ai_addr else { return nil }
    self.address = address.withMemoryRebound(to: sockaddr_in.self, capacity: 1) { $0.pointee.sin_addr.s_addr }
    host = String(authority)
    self.port = port
  }
}

/// Requests and answers, one at a time on each connection. It belongs to one thread and retries nothing.
struct Connections: ~Copyable {
  enum Event: Equatable {
    /// The whole answer is in `reader(of:)` until the next request.
    case answered(isSuccess: Bool)
    /// More of a stream has arrived.
    case received
    /// The connection is closed; the next request opens another one.
    case failed(String)
  }

  private struct Connection {
    let target: Target
    var socket: Int32 = -1
    var request: [UInt8] = []
    var sentCount = 0
    var reader = ResponseReader()
    var started: UInt64 = 0
  }

  private let epoll = epoll_create1(0)
  private var connections: [Connection] = []
  private var happened: [(index: Int, event: Event)] = []
  private var ready = [epoll_event](repeating: epoll_event(), count: 256)

  init() {}

  deinit {
    for connection in connections where connection.socket >= 0 { close(connection.socket) }
    close(epoll)
  }

  /// Nanoseconds of the monotonic clock.
  static func now() -> UInt64 {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
  }

  /// Adds a connection, which its first request opens.
  mutating func add(_ target: Target) -> Int {
    connections.append(Connection(target: target))
    return connections.count - 1
  }

  func reader(of index: Int) -> ResponseReader { connections[index].reader }

  /// The time at which the latest request was sent.
  func started(_ index: Int) -> UInt64 { connections[index].started }

  /// Drops the part of a stream received so far.
  mutating func discard(_ index: Int) { connections[index].reader.dropBody() }

  /// Sends a request; the previous one must have been answered, or have failed.
  mutating func send(_ index: Int, _ request: [UInt8], isStream: Bool = false) {
    connections[index].request = request
    connections[index].sentCount = 0
    connections[index].reader.reset(isStream: isStream)
    connections[index].started = Self.now()
    if connections[index].socket < 0, !connect(index) {
      return fail(index, "connect: \(String(cString: strerror(errno)))")
    }
    write(index)
  }

  /// The events in order; waits for one until `deadline` at most.
  mutating func events(until deadline: UInt64) -> [(index: Int, event: Event)] {
    if happened.isEmpty {
      let now = Self.now()
      let rest = deadline > now ? deadline - now : 0
      var patience = timespec(tv_sec: Int(rest / 1_000_000_000), tv_nsec: Int(rest % 1_000_000_000))
      let count = epoll_pwait2(epoll, &ready, Int32(ready.count), &patience, nil)
      for index in 0..<Int(max(count, 0)) { serve(Int(ready[index].data.u32), ready[index].events) }
    }
    var events: [(index: Int, event: Event)] = []
    swap(&events, &happened)
    return events
  }

  /// The next event; nil at the deadline, or when the wake-up brought no event.
  mutating func nextEvent(until deadline: UInt64) -> (index: Int, event: Event)? {
    var events = events(until: deadline)
    guard !events.isEmpty else { return nil }
    let first = events.removeFirst()
    happened = events + happened
    return first
  }

  private mutating func connect(_ index: Int) -> Bool {
    let connection = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0)
    guard connection >= 0 else { return false }
    connections[index].socket = connection
    var one: Int32 = 1
    setsockopt(connection, Int32(IPPROTO_TCP), TCP_NODELAY, &one, socklen_t(MemoryLayout<Int32>.size))
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = connections[index].target.address
    address.sin_port = connections[index].target.port.bigEndian
    let result = withUnsafePointer(to: &address) { address in
      address.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        Glibc.connect(connection, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
    guard result == 0 || errno == EINPROGRESS else { return false }
    var event = epoll_event()
    event.events = EPOLLIN.rawValue | EPOLLOUT.rawValue | EPOLLET.rawValue
    event.data.u32 = UInt32(index)
    return epoll_ctl(epoll, EPOLL_CTL_ADD, connection, &event) == 0
  }

  /// Edge-triggered: continues until the socket accepts, or has, no more bytes.
  private mutating func serve(_ index: Int, _ events: UInt32) {
    if events & EPOLLOUT.rawValue != 0 { write(index) }
    if events & (EPOLLIN.rawValue | EPOLLHUP.rawValue | EPOLLERR.rawValue) != 0 { receive(index) }
  }

  private mutating func write(_ index: Int) {
    while connections[index].socket >= 0, connections[index].sentCount < connections[index].request.count {
      let socket = connections[index].socket
      let sentCount = connections[index].sentCount
      let count = connections[index].request.withUnsafeBytes { bytes in
        bytes.baseAddress.map { Glibc.send(socket, $0 + sentCount, bytes.count - sentCount, Int32(MSG_NOSIGNAL)) } ?? 0
      }
      if count > 0 {
        connections[index].sentCount += count
      } else if errno == EAGAIN || errno == ENOTCONN {
        return
      } else if errno != EINTR {
        return fail(index, "send: \(String(cString: strerror(errno)))")
      }
    }
  }

  private mutating func receive(_ index: Int) {
    while connections[index].socket >= 0 {
      let count = connections[index].reader.receive(from: connections[index].socket)
      if count < 0, errno == EINTR { continue }
      if count < 0, errno == EAGAIN || errno == EWOULDBLOCK { return }
      if count <= 0 {
        return fail(
          index, count == 0 ? "the server closed the connection" : "receive: \(String(cString: strerror(errno)))")
      }
      switch connections[index].reader.outcome() {
      case .incomplete:
        if connections[index].reader.isStream { happened.append((index, .received)) }
      case .malformed: return fail(index, "the answer is not HTTP")
      case .complete(let isSuccess, let closes):
        // Releases the buffer, so that its owner can write the next request in place.
        connections[index].request = []
        connections[index].sentCount = 0
        happened.append((index, .answered(isSuccess: isSuccess)))
        if closes { disconnect(index) }
        return
      }
    }
  }

  private mutating func disconnect(_ index: Int) {
    if connections[index].socket >= 0 { close(connections[index].socket) }
    connections[index].socket = -1
  }

  private mutating func fail(_ index: Int, _ reason: String) {
    disconnect(index)
    happened.append((index, .failed(reason)))
  }
}
