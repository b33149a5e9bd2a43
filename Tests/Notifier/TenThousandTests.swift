// As many devices as the limit of open files allows, on one notifier: each gets every ping once.

import Glibc
import HTTPServer
import Records
import ServiceBus
import ServiceKit
import Testing

@testable import Notifier

@Suite(.timeLimit(.minutes(2))) struct TenThousandTests {
  /// Listening devices, connected from this process, which also runs the notifier.
  private final class Crowd: Sendable {
    let sockets: [Int32]

    /// Blocks. Connects a part at a time, because the server's backlog is limited.
    init(_ count: Int, port: UInt16, request: [UInt8]) throws {
      var sockets: [Int32] = []
      while sockets.count < count {
        let part = try (0..<min(256, count - sockets.count)).map { _ in try Self.connect(port, request) }
        for socket in part {
          while try !Self.read(socket).contains(": connected") {}
        }
        sockets += part
      }
      self.sockets = sockets
    }

    deinit { for socket in sockets { close(socket) } }

    private static func connect(_ port: UInt16, _ request: [UInt8]) throws -> Int32 {
      let fd = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
      try #require(fd >= 0, "out of descriptors")
      var address = sockaddr_in()
      address.sin_family = sa_family_t(AF_INET)
      address.sin_port = port.bigEndian
      address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
      let connected = withUnsafeBytes(of: &address) {
        Glibc.connect(fd, $0.assumingMemoryBound(to: sockaddr.self).baseAddress, socklen_t($0.count))
      }
      try #require(connected == 0 && send(fd, request, request.count, 0) == request.count)
      return fd
    }

    private static func read(_ socket: Int32) throws -> String {
      var buffer = [UInt8](repeating: 0, count: 4096)
      let count = recv(socket, &buffer, buffer.count, 0)
      try #require(count > 0, "the notifier closed a stream")
      return String(decoding: buffer[..<count], as: UTF8.self)
    }

    /// The zones in each device's pings, in order, up to the ping of the zone `last`. Blocks.
    func zones(through last: String) throws -> [[String]] {
      try sockets.map { socket in
        var text = ""
        while !text.contains(#""zid":"\#(last)""#) || !text.hasSuffix("\n\n\r\n") { text += try Self.read(socket) }
        return text.split(separator: #""zid":""#).dropFirst().map { String($0.prefix { $0 != "\"" }) }
      }
    }
  }

  @Test func `as many connections as memory holds, or as were asked for`() {
    #expect(Notifier.connectionLimit(memoryByteCount: 256 << 20) == 16_384)
    #expect(Notifier.connectionLimit(memoryByteCount: 512 << 20) > 20_000)
  }

  /// The most files that this process may have open, once the limit is raised to it.
  private func fileLimit() -> Int {
    var limit = rlimit()
    getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    limit.rlim_cur = limit.rlim_max
    setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    return Int(clamping: limit.rlim_cur)
  }

  @Test func `devices leave files to the connections of pushes`() async throws {
    let files = fileLimit()
    let world = try await NotifierWorld(["--memory=512"])
    let running = try #require(world.running.service as? RunningNotifier)
    #expect(running.server.connectionLimit + running.notifier.limits.pushes.connectionCount <= max(files - 384, 1))
    await world.stop()
  }

  @Test func `ten thousand streams of one user, or as many as files allow, get every ping once, and other users' none`()
    async throws
  {
    // Both ends of each connection are in this process, and other tests run in parallel.
    let count = min(10_000, (fileLimit() - 1000) / 2)
    let world = try await NotifierWorld(["--user-devices=10000", "--connections-per-address=0"])
    let address = try #require(world.url.split(separator: ":").last.flatMap { UInt16($0) })
    let request = Array(
      "GET /mirror/1/iCloud.a/development/pings?ckAPIToken=api&ckWebAuthToken=token-ann HTTP/1.1\r\nHost: h\r\n\r\n"
        .utf8)
    let crowd = try await onOwnThread { try Crowd(count, port: address, request: request) }
    #expect(try await world.metric(#"aquifer_held_connections{kind="events"}"#) == count)
    try await world.push(owner: "ann", zone: "A", sequence: 1)
    try await world.push(owner: "bob", zone: "Other", sequence: 1)
    try await world.push(owner: "ann", zone: "B", sequence: 2)
    try await world.push(owner: "ann", zone: "Last", sequence: 3)
    let told = try await onOwnThread { try crowd.zones(through: "Last") }
    let wrong = told.filter { $0 != ["A", "B", "Last"] }
    #expect(told.count == count && wrong.isEmpty, "\(wrong.count) of \(count), such as \(wrong.first ?? [])")
    #expect(try await world.metric(#"aquifer_pings_sent_total{kind="events"}"#) == count * 3)
    await world.stop()
  }

  /// Runs blocking work on a thread of its own.
  private func onOwnThread<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) async throws -> Value {
    try await withCheckedThrowingContinuation { continuation in
      let job = Unmanaged.passRetained(Job { continuation.resume(with: Result { try body() }) })
      var thread = pthread_t()
      let created = pthread_create(
        &thread, nil,
        { context in
          guard let context else { return nil }
          Unmanaged<Job>.fromOpaque(context).takeRetainedValue().run()
          return nil
        }, job.toOpaque())
      precondition(created == 0, "no thread is left (error \(created))")
      pthread_detach(thread)
    }
  }

  private final class Job: Sendable {
    let run: @Sendable () -> Void
    init(_ run: @escaping @Sendable () -> Void) { self.run = run }
  }
}
