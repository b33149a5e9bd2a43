import Glibc
import HTTPClient
import JSON
import Records
import ServiceBus
import Testing
import WebServices

@testable import Notifier

struct EventStreamTests {
  @Test func `a ping reaches the user's other devices and nobody else`() async throws {
    let world = try await NotifierWorld()
    let origin = try await world.listen("ann", devices: ["A1"])
    let other = try await world.listen("ann", devices: ["A2"])
    let participant = try await world.listen("bob")
    let stranger = try await world.listen("cid")
    let elsewhere = try await world.listen("ann", container: "iCloud.b")
    let production = try await world.listen("ann", environment: "production")
    #expect(other.head["content-type"] == "text/event-stream")
    #expect(other.head["access-control-allow-origin"] == "*")

    try await world.push(owner: "ann", zone: "Trips", sequence: 5, origin: "A1", audience: ["ann", "bob"])
    #expect(try await other.ping() == "1 Trips ann t5")
    #expect(try await participant.ping() == "2 Trips ann t5")
    // A public ping for all marks the end: a listener that was left out before sees only this one.
    try await world.push(owner: DatabaseID.publicOwner, zone: "_defaultZone", sequence: 1, audience: [])
    for events in [origin, other, participant, stranger] {
      #expect(try await events.ping() == "0 _defaultZone __public__ t1")
    }
    for (events, container, environment) in [
      (elsewhere, "iCloud.b", Environment.development), (production, "iCloud.a", .production),
    ] {
      try await world.push(owner: "ann", zone: "Own", sequence: 2, container: container, environment: environment)
      #expect(try await events.ping() == "1 Own ann t2")
    }
    #expect(try await world.metric("aquifer_held_connections{kind=\"events\"}") == 6)
    #expect(try await world.metric("aquifer_pings_sent_total{kind=\"events\"}") == 8)
    await world.stop()
  }

  @Test func `one stream serves several stores, and none of them hears of its own changes`() async throws {
    let world = try await NotifierWorld()
    let both = try await world.listen("ann", devices: ["private", "shared", "private"])
    let other = try await world.listen("ann", devices: ["elsewhere"])
    for (sequence, origin) in [(1, "private"), (2, "shared")] as [(Int64, String)] {
      try await world.push(owner: "ann", zone: "Trips", sequence: sequence, origin: origin)
      #expect(try await other.ping() == "1 Trips ann t\(sequence)")
    }
    // What another store changes comes first, because nothing came before.
    try await world.push(owner: "ann", zone: "Notes", sequence: 3, origin: "elsewhere")
    #expect(try await both.ping() == "1 Notes ann t3")
    await world.stop()
  }

  @Test func `a stream has at most 32 devices, and a further one is refused`() async throws {
    let world = try await NotifierWorld()
    let names = (0..<32).map { "D\($0)" }
    let full = try await world.listen("ann", devices: names + names)
    for name in [names[0], names[31]] { try await world.push(owner: "ann", zone: "Own", origin: name) }
    try await world.push(owner: "ann", zone: "Others", sequence: 9, origin: "D32")
    #expect(try await full.ping() == "1 Others ann t9")
    let refused = try await world.client.send("GET", world.pingsURL("ann", devices: names + ["D32"]))
    let error = try JSONValue(parsing: refused.body)
    #expect(refused.status == 400 && error["serverErrorCode"]?.string == "BAD_REQUEST")
    #expect(error["reason"]?.string == "device: a stream has at most 32 devices; open another one for further ones.")
    #expect(try await world.metric("aquifer_held_connections{kind=\"events\"}") == 1)
    await world.stop()
  }

  @Test func `the bearer form of credentials is accepted`() async throws {
    let world = try await NotifierWorld()
    let stream = try await world.client.stream(
      "\(world.url)/mirror/1/iCloud.a/development/pings", headers: [.init("Authorization", "bearer token-ann")])
    let events = Events(stream)
    #expect(try await events.next() == ": connected")
    try await world.push(owner: "ann")
    #expect(try await events.ping() == "1 Z ann t1")
    await world.stop()
  }

  @Test func `wrong credentials and addresses are refused in the error form`() async throws {
    let world = try await NotifierWorld()
    for (path, status, code) in [
      ("/mirror/1/iCloud.a/development/pings", 401, "AUTHENTICATION_FAILED"),
      ("/mirror/1/iCloud.a/development/pings?ckAPIToken=wrong&ckWebAuthToken=token-ann", 401, "AUTHENTICATION_FAILED"),
      ("/mirror/1/iCloud.a/development/pings?ckAPIToken=api", 421, "AUTHENTICATION_REQUIRED"),
      ("/mirror/1/iCloud.a/development/pings?ckAPIToken=api&ckWebAuthToken=nonsense", 421, "AUTHENTICATION_REQUIRED"),
      ("/mirror/1/iCloud.gone/development/pings?ckAPIToken=api&ckWebAuthToken=token-ann", 404, "NOT_FOUND"),
      ("/mirror/1/iCloud.a/staging/pings?ckAPIToken=api&ckWebAuthToken=token-ann", 400, "BAD_REQUEST"),
      ("/mirror/1/a%20b/development/pings?ckAPIToken=api&ckWebAuthToken=token-ann", 400, "BAD_REQUEST"),
      ("/mirror/1/iCloud.a/development/pings?x=%ff", 400, "BAD_REQUEST"),
      ("/mirror/2/iCloud.a/development/pings", 404, "NOT_FOUND"),
      ("/courier/1/nonsense", 404, "NOT_FOUND"),
      ("/", 404, "NOT_FOUND"),
    ] {
      let answer = try await world.client.send("GET", world.url + path)
      #expect(answer.status == status, "\(path)")
      let error = try JSONValue(parsing: answer.body)
      #expect(error["serverErrorCode"]?.string == code, "\(path)")
      #expect(error["uuid"]?.string?.count == 36)
      #expect(error["reason"]?.string?.isEmpty == false)
      #expect(answer["access-control-allow-origin"] == "*")
    }
    #expect(try await world.client.send("POST", world.pingsURL("ann")).status == 405)
    #expect(try await world.metric("aquifer_held_connections{kind=\"events\"}") == 0)
    await world.stop()
  }

  @Test func `a preflight is answered and an origin the API token does not allow is not`() async throws {
    let world = try await NotifierWorld()
    let preflight = try await world.client.send(
      "OPTIONS", world.pingsURL("ann"), headers: [.init("Origin", "https://app.example")])
    #expect(preflight.status == 204)
    #expect(preflight["access-control-allow-methods"]?.contains("GET") == true)
    world.directory.allowOnly("https://app.example")
    let allowed = try await world.client.stream(
      world.pingsURL("ann"), headers: [.init("Origin", "https://app.example")])
    #expect(allowed.head["access-control-allow-origin"] == "https://app.example")
    #expect(allowed.head["x-apple-request-uuid"]?.count == 36)
    let refused = try await world.client.send(
      "GET", world.pingsURL("ann"), headers: [.init("Origin", "https://evil.example")])
    #expect(refused.status == 403)
    #expect(try JSONValue(parsing: refused.body)["serverErrorCode"]?.string == "ACCESS_DENIED")
    await world.stop()
  }

  @Test func `credentials are asked for once, and again when the directory changed`() async throws {
    let world = try await NotifierWorld()
    for _ in 0..<3 { _ = try await world.listen("ann") }
    #expect(world.directory.askedCount == 1)
    try await world.announceCredentials()
    _ = try await world.listen("ann")
    #expect(world.directory.askedCount >= 2)
    await world.stop()
  }

  @Test func `a stream whose credentials are revoked ends, others go on`() async throws {
    let world = try await NotifierWorld(["--heartbeat=0.4"])
    let revoked = try await world.listen("ann")
    let valid = try await world.listen("bob")
    world.directory.revoke("token-ann")
    try await world.announceCredentials()
    while try await revoked.next() != nil {}
    try await world.push(owner: "bob")
    #expect(try await valid.ping() == "1 Z bob t1")
    await world.stop()
  }

  @Test func `a stream whose credentials are revoked ends also when the message about it was lost`() async throws {
    let world = try await NotifierWorld { $0.recheck = .milliseconds(40) }
    world.directory.forgetAtOnce()
    let revoked = try await world.listen("ann")
    let valid = try await world.listen("bob")
    world.directory.revoke("token-ann")
    while try await revoked.next() != nil {}
    try await world.push(owner: "bob")
    #expect(try await valid.ping() == "1 Z bob t1")
    await world.stop()
  }

  @Test func `a silent stream shows that it lives`() async throws {
    let world = try await NotifierWorld(["--heartbeat=0.1"])
    let events = try await world.listen("ann")
    #expect(try await events.next() == ": ")
    #expect(try await events.next() == ": ")
    await world.stop()
  }

  @Test func `a device that hangs up is forgotten`() async throws {
    let world = try await NotifierWorld()
    var events: Events? = try await world.listen("ann")
    #expect(try await world.metric("aquifer_held_connections{kind=\"events\"}") == 1)
    _ = events
    events = nil
    #expect(try await world.eventually { try await world.metric("aquifer_held_connections{kind=\"events\"}") == 0 })
    await world.stop()
  }

  @Test func `a stalled reader holds one ping a zone and then gets the latest of each`() async throws {
    let world = try await NotifierWorld()
    let stalled = try StalledReader(world.pingsURL("ann"))
    #expect(try await world.eventually { try await world.metric("aquifer_held_connections{kind=\"events\"}") == 1 })
    let container = try #require(ContainerID(rawValue: "iCloud.a"))
    let (zoneCount, roundCount) = (50, 100)
    // Long tokens, so that few changes fill the kernel's buffers for a connection (some 4 MB).
    let padding = String(repeating: "x", count: 4000)
    for round in 1...roundCount {
      try await world.push(
        (0..<zoneCount).map { zone in
          ZoneChange(
            database: DatabaseID(container: container, environment: .development, owner: "ann"), zoneName: "Z\(zone)",
            sequence: Int64(round),
            syncToken: "t\(round) \(padding)", originStore: nil, audience: ["ann"])
        })
    }
    // 5 000 changes are 20 MB; the kernel accepted a part, the rest was merged.
    let coalesced = try #require(try await world.metric("aquifer_pings_coalesced_total"))
    let sent = try #require(try await world.metric("aquifer_pings_sent_total{kind=\"events\"}"))
    #expect(coalesced > zoneCount * roundCount / 2)
    #expect(sent + coalesced <= zoneCount * roundCount)
    #expect(sent + coalesced >= zoneCount * roundCount - zoneCount)
    #expect(try await world.metric("aquifer_pings_dropped_total") == 0)
    let last = try await stalled.latestTokens(until: {
      $0.count == zoneCount && $0.values.allSatisfy { $0 == "t\(roundCount) \(padding)" }
    })
    #expect(last.count == zoneCount)
    #expect(last.values.allSatisfy { $0.hasPrefix("t\(roundCount) ") })
    await world.stop()
  }

  @Test func `without the directory devices are told to come back`() async throws {
    let world = try await NotifierWorld(hasShare: false)
    let answer = try await world.client.send("GET", world.pingsURL("ann"))
    #expect(answer.status == 503)
    #expect(answer["retry-after"] == "1")
    await world.stop()
  }

  @Test func `a drain ends every stream and answers every poll`() async throws {
    let world = try await NotifierWorld()
    var streams: [Events] = []
    for index in 0..<30 { streams.append(try await world.listen("user\(index)")) }
    let polls = try (0..<30).map { index in
      let url = try world.courierURL("user\(index)")
      return Task { try await world.client.send("GET", url, timeout: .seconds(60)) }
    }
    #expect(try await world.eventually { try await world.metric("aquifer_held_connections{kind=\"courier\"}") == 30 })
    await world.stop()
    // Until the end there are only heartbeats.
    for events in streams {
      while let event = try await events.next() { #expect(event == ": ") }
    }
    for poll in polls {
      let answer = try await poll.value
      #expect(answer.status == 200)
      #expect(answer.body.isEmpty)
    }
  }
}

/// Opens a stream with a small window and does not read it until asked.
final class StalledReader: Sendable {
  private let fd: Int32

  init(_ url: String) throws {
    let rest = url.dropFirst("http://127.0.0.1:".count)
    let port = try #require(UInt16(rest.prefix { $0 != "/" }))
    fd = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    // With less than a segment on loopback the kernel's persist timer would drive the transfer.
    var size: Int32 = 262_144
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, socklen_t(MemoryLayout<Int32>.size))
    var time = timeval(tv_sec: 30, tv_usec: 0)
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, socklen_t(MemoryLayout<timeval>.size))
    var name = sockaddr_in()
    name.sin_family = sa_family_t(AF_INET)
    name.sin_port = port.bigEndian
    name.sin_addr.s_addr = in_addr_t(0x7f00_0001).bigEndian
    let code = withUnsafeBytes(of: &name) {
      connect(fd, $0.assumingMemoryBound(to: sockaddr.self).baseAddress, socklen_t($0.count))
    }
    try #require(code == 0)
    let request = Array("GET \(rest.drop { $0 != "/" }) HTTP/1.1\r\nHost: h\r\n\r\n".utf8)
    try #require(send(fd, request, request.count, 0) == request.count)
  }

  deinit { close(fd) }

  /// Reads pings until the latest tokens by zone satisfy a condition.
  func latestTokens(until isDone: @escaping @Sendable ([String: String]) -> Bool) async throws -> [String: String] {
    let fd = fd
    return try await withCheckedThrowingContinuation { continuation in
      // On a thread of its own: a blocked test would take one of the two threads of the pool.
      startThread {
        var tokens: [String: String] = [:]
        var stream = ChunkedStream()
        var text: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while !isDone(tokens) {
          let count = recv(fd, &buffer, buffer.count, 0)
          guard count > 0 else { break }
          text += stream.take(buffer[..<count])
          var start = 0
          while let end = text[start...].firstIndex(of: 10) {
            let line = text[start..<end]
            start = end + 1
            guard line.starts(with: "data: ".utf8),
              let met = try? JSONValue(parsing: Array(line.dropFirst(6)))["ck"]?["met"]
            else { continue }
            tokens[met["zid"]?.string ?? ""] = met["tok"]?.string
          }
          text.removeFirst(start)
        }
        continuation.resume(returning: tokens)
      }
    }
  }
}

/// Removes the chunk framing from an answer as its bytes arrive.
private struct ChunkedStream {
  private var bytes: [UInt8] = []
  private var hasHead = false

  mutating func take(_ more: ArraySlice<UInt8>) -> [UInt8] {
    bytes += more
    var body: [UInt8] = []
    if !hasHead {
      guard let end = bytes.firstRange(of: Array("\r\n\r\n".utf8)) else { return [] }
      bytes.removeFirst(end.upperBound)
      hasHead = true
    }
    while let end = bytes.firstIndex(of: 13),
      let length = Int(String(decoding: bytes[..<end], as: UTF8.self), radix: 16), bytes.count >= end + length + 4
    {
      body += bytes[(end + 2)..<(end + 2 + length)]
      bytes.removeFirst(end + length + 4)
    }
    return body
  }
}

private func startThread(_ work: @escaping @Sendable () -> Void) {
  final class Box: Sendable {
    let work: @Sendable () -> Void
    init(_ work: @escaping @Sendable () -> Void) { self.work = work }
  }
  var thread = pthread_t()
  let code = pthread_create(
    &thread, nil,
    { pointer in
      guard let pointer else { return nil }
      Unmanaged<Box>.fromOpaque(pointer).takeRetainedValue().work()
      return nil
    }, Unmanaged.passRetained(Box(work)).toOpaque())
  precondition(code == 0, "no thread: \(code)")
  pthread_detach(thread)
}
