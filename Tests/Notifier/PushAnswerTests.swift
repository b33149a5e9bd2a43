// What vendors are told about merging and storing, and the pauses that they ask for.

import Crypto
import Dispatch
import FixedClocks
import HTTPClient
import HTTPServer
import Records
import ServiceBus
import Synchronization
import Testing

@testable import Notifier

@Suite struct PushAnswerTests {
  private let vendor = ForgedVendor()
  private let clock = FixedClock()
  private let browser = P256PrivateKey.make().publicPoint

  private func content(_ zone: String, device: String? = nil) throws -> PushContent {
    let change = ZoneChange(
      database: DatabaseID(
        container: try #require(ContainerID(rawValue: "iCloud.a")), environment: .development, owner: "ann"),
      zoneName: zone, sequence: 1, syncToken: "t", originStore: device, audience: ["ann"])
    return PushContent(Ping(change, as: .private, notificationID: "n"), byteLimit: 4096)
  }

  private func sender(_ kind: String, _ server: HTTPServer) -> (any PushSender, PushAddress) {
    sender(kind, port: server.port, HTTPClient())
  }

  private func sender(_ kind: String, port: UInt16, _ client: HTTPClient) -> (any PushSender, PushAddress) {
    let url = "http://127.0.0.1:\(port)"
    switch kind {
    case "apns":
      return (
        APNsSender(
          client: client, clock: clock, teamID: "T", keyID: "K", key: .make(), topic: "org.example.a", url: url),
        .apns(deviceToken: "ab", isSandbox: true)
      )
    case "web":
      return (
        WebPushSender(client: client, clock: clock, contact: "mailto:o@example.org", key: .make()),
        .web(endpoint: url + "/p", receiverKey: browser, secret: [UInt8](repeating: 1, count: 16))
      )
    default:
      return (WebhookSender(client: client, clock: clock), .webhook(url: url + "/h", secret: "sixteen letters"))
    }
  }

  @Test(arguments: [("apns", "apns-collapse-id"), ("web", "topic")])
  func `pushes of one zone merge at the vendor, and those of two don't`(kind: String, header: String) async throws {
    let server = try HTTPServer(handler: vendor)
    let (sender, address) = sender(kind, server)
    for zone in ["Trips", "Trips", "Other"] { _ = await sender.send(try content(zone), to: address, of: "_alice") }
    let names = vendor.take().map { $0.headers[header] }
    #expect(names.count == 3 && names[0] != nil && names[0] == names[1] && names[1] != names[2])
  }

  @Test func `Apple keeps a push for a day for a device that is off`() async throws {
    let server = try HTTPServer(handler: vendor)
    let (sender, address) = sender("apns", server)
    _ = await sender.send(try content("Trips"), to: address, of: "_alice")
    #expect(vendor.take().first?.headers["apns-expiration"] == "\(clock.now / 1000 + 86_400)")
  }

  @Test(arguments: ["apns", "web", "webhook"], [429, 503])
  func `the pause that a vendor asks for is kept, and a senseless one is none`(kind: String, status: Int) async throws {
    let server = try HTTPServer(handler: vendor)
    let (sender, address) = sender(kind, server)
    let asked: [(String, Duration?)] = [
      ("7", .seconds(7)), ("0", .zero), ("86400", .seconds(86_400)), ("86401", nil), ("-1", nil),
      ("Fri, 27 Nov 2026 09:00:00 GMT", nil), ("x", nil),
    ]
    for (text, pause) in asked {
      vendor.answer(status, headers: [("Retry-After", text)])
      let outcome = await sender.send(try content("Trips"), to: address, of: "_alice")
      // The host of a browser's service, or of a webhook, is one that a client has named.
      let failure: PushLine.Failure = status == 429 ? .device : kind == "apns" ? .service : .address
      #expect(outcome == .later(failure, pause: pause, reason: "status \(status)"), "\(text)")
    }
  }

  @Test(arguments: ["web", "webhook"])
  func `a host that answers too much fails at that address, and one that takes no connection is away for all`(
    kind: String
  ) async throws {
    let server = try HTTPServer(handler: vendor)
    vendor.answer(404, String(repeating: "a", count: 3000))
    let client = HTTPClient(bodyByteLimit: 2000)
    // Nobody listens on port 1.
    for (port, failure) in [(server.port, PushLine.Failure.address), (1, .service)] {
      let (sender, address) = sender(kind, port: port, client)
      let outcome = await sender.send(try content("Trips"), to: address, of: "_alice")
      guard case .later(failure, nil, _) = outcome else {
        Issue.record("\(outcome)")
        continue
      }
    }
  }

  @Test(arguments: ["web", "webhook"])
  func `a user's own slow hosts delay their push to another host, and do not pause that host`(kind: String)
    async throws
  {
    let gate = DispatchSemaphore(value: 0)
    defer { gate.signal() }
    let lookupCount = Mutex(0)
    let resolver = NameResolver(reach: .everywhere, limit: .milliseconds(20)) { _ in
      lookupCount.withLock { $0 += 1 }
      gate.wait()
      gate.signal()
      return []
    }
    let client = HTTPClient(resolver: resolver)
    let sender: any PushSender =
      kind == "web"
      ? WebPushSender(client: client, clock: clock, contact: "mailto:o@example.org", key: .make())
      : WebhookSender(client: client, clock: clock)
    func send(to host: String, of user: String) async throws -> PushOutcome {
      let address: PushAddress =
        kind == "web"
        ? .web(endpoint: "http://\(host)/p", receiverKey: browser, secret: [UInt8](repeating: 1, count: 16))
        : .webhook(url: "http://\(host)/h", secret: "sixteen letters")
      return await sender.send(try content("Trips"), to: address, of: user)
    }
    // Each of the user's threads has a name that nobody resolves.
    var number = 0
    while lookupCount.withLock(\.self) < 2 {
      number += 1
      _ = try await send(to: "\(number).example", of: "_alice")
    }
    #expect(
      try await send(to: "shared.example", of: "_alice")
        == .later(.device, pause: nil, reason: "Too many names of hosts are being resolved."))
    // A thread takes the name for another user.
    while lookupCount.withLock(\.self) < 3 { _ = try await send(to: "shared.example", of: "_bob") }
    #expect(
      try await send(to: "shared.example", of: "_bob")
        == .later(.service, pause: nil, reason: "The host's name was not resolved in time."))
  }

  @Test func `a browser's service gets one token for six hours`() async throws {
    let server = try HTTPServer(handler: vendor)
    let (sender, address) = sender("web", server)
    func token() async throws -> String? {
      _ = await sender.send(try content("Trips"), to: address, of: "_alice")
      return vendor.take().first?.headers["authorization"]
    }
    let first = try await token()
    clock.advance(by: 359 * 60_000)
    #expect(try await token() == first)
    clock.advance(by: 2 * 60_000)
    #expect(try await token() != first)
  }
}
