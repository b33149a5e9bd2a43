// The story of a shared album, from the first photo to the end of the share: three users, their devices, two workers.

import Foundation
import Testing

@Suite(.serialized) struct SharingStoryTests {
  private static let (first, second) = (
    "B0000000-0000-4000-8000-000000000001", "B0000000-0000-4000-8000-000000000002"
  )
  private static let (low, high) = ("1A000000-0000-4000-8000-000000000001", "FB000000-0000-4000-8000-000000000002")

  /// A device with its copy of the graph, as a client library keeps it.
  private final class Person {
    let user: User
    let device: Device
    var graph = Graph()
    private var token = Value.null
    /// Every imported change.
    private(set) var log: [Value] = []

    init(_ user: User, in database: String) async throws {
      self.user = user
      device = try await user.device("phone", in: database)
    }

    @discardableResult
    func pull() async throws -> [Value] {
      let (changes, next) = try await device.changes(after: token)
      for change in changes { try graph.apply(change) }
      token = next
      log += changes
      return changes
    }

    /// Imports until the condition holds, because other users' changes may be on their way.
    func pull(until condition: (Graph) -> Bool, _ place: SourceLocation = #_sourceLocation) async throws {
      for _ in 0..<100 {
        try await pull()
        if condition(graph) { return }
        try await Task.sleep(for: .milliseconds(50))
      }
      Issue.record("what was waited for did not come: \(graph)", sourceLocation: place)
    }

    /// Saves, and applies the user's own edits to the copy.
    func save(_ changes: [Value], _ own: (inout Graph) -> Void = { _ in }) async throws {
      try await device.save(changes)
      own(&graph)
    }
  }

  private static func photo(_ id: String, _ name: String) -> [Value] {
    let data = "C" + id.dropFirst()
    return [
      MainJob.insert("Photo", id, ["displayName": .string(name)], ["photoData": .string(data)]),
      MainJob.insert("PhotoData", data, ["data": MainJob.blob(300, seed: 7)]),
    ]
  }

  /// Adds a photo to a copy.
  private static func have(_ id: String, _ name: String, in graph: inout Graph) {
    let data = "C" + id.dropFirst()
    graph.objects[id] = Graph.Object(
      entity: "Photo", attributes: ["displayName": .string(name)], toOnes: ["photoData": data])
    graph.objects[data] = Graph.Object(
      entity: "PhotoData", attributes: ["data": MainJob.blob(300, seed: 7)], toOnes: ["photo": id])
  }

  /// Changes the share like its owner on the record plane: reads it, and sends it back with its tag.
  private static func change(_ share: Value, of owner: User, _ members: [String: Value], kind: String = "update")
    async throws -> Value
  {
    let zone = share["zoneID"]
    let found = try await owner.records(
      "records/lookup", ["zoneID": zone, "records": [["recordName": share["recordName"]]]])["records"][0]
    var record: [String: Value] = [
      "recordName": share["recordName"], "recordType": "cloudkit.share", "recordChangeTag": found["recordChangeTag"],
    ]
    for (key, value) in members { record[key] = value }
    let answer = try await owner.records(
      "records/modify", ["zoneID": zone, "operations": [["operationType": .string(kind), "record": .object(record)]]])
    guard answer["records"][0]["serverErrorCode"] == .null else {
      throw Unexpected("the share was not changed: \(answer)")
    }
    return answer["records"][0]
  }

  @Test(.timeLimit(.minutes(4)))
  func `T-P01 T-P04 T-P09 T-P10 T-P13 T-D01 an album is shared, seen, rated, tagged, closed and left`() async throws {
    guard let model = sharedModel("CoreDataCloudKitShare.xcdatamodeld") else { return }
    try await Installation.run(workers: 2) { installation in
      let app = try await App(installation, model: model)
      let rules = installation.folder.appending(path: "rules.json")
      try Data(#"{"unique":[{"entity":"Tag","attributes":["name"],"policy":"merge-lowest-uuid"}]}"#.utf8).write(
        to: rules)
      let declared = try await installation.aquifer("rules", "import", rules.path, "--container", app.container)
      #expect(declared.code == 0, "\(declared.problem)")
      let (alice, bob, carol) = (
        try await app.user("alice"), try await app.user("bob", email: "bob@example.org"),
        try await app.user("carol", email: "carol@example.org")
      )
      let (a, b, c) = (
        try await Person(alice, in: "private"), try await Person(bob, in: "shared"),
        try await Person(carol, in: "shared")
      )

      // A adds a photo and shares it.
      try await a.save(Self.photo(Self.first, "Dunes")) { Self.have(Self.first, "Dunes", in: &$0) }
      let bobsPlace: Value = [
        "type": "USER", "permission": "READ_WRITE", "userIdentity": ["lookupInfo": ["emailAddress": "bob@example.org"]],
      ]
      let carolsPlace: Value = [
        "type": "USER", "permission": "READ_ONLY",
        "userIdentity": ["lookupInfo": ["emailAddress": "carol@example.org"]],
      ]
      let shared = try await a.device.call(
        "POST", "/shares",
        ["objectIDs": [.string(Self.first)], "to": nil, "title": "Trip", "participants": [bobsPlace, carolsPlace]])
      let (share, zoneID) = (shared["share"], shared["zoneID"])
      #expect(Set(shared["moved"].elements.compactMap(\.string)) == [Self.first, "C" + Self.first.dropFirst()])
      #expect(zoneID["zoneName"].string?.hasPrefix("com.apple.coredata.cloudkit.share.") == true)
      #expect(
        share["recordName"].string == "cloudkit.zoneshare"
          && share["fields"]["cloudkit.title"]["value"].string == "Trip")
      let zoneName = try #require(zoneID["zoneName"].string)

      // B gets a link, accepts, and sees the photo; other users learn nothing.
      let guid = try #require(share["shortGUID"].string)
      let stranger = try await app.user("mallory")
      let (unknown, missing) = (
        try await stranger.send("records/resolve", ["shortGUIDs": [["value": .string(guid)]]], in: "public"),
        try await stranger.send(
          "records/resolve", ["shortGUIDs": [["value": .string(String(guid.dropLast()) + "0")]]], in: "public")
      )
      #expect(try unknown.json["results"][0]["serverErrorCode"] == missing.json["results"][0]["serverErrorCode"])
      try await b.pull()
      #expect(b.graph == Graph())
      let accepted = try await b.device.call("POST", "/accept", ["shortGUIDs": [["value": .string(guid)]]])
      #expect(accepted["results"][0]["serverErrorCode"] == .null, "\(accepted)")
      try await b.pull { $0.objects.count == 2 }
      var album = a.graph
      #expect(b.graph == album)
      #expect(try await a.pull().allSatisfy { $0["changeType"].string != "delete" })
      #expect(a.graph == album && a.graph.objects[Self.first]?.zone["zoneName"].string == zoneName)

      // A adds another photo to the share, and B sees it.
      try await a.save(Self.photo(Self.second, "Camels")) { Self.have(Self.second, "Camels", in: &$0) }
      let added = try await a.device.call("POST", "/shares", ["objectIDs": [.string(Self.second)], "to": zoneID])
      #expect(added["zoneID"]["zoneName"].string == zoneName)
      Self.have(Self.second, "Camels", in: &album)
      try await b.pull { $0 == album }
      #expect(b.graph == album)

      // B rates and tags it, and A sees both.
      try await b.save([
        MainJob.insert("Rating", "R1", ["value": 5], ["photo": .string(Self.second)]),
        MainJob.insert("Tag", Self.high, ["name": "sand"], ["photos": [.string(Self.second)]]),
      ])
      album.objects["R1"] = Graph.Object(entity: "Rating", attributes: ["value": 5], toOnes: ["photo": Self.second])
      album.objects[Self.high] = Graph.Object(entity: "Tag", attributes: ["name": "sand"])
      album.pairs = [Graph.Pair(Self.high, Self.second)]
      for id in ["R1", Self.high] {
        b.graph.objects[id] = album.objects[id]
        b.graph.objects[id]?.zone = zoneID
      }
      b.graph.pairs = album.pairs
      try await a.pull { $0 == album }
      #expect(a.graph == album)
      #expect(a.graph.objects["R1"]?.zone["zoneName"].string == zoneName)

      // The same tag made on both sides becomes one on both.
      try await a.save([MainJob.insert("Tag", Self.low, ["name": "sand"], ["photos": [.string(Self.first)]])]) {
        graph in
        graph.objects[Self.low] = Graph.Object(entity: "Tag", attributes: ["name": "sand"])
        graph.pairs.insert(Graph.Pair(Self.low, Self.first))
      }
      let pairs: Set = [Graph.Pair(Self.low, Self.first), Graph.Pair(Self.low, Self.second)]
      try await a.pull { $0.pairs == pairs }
      try await b.pull { $0.pairs == pairs }
      #expect(a.graph.pairs == pairs && b.graph.pairs == pairs)

      // A lowers B to read-only: B's edit is refused, and B's copy returns to its earlier state.
      let participants = try await Self.participants(of: share, alice)
      let lowered = participants.map { Self.with($0, permission: "READ_ONLY") }
      _ = try await Self.change(share, of: alice, ["participants": .array(lowered)])
      let refused = try await b.device.send(
        "POST", "/transactions",
        Device.transactions([MainJob.update("Photo", Self.first, ["displayName": "Mine"])], id: "TX-9"))
      #expect(refused.status == 403, "\(refused.text)")
      #expect(try refused.json["ckErrorCode"].integer == 10)
      let before = b.graph
      try await b.pull()
      #expect(b.graph.objects[Self.first] == before.objects[Self.first])
      try await a.pull()
      #expect(a.graph.objects[Self.first]?.attributes["displayName"] == "Dunes")

      // B leaves: the album is gone for B and stays for A and for C, who joins now.
      let joined = try await c.device.call("POST", "/accept", ["shortGUIDs": [["value": .string(guid)]]])
      #expect(joined["results"][0]["serverErrorCode"] == .null, "\(joined)")
      try await c.pull { $0.objects[Self.second] != nil }
      try await b.device.call("POST", "/purge", ["zoneID": zoneID])
      try await b.pull { $0.objects.isEmpty }
      #expect(b.log.contains { $0["changeType"].string == "zone" && $0["zoneID"]["zoneName"].string == zoneName })
      try await a.pull()
      try await c.pull()
      #expect(a.graph.objects[Self.first] != nil && a.graph.objects[Self.second] != nil)
      #expect(c.graph == a.graph)

      // A stops sharing: the album stays for A and is gone for all others.
      _ = try await Self.change(share, of: alice, [:], kind: "forceDelete")
      try await c.pull { $0.objects.isEmpty }
      let kept = a.graph
      try await a.pull()
      #expect(a.graph == kept && a.graph.objects.count >= 5)
      let records = try await alice.allRecords(in: zoneName).records
      #expect(records[Self.first] != nil && records[Self.second] != nil)
      #expect(try await bob.records("zones/list", [:], in: "shared")["zones"].elements.isEmpty)
      #expect(try await carol.records("zones/list", [:], in: "shared")["zones"].elements.isEmpty)
    }
  }

  /// All participants except the owner, as the answer has them.
  private static func participants(of share: Value, _ owner: User) async throws -> [Value] {
    let found = try await owner.records(
      "records/lookup", ["zoneID": share["zoneID"], "records": [["recordName": share["recordName"]]]])["records"][0]
    return found["participants"].elements.filter { $0["type"].string != "OWNER" }
  }

  private static func with(_ participant: Value, permission: Value) -> Value {
    var members = participant.members
    members["permission"] = permission
    return .object(members)
  }
}
