// Random edits of three devices of two users in two zones, while the network loses, delays and cuts, and workers are
// killed.

import Foundation
import HTTPClient
import Synchronization
import Testing

@Suite(
  .serialized,
  .enabled(
    if: FaultyNetwork.isPossible,
    "network namespaces take root, CAP_SYS_ADMIN, CAP_NET_ADMIN, /dev/net/tun and a C compiler"))
struct FaultyRunTests {
  /// Unit: seconds. AQUIFER_FAULTY_RUN_SECONDS makes it longer.
  private static let length =
    ProcessInfo.processInfo.environment["AQUIFER_FAULTY_RUN_SECONDS"].flatMap(Double.init) ?? 20

  /// A device that edits tags of its own, whose expected state is therefore known, on two posts that it shares with
  /// others.
  private final class Editor: Sendable {
    struct State: Sendable {
      var random: UInt64
      /// Acknowledged names of tags, and the posts that each is linked with.
      var names: [String: String] = [:]
      var links: [String: Set<String>] = [:]
      var count = 0
      var retries = 0
    }

    let device: Device
    let posts: [String]
    private let state: Mutex<State>
    var known: State { state.withLock { $0 } }

    init(_ device: Device, posts: [String], seed: UInt64) {
      (self.device, self.posts) = (device, posts)
      state = Mutex(State(random: seed))
    }

    func run(until end: ContinuousClock.Instant) async throws {
      while ContinuousClock.now < end {
        guard try await edit() else { return }
        try await Task.sleep(for: .milliseconds(20))
      }
    }

    private static func below(_ limit: Int, _ state: inout State) -> Int {
      state.random = state.random &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return Int(state.random >> 33) % limit
    }

    /// Makes one edit, repeated as the same transaction until it is acknowledged.
    private func edit() async throws -> Bool {
      let (change, next) = state.withLock { decide($0) }
      let body = Device.transactions([change], id: UUID().uuidString)
      let end = ContinuousClock.now + .seconds(60)
      while true {
        do {
          let answer = try await device.send("POST", "/transactions", body)
          if answer.status == 200 {
            state.withLock { state in
              let retries = state.retries
              state = next
              (state.retries, state.count) = (retries, state.count + 1)
            }
            return true
          }
          guard answer.status == 503 else { throw Unexpected("\(answer.status) \(answer.text)") }
        } catch is HTTPClientError {
          // Dropped because a broken connection leaves the outcome open; the transaction is sent again.
        }
        state.withLock { $0.retries += 1 }
        guard ContinuousClock.now < end else { throw Unexpected("an edit was not acknowledged within a minute") }
        try await Task.sleep(for: .milliseconds(20))
      }
    }

    /// - Returns: a change, and the expected state after its acknowledgement.
    private func decide(_ state: State) -> (change: Value, next: State) {
      var next = state
      let tags = state.names.keys.sorted()
      let choice = tags.count < 3 ? 0 : Self.below(10, &next)
      let tag = tags.isEmpty ? "" : tags[Self.below(tags.count, &next)]
      switch choice {
      case 0...3:
        let (tag, name) = (UUID().uuidString, "tag \(state.count)")
        next.names[tag] = name
        next.links[tag] = [posts[0]]
        return (MainJob.insert("Tag", tag, ["name": .string(name)], ["posts": [.string(posts[0])]]), next)
      case 4...5:
        next.names[tag] = "renamed \(state.count)"
        return (MainJob.update("Tag", tag, ["name": .string("renamed \(state.count)")]), next)
      case 6...8:
        // Links and unlinks. The first link stays, so that the tag's zone is known.
        let isLinked = state.links[tag]?.contains(posts[1]) == true
        next.links[tag] = isLinked ? [posts[0]] : Set(posts)
        return (
          MainJob.update("Tag", tag, [:], ["posts": .array((isLinked ? [posts[0]] : posts).map(Value.string))]), next
        )
      default:
        next.names[tag] = nil
        next.links[tag] = nil
        return (MainJob.delete("Tag", tag), next)
      }
    }
  }

  private static func post(_ title: String, in device: Device) async throws -> String {
    let id = UUID().uuidString
    try await device.save([MainJob.insert("Post", id, ["title": .string(title)])])
    return id
  }

  /// Two posts connected by one tag.
  private static func posts(_ title: String, in device: Device) async throws -> [String] {
    let posts = [try await post(title, in: device), try await post(title, in: device)]
    try await device.save([
      MainJob.insert("Tag", UUID().uuidString, ["name": "connects"], ["posts": .array(posts.map(Value.string))])
    ])
    return posts
  }

  @Test(.timeLimit(.minutes(60)), arguments: [7] as [UInt64])
  func
    `T-X01 after random edits under faults of network and workers all devices have the graph that was acknowledged`(
      _ seed: UInt64
    ) async throws
  {
    try await NetworkedInstallation.run(seed: seed) { installation in
      let users = try await installation.app.usersApart(["alice", "bob"])
      let (phone, laptop) = (try await users[0].device("phone"), try await users[0].device("laptop"))
      let own = try await Self.posts("own", in: phone)
      let shared = try await Self.posts("shared", in: phone)
      let share = try await phone.call(
        "POST", "/shares",
        ["objectIDs": [.string(shared[0])], "to": .null, "title": "Trip", "publicPermission": "READ_WRITE"])
      let tablet = try await users[1].device("tablet", in: "shared")
      try await tablet.call("POST", "/accept", ["shortGUIDs": [["value": share["share"]["shortGUID"]]]])
      // Each device imports the posts before it edits.
      for device in [phone, laptop, tablet] { _ = try await device.changes() }

      let editors = [
        Editor(phone, posts: shared, seed: seed), Editor(laptop, posts: own, seed: seed &+ 1),
        Editor(tablet, posts: shared, seed: seed &+ 2),
      ]
      let end = ContinuousClock.now + .seconds(Self.length)
      try await withThrowingTaskGroup(of: Void.self) { group in
        for editor in editors { group.addTask { try await editor.run(until: end) } }
        var round = 0
        while ContinuousClock.now < end {
          try await Self.disturb(installation, round)
          round += 1
        }
        try installation.network.heal()
        try await group.waitForAll()
      }
      for editor in editors { #expect(editor.known.count > 10, "\(editor.known)") }
      try await Self.compare(editors, own + shared, users)
    }
  }

  /// Permanent loss and delay; partitions and kills in turn.
  private static func disturb(_ installation: NetworkedInstallation, _ round: Int) async throws {
    let names = NetworkedInstallation.names
    try installation.network.heal()
    for (index, one) in names.enumerated() {
      for other in names[..<index] { try installation.network.link(one, other, delay: 4, jitter: 8, loss: 20) }
    }
    try await Task.sleep(for: .milliseconds(800))
    let worker = "worker-\(1 + round % 2)"
    switch round % 3 {
    case 0: try installation.network.cut("gateway-1", worker)
    case 1: try await installation.replace(worker)
    default: try installation.network.cut(worker, "share-1")
    }
    try await Task.sleep(for: .milliseconds(1200))
  }

  /// Compares new devices and the zones' records with the acknowledged edits.
  private static func compare(_ editors: [Editor], _ posts: [String], _ users: [User]) async throws {
    func expected(_ editors: [Editor]) -> (names: [String: String], pairs: Set<Graph.Pair>) {
      var names: [String: String] = [:]
      var pairs: Set<Graph.Pair> = []
      for editor in editors {
        names.merge(editor.known.names) { $1 }
        for (tag, links) in editor.known.links { for post in links { pairs.insert(Graph.Pair(tag, post)) } }
      }
      return (names, pairs)
    }
    for (user, database, editors) in [(users[0], "private", editors), (users[1], "shared", [editors[0], editors[2]])] {
      let (names, pairs) = expected(editors)
      var graph = Graph()
      // Until all exports and forwards are done.
      for _ in 0..<300 {
        graph = try await user.device("new", in: database).importedGraph().graph
        if Self.names(graph) == names && Self.pairs(graph) == pairs { break }
        try await Task.sleep(for: .milliseconds(100))
      }
      #expect(Self.names(graph) == names, "\(database)")
      #expect(Self.pairs(graph) == pairs, "\(database)")
    }
    // Every link record's ends are in its zone.
    for zone in try await users[0].records("zones/list", [:])["zones"].elements.compactMap({
      $0["zoneID"]["zoneName"].string
    }) where zone != "_defaultZone" {
      let records = try await users[0].allRecords(in: zone).records
      for (name, record) in records where record["recordType"] == "CDMR" {
        let ends = record["fields"]["CD_recordNames"]["value"].string?.split(separator: ":").map(String.init) ?? []
        #expect(ends.count == 2 && ends.allSatisfy { records[$0] != nil }, "\(name) in \(zone) links \(ends)")
      }
    }
  }

  /// The names of tags that editors made.
  private static func names(_ graph: Graph) -> [String: String] {
    graph.objects.filter { $0.value.entity == "Tag" }.compactMapValues { $0.attributes["name"]?.string }.filter {
      $0.value != "connects"
    }
  }

  private static func pairs(_ graph: Graph) -> Set<Graph.Pair> {
    let tags = names(graph)
    return graph.pairs.filter { pair in pair.ends.contains { tags[$0] != nil } }
  }
}
