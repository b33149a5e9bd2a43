import InMemoryServiceBus
import JSON
import Records
import ServiceBus
import ServiceKit
import Testing

@testable import Notifier

struct SentPingsTests {
  private static func pings(of world: NotifierWorld, _ change: (inout FetchPings) -> Void) async throws -> [JSONValue] {
    var question = FetchPings(limit: 10)
    change(&question)
    let answer = try await world.share.call(question, body: [], to: .role(.notifier), within: .seconds(20))
    return try JSONValue(parsing: answer.body)["pings"]?.elements ?? []
  }

  @Test func `operators see each ping with its zone, its reason and the devices that heard it`() async throws {
    let world = try await NotifierWorld()
    let heard = try await world.listen("ann", devices: ["tablet", "widget"])
    try await world.push(owner: "ann", zone: "Trips", sequence: 5, origin: "phone")
    _ = try await heard.ping()
    try await world.push(owner: "bob", zone: "Own", sequence: 9)
    try await world.push(owner: DatabaseID.publicOwner, zone: "_defaultZone", sequence: 2, audience: [])
    let anns = try await Self.pings(of: world) { $0.userRecordName = "ann" }
    #expect(anns.map { $0["zone"]?.string } == ["Trips", "_defaultZone"])
    #expect(anns[0]["owner"]?.string == "ann" && anns[0]["sequence"]?.int64 == 5)
    #expect(anns[0]["origin"]?.string == "phone" && anns[0]["reason"]?.string == "zone")
    #expect(anns[0]["listeners"]?.int64 == 1)
    #expect(anns[0]["devices"]?.elements.map(\.string) == ["tablet", "widget"])
    let bobs = try await Self.pings(of: world) { $0.owner = "bob" }
    #expect(bobs.map { $0["listeners"]?.int64 } == [0] && bobs[0]["devices"]?.count == 0)
    // A question that names the last ping it knows gets the later ones.
    let name = world.running.bus.own.name
    let later = try await Self.pings(of: world) { $0.after[name] = anns[0]["number"]?.int64 }
    #expect(later.map { $0["zone"]?.string } == ["Own", "_defaultZone"])
    #expect(try await Self.pings(of: world) { $0.container = "iCloud.b" }.isEmpty)
    await world.stop()
  }

  @Test func `the ring keeps the latest pings, and their numbers rise even if the clock goes back`() throws {
    let container = try #require(ContainerID(rawValue: "iCloud.a"))
    let database = DatabaseID(container: container, environment: .development, owner: "ann")
    var ring = SentPings()
    let count = SentPings.limit + 100
    for sequence in 1...Int64(count) {
      let change = ZoneChange(
        database: database, zoneName: "Z", sequence: sequence, syncToken: "t", originStore: nil, audience: ["ann"])
      let now = 1_000_000 - sequence
      ring.add(at: now) { SentPing(change, to: Recipients(), number: $0, at: now) }
    }
    let kept = ring.latest(for: FetchPings(limit: .max), of: "n")
    #expect(kept.map(\.sequence) == Array(101...Int64(count)))
    #expect(zip(kept, kept.dropFirst()).allSatisfy { $0.number < $1.number })
    #expect(ring.latest(for: FetchPings(limit: 3), of: "n").map(\.sequence) == Array(Int64(count - 2)...Int64(count)))
    #expect(SentPings().latest(for: FetchPings(limit: 3), of: "n").isEmpty)
  }
}
