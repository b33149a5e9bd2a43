// The closed loop: one thread, one epoll, a few keep-alive connections that each send their next request when the last is answered.

import CLinux
import Glibc

/// What one run measured.
struct Measurement: Sendable {
  /// Of answers within the measured time, microseconds.
  var latencies: [UInt32] = []
  var errorCount = 0
  /// The first answer that was an error, or what broke.
  var firstError: String?
  /// Measured, not asked for.
  var seconds = 0.0

  mutating func merge(_ other: Measurement) {
    latencies += other.latencies
    errorCount += other.errorCount
    firstError = firstError ?? other.firstError
    seconds = max(seconds, other.seconds)
  }
}

/// An IPv4 address to connect to.
struct Target: Sendable {
  let host: String
  let address: UInt32
  let port: UInt16

  init?(url: String) {
    guard url.hasPrefix("http://") else { return nil }
    let authority = url.dropFirst(7).prefix { $0 != "/" }
    let parts = authority.split(separator: ":")
    guard let name = parts.first, parts.count <= 2, let port = parts.count == 2 ? UInt16(parts[1]) : 80 else { return nil }
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

/// When a run is over.
struct RunLength: Sendable {
  var seconds: Double
  /// Of each generator, errors included; then nothing is warmed up.
  var answerLimit: Int?
}

/// Drives its clients for a while. Lives on one thread.
struct Generator {
  private struct Client {
    var maker: RequestMaker
    var socket: Int32 = -1
    var sentCount = 0
    var reader = ResponseReader()
    var started: UInt64 = 0

    mutating func prepare() {
      maker.advance()
      sentCount = 0
      reader.reset()
      started = Generator.now()
    }
  }

  private let target: Target
  private let epoll: Int32
  private var clients: [Client]
  private var measurement = Measurement()
  private var measureFrom: UInt64 = 0
  private var end: UInt64 = 0

  private static let warmUp: UInt64 = 500_000_000
  /// A run with nothing but errors ends early.
  private static let errorLimit = 2000

  init(_ target: Target, _ makers: [RequestMaker]) {
    self.target = target
    epoll = epoll_create1(0)
    clients = makers.map { Client(maker: $0) }
  }

  static func now() -> UInt64 {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
  }

  mutating func run(_ length: RunLength) -> Measurement {
    let start = Self.now()
    measureFrom = length.answerLimit == nil ? start + min(Self.warmUp, UInt64(length.seconds * 0.25e9)) : start
    end = measureFrom + UInt64(length.seconds * 1e9)
    let answerLimit = length.answerLimit ?? .max
    for index in clients.indices { begin(index) }
    var events = [epoll_event](repeating: epoll_event(), count: max(clients.count, 1))
    while true {
      let now = Self.now()
      if now >= end || (measurement.errorCount > Self.errorLimit && measurement.latencies.isEmpty) { break }
      if measurement.latencies.count + measurement.errorCount >= answerLimit { break }
      let count = epoll_wait(epoll, &events, Int32(events.count), Int32((end - now) / 1_000_000) + 1)
      for index in 0..<Int(max(count, 0)) { serve(Int(events[index].data.u32), events[index].events) }
    }
    let stopped = min(Self.now(), end)
    measurement.seconds = stopped > measureFrom ? Double(stopped - measureFrom) / 1e9 : 0
    for client in clients where client.socket >= 0 { close(client.socket) }
    close(epoll)
    return measurement
  }

  private mutating func begin(_ index: Int) {
    clients[index].prepare()
    if clients[index].socket < 0, !connect(index) { return fail(index, "connect: \(String(cString: strerror(errno)))") }
    send(index)
  }

  private mutating func connect(_ index: Int) -> Bool {
    let connection = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0)
    guard connection >= 0 else { return false }
    clients[index].socket = connection
    var one: Int32 = 1
    setsockopt(connection, Int32(IPPROTO_TCP), TCP_NODELAY, &one, socklen_t(MemoryLayout<Int32>.size))
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = target.address
    address.sin_port = target.port.bigEndian
    let result = withUnsafePointer(to: &address) { address in
      address.withMemoryRebound(to: sockaddr.self, capacity: 1) { Glibc.connect(connection, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) }
    }
    guard result == 0 || errno == EINPROGRESS else { return false }
    var event = epoll_event()
    event.events = EPOLLIN.rawValue | EPOLLOUT.rawValue | EPOLLET.rawValue
    event.data.u32 = UInt32(index)
    return epoll_ctl(epoll, EPOLL_CTL_ADD, connection, &event) == 0
  }

  /// Edge-triggered: goes on until the socket takes, or has, nothing more.
  private mutating func serve(_ index: Int, _ events: UInt32) {
    if events & EPOLLOUT.rawValue != 0, clients[index].sentCount < clients[index].maker.request.count { send(index) }
    if events & (EPOLLIN.rawValue | EPOLLHUP.rawValue | EPOLLERR.rawValue) != 0 { receive(index) }
  }

  private mutating func send(_ index: Int) {
    while clients[index].socket >= 0, clients[index].sentCount < clients[index].maker.request.count {
      let socket = clients[index].socket
      let sentCount = clients[index].sentCount
      let count = clients[index].maker.request.withUnsafeBytes { bytes in
        bytes.baseAddress.map { Glibc.send(socket, $0 + sentCount, bytes.count - sentCount, Int32(MSG_NOSIGNAL)) } ?? 0
      }
      if count > 0 {
        clients[index].sentCount += count
      } else if errno == EAGAIN || errno == ENOTCONN {
        return
      } else if errno != EINTR {
        return fail(index, "send: \(String(cString: strerror(errno)))")
      }
    }
  }

  private mutating func receive(_ index: Int) {
    while clients[index].socket >= 0 {
      let count = clients[index].reader.receive(from: clients[index].socket)
      if count < 0, errno == EINTR { continue }
      if count < 0, errno == EAGAIN || errno == EWOULDBLOCK { return }
      if count <= 0 { return fail(index, count == 0 ? "the server closed the connection" : "receive: \(String(cString: strerror(errno)))") }
      switch clients[index].reader.outcome() {
      case .incomplete: continue
      case .malformed: return fail(index, "the answer is no HTTP")
      case .complete(let isSuccess, let closes):
        finish(index, isSuccess)
        if closes { disconnect(index) }
        begin(index)
      }
    }
  }

  private mutating func finish(_ index: Int, _ isSuccess: Bool) {
    let now = Self.now()
    if isSuccess {
      if now >= measureFrom, now < end { measurement.latencies.append(UInt32(clamping: (now - clients[index].started) / 1000)) }
    } else {
      note(String(decoding: clients[index].reader.bytes.prefix(1000), as: UTF8.self))
    }
  }

  private mutating func note(_ error: String) {
    measurement.errorCount += 1
    measurement.firstError = measurement.firstError ?? error
  }

  private mutating func disconnect(_ index: Int) {
    if clients[index].socket >= 0 { close(clients[index].socket) }
    clients[index].socket = -1
  }

  /// Notes the error and tries again with the next request, unless it can't even connect.
  private mutating func fail(_ index: Int, _ reason: String) {
    note(reason)
    disconnect(index)
    if !reason.hasPrefix("connect"), measurement.errorCount <= Self.errorLimit { begin(index) }
  }
}

/// Runs generators on threads of their own and adds up what they measured.
func measure(_ target: Target, _ makers: [RequestMaker], threadCount: Int, length: RunLength) async -> Measurement {
  await withTaskGroup { group in
    for thread in 0..<min(threadCount, makers.count) {
      let share = makers.indices.filter { $0 % threadCount == thread }.map { makers[$0] }
      group.addTask {
        await withCheckedContinuation { continuation in
          let job = Job(target: target, makers: share, length: length, continuation: continuation)
          var thread = pthread_t()
          let created = pthread_create(&thread, nil, generatorThread, Unmanaged.passRetained(job).toOpaque())
          precondition(created == 0, "no thread is left for the load generator (error \(created))")
          pthread_detach(thread)
        }
      }
    }
    var sum = Measurement()
    for await measurement in group { sum.merge(measurement) }
    return sum
  }
}

private final class Job: Sendable {
  let target: Target
  let makers: [RequestMaker]
  let length: RunLength
  let continuation: CheckedContinuation<Measurement, Never>

  init(target: Target, makers: [RequestMaker], length: RunLength, continuation: CheckedContinuation<Measurement, Never>) {
    self.target = target
    self.makers = makers
    self.length = length
    self.continuation = continuation
  }
}

private func generatorThread(_ context: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
  guard let context else { return nil }
  let job = Unmanaged<Job>.fromOpaque(context).takeRetainedValue()
  var generator = Generator(job.target, job.makers)
  job.continuation.resume(returning: generator.run(job.length))
  return nil
}
