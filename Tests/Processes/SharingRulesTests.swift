// The rules of sharing through real processes: three users with databases in different shards, on both planes.

import Foundation
import Testing

@Suite(.serialized) struct SharingRulesTests {
  private static let model = Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path

  /// A device with its up-to-date copy of the graph.
  private final class Copy {
    let device: Device
    var graph = Graph()
    private var token = Value.null
    /// The types of all imported changes, with their objects.
    private(set) var log: [String] = []

    init(_ user: User, in database: String) async throws { device = try await user.device("phone", in: database) }

    func pull(until condition: (Graph) -> Bool = { _ in true }, _ place: SourceLocation = #_sourceLocation) async throws
    {
      for _ in 0..<200 {
        let (changes, next) = try await device.changes(after: token)
        for change in changes { try graph.apply(change) }
        token = next
        log += changes.map {
          "\($0["changeType"].string ?? "") \($0["objectID"].string ?? $0["zoneID"]["zoneName"].string ?? "")"
        }
        if condition(graph) { return }
        try await Task.sleep(for: .milliseconds(50))
      }
      Issue.record("what was waited for did not come: \(graph)", sourceLocation: place)
    }

    func save(_ changes: Value...) async throws {
      try await device.save(changes)
      try await pull()
    }

    func share(_ objects: [String], with others: [User] = [], to zone: Value = .null) async throws
      -> Installation.Answer
    {
      let participants = others.map { user -> Value in
        [
          "type": "USER", "permission": "READ_WRITE",
          "userIdentity": ["lookupInfo": ["userRecordName": .string(user.recordName)]],
        ]
      }
      var body: [String: Value] = ["objectIDs": .array(objects.map { .string($0) }), "to": zone, "title": "Trip"]
      if !others.isEmpty { body["participants"] = .array(participants) }
      return try await device.send("POST", "/shares", .object(body))
    }

    func accept(_ share: Value) async throws {
      let answer = try await device.call("POST", "/accept", ["shortGUIDs": [["value": share["share"]["shortGUID"]]]])
      #expect(answer["results"][0]["participantStatus"] == "ACCEPTED", "\(answer)")
    }

    func zone(of object: String) -> String? { graph.objects[object]?.zone["zoneName"].string }
  }

  @Test(.timeLimit(.minutes(3)))
  func
    `T-P01 T-P02 T-P03 T-P11 T-P20 T-X02 graphs move between shared zones whole, and are told apart from deletions`()
    async throws
  {
    try await Installation.run(workers: 2) { installation in
      let people = try await App(installation, model: Self.model).usersApart(["ann", "bea", "cem"])
      let (ann, other) = (try await Copy(people[0], in: "private"), try await Copy(people[0], in: "private"))
      let (bea, cem) = (try await Copy(people[1], in: "shared"), try await Copy(people[2], in: "shared"))
      try await ann.save(
        MainJob.insert("Tag", "sea", ["name": "sea"]),
        MainJob.insert("Post", "dunes", ["title": "Dunes"], ["tags": ["sea"]]),
        MainJob.insert("Post", "camels", ["title": "Camels"]))
      try await other.pull { $0.objects.count == 3 }

      // One share for both guests, one for Bea alone.
      let both = try await ann.share(["dunes"], with: [people[1], people[2]]).json
      let hers = try await ann.share(["camels"], with: [people[1]]).json
      let (trips, work) = (
        try #require(both["zoneID"]["zoneName"].string), try #require(hers["zoneID"]["zoneName"].string)
      )
      #expect(Set(both["moved"].elements.compactMap(\.string)) == ["dunes", "sea"])
      for (copy, share) in [(bea, both), (cem, both), (bea, hers)] { try await copy.accept(share) }
      try await bea.pull { $0.objects.count == 3 }
      try await cem.pull { $0.objects.count == 2 }
      #expect(cem.graph.pairs.count == 1 && bea.graph.pairs.count == 1)

      // An object in one share can't be shared into another; nothing changes.
      let owner = people[0]
      let before = [try await owner.allRecords(in: trips).records, try await owner.allRecords(in: work).records]
      let refused = try await ann.share(["dunes"], to: hers["zoneID"])
      #expect(try refused.status == 400 && refused.json["cocoaErrorCode"].integer == 134060, "\(refused.text)")
      let (sameTrips, sameWork) = (
        try await owner.allRecords(in: trips).records, try await owner.allRecords(in: work).records
      )
      #expect([sameTrips, sameWork] == before)

      // An explicit move works: it is a move for users who see both zones, and a deletion for users who see only the
      // old one.
      try await bea.save(MainJob.update("Post", "dunes", ["title": "Dunes at night"]))
      try await ann.pull { $0.objects["dunes"]?.attributes["title"] == "Dunes at night" }
      let moved = try await ann.device.call("POST", "/move", ["objectIDs": ["sea"], "to": hers["zoneID"]])
      #expect(Set(moved["moved"].elements.compactMap(\.string)) == ["dunes", "sea"], "\(moved)")
      for copy in [ann, other, bea] {
        try await copy.pull { _ in copy.zone(of: "dunes") == work && copy.zone(of: "sea") == work }
        #expect(copy.graph.pairs == [Graph.Pair("dunes", "sea")] || copy.graph.pairs == [Graph.Pair("sea", "dunes")])
        #expect(!copy.log.contains("delete dunes") && !copy.log.contains("delete sea"), "\(copy.log)")
      }
      try await cem.pull { $0.objects.isEmpty }
      #expect(cem.log.contains("delete dunes") && cem.log.contains("delete sea"))

      // No link reaches across zones.
      try await ann.save(MainJob.insert("Post", "oasis", ["title": "Oasis"]))
      #expect(try await ann.share(["oasis"], to: both["zoneID"]).status == 200)
      let across = try await ann.device.send(
        "POST", "/transactions",
        Device.transactions([MainJob.update("Post", "oasis", [:], ["tags": ["sea"]])], id: "across"))
      #expect(try across.status == 400 && across.json["cocoaErrorCode"].integer == 134060, "\(across.text)")
      try await cem.pull { $0.objects.keys.sorted() == ["oasis"] }

      // The audit names the users who set the title, also before the move.
      let audit = try await ann.device.call("GET", "/audit?objectID=dunes&property=title")
      let setters = audit["changes"].elements.filter { $0["changeType"] != "move" }.map { $0["author"] }
      #expect(setters == [.string(owner.recordName), .string(people[1].recordName)], "\(audit)")

      // The zone is purged, and its content kept as a copy of Ann's.
      let purged = try await ann.device.call("POST", "/purge", ["zoneID": hers["zoneID"], "keepCopy": true])
      #expect(purged["copies"].elements.count == 3, "\(purged)")
      try await bea.pull { $0.objects.keys.sorted() == ["oasis"] }
      try await other.pull { $0.objects.count == 4 && $0.objects["dunes"] == nil }
      #expect(other.graph.pairs.count == 1)
      #expect(
        Set(other.graph.objects.values.compactMap { $0.attributes["title"]?.string }) == [
          "Dunes at night", "Camels", "Oasis",
        ])
      #expect(try await people[1].sharedZones() == ["\(owner.recordName)/\(trips)"])
    }
  }

  @Test(.timeLimit(.minutes(3)))
  func
    `T-P06 T-P07 T-P08 T-P14 T-P16 T-P17 T-C15 shares are opened, closed, administered and asked for`()
    async throws
  {
    try await Installation.run(workers: 2) { installation in
      let people = try await App(installation, model: Self.model).usersApart(["ann", "bea", "cem"])
      let (ann, bea, cem) = (people[0], people[1], people[2])
      try await ann.makeZone("Trips")
      #expect(try await ann.save("first", "Dunes", in: "Trips")["records"][0]["serverErrorCode"] == .null)
      let zone = "\(ann.recordName)/Trips"

      // Bea is an administrator: she adds Cem while Ann changes the title; both changes remain.
      let guid = try await ann.share("Trips", with: [])
      var share = try await ann.zoneShare("Trips")
      _ = try await ann.updateShare(
        "Trips", share, ["participants": [User.invitation(bea, "READ_WRITE", type: "ADMINISTRATOR")]])
      #expect(try await bea.accept(guid)["participantType"] == "ADMINISTRATOR")
      share = try await ann.zoneShare("Trips")
      let kept = share["participants"].elements.filter { $0["type"] != "OWNER" }
      let byBea = try await bea.updateShare(
        "Trips", of: ann, share, ["participants": .array(kept + [User.invitation(cem, "READ_ONLY")])])
      #expect(byBea["serverErrorCode"] == .null, "\(byBea)")
      let title: [String: Value] = ["fields": ["cloudkit.title": ["value": "Journey"]]]
      let stale = try await ann.updateShare("Trips", share, title)
      #expect(stale["serverErrorCode"] == "CONFLICT", "\(stale)")
      #expect(try await ann.updateShare("Trips", ann.zoneShare("Trips"), title)["serverErrorCode"] == .null)
      share = try await ann.zoneShare("Trips")
      #expect(share["participants"].elements.count == 3 && share["fields"]["cloudkit.title"]["value"] == "Journey")
      #expect(try await cem.accept(guid)["participantStatus"] == "ACCEPTED")
      // An administrator can end neither the share nor the zone.
      #expect(
        try await bea.updateShare("Trips", of: ann, ann.zoneShare("Trips"), ["publicPermission": "READ_ONLY"])[
          "serverErrorCode"] == "ACCESS_DENIED")
      let ended = try await bea.send(
        "zones/modify",
        ["operations": [["operationType": "delete", "zone": ["zoneID": User.zoneID("Trips", of: ann)]]]], in: "shared")
      #expect(ended.text.contains("BAD_REQUEST"))
      #expect(try await cem.sharedZones() == [zone])
      try await bea.stopSharing("Trips", of: ann)
      #expect(try await bea.sharedZones() == [], "what deletes the share for its owner makes her leave")
      #expect(try await cem.sharedZones() == [zone])

      // A URL for one user: the first who opens it gets the place.
      share = try await ann.zoneShare("Trips")
      let others = share["participants"].elements.filter { $0["type"] != "OWNER" }
      let once = try await ann.updateShare(
        "Trips", share, ["participants": .array(others + [["permission": "READ_WRITE"]])])
      let address = try #require(once["participants"].elements.compactMap { $0["oneTimeShortGUID"].string }.first)
      let dan = try await ann.app.user("dan")
      async let (one, two) = (bea.accept(address), dan.accept(address))
      let results = try await [one, two]
      #expect(results.count { $0["participantStatus"] == "ACCEPTED" } == 1, "\(results)")
      #expect(results.count { $0["serverErrorCode"] == "NOT_FOUND" || $0 == .null } == 1, "\(results)")

      // Opened to everybody, then closed again.
      #expect(
        try await ann.updateShare("Trips", ann.zoneShare("Trips"), ["publicPermission": "READ_ONLY"])["serverErrorCode"]
          == .null)
      let (eve, fay) = (try await ann.app.user("eve"), try await ann.app.user("fay"))
      #expect(try await eve.accept(guid)["participantType"] == "PUBLIC_USER")
      #expect(
        try await eve.save("second", "not allowed", in: "Trips", of: ann)["records"][0]["serverErrorCode"]
          == "ACCESS_DENIED")
      share = try await ann.zoneShare("Trips")
      let adding = try await ann.updateShare(
        "Trips", share, ["participants": .array(share["participants"].elements + [User.invitation(fay, "READ_ONLY")])])
      #expect(adding["serverErrorCode"] == "BAD_REQUEST", "nobody is added to an open share: \(adding)")
      #expect(
        try await ann.updateShare("Trips", ann.zoneShare("Trips"), ["publicPermission": "NONE"])["serverErrorCode"]
          == .null)
      for user in [bea, cem, dan, eve] { #expect(try await user.sharedZones() == []) }

      // A user who may ask is let in, and a blocked user sees nothing.
      let asked = try await cem.resolve("requestAccess", guid)
      let nothing = try await cem.resolve("requestAccess", String(guid.dropLast(4)) + "zzzz")
      #expect(
        asked["serverErrorCode"] == nothing["serverErrorCode"] && asked["participantStatus"] == .null,
        "\(asked) and \(nothing)")
      #expect(
        try await ann.updateShare("Trips", ann.zoneShare("Trips"), ["allowsAccessRequests": true])["serverErrorCode"]
          == .null)
      for user in [cem, eve] {
        #expect(try await user.resolve("requestAccess", guid)["participantStatus"] == "REQUESTED")
      }
      share = try await ann.zoneShare("Trips")
      #expect(share["requesters"].elements.count == 2)
      #expect(
        try await ann.updateShare("Trips", share, ["participants": [User.invitation(cem, "READ_ONLY")]])[
          "serverErrorCode"] == .null)
      #expect(try await cem.accept(guid)["participantStatus"] == "ACCEPTED")
      let blocked: Value = [["userRecordName": .string(eve.recordName)]]
      #expect(
        try await ann.updateShare("Trips", ann.zoneShare("Trips"), ["blocked": blocked])["serverErrorCode"] == .null)
      #expect(try await eve.resolve("requestAccess", guid)["serverErrorCode"] == nothing["serverErrorCode"])

      // Stopped and shared again, it keeps its address; the hundred-and-first participant is refused.
      try await ann.stopSharing("Trips")
      #expect(try await cem.sharedZones() == [])
      #expect(try await ann.share("Trips", with: [(cem, "READ_WRITE")]) == guid)
      #expect(try await cem.accept(guid)["participantPermission"] == "READ_WRITE")
      #expect(try await cem.sharedZones() == [zone])
      share = try await ann.zoneShare("Trips")
      let strangers = (0..<100).map { number -> Value in
        [
          "type": "USER", "permission": "READ_ONLY",
          "userIdentity": ["lookupInfo": ["emailAddress": .string("guest\(number)@example.org")]],
        ]
      }
      let full = share["participants"].elements.filter { $0["type"] != "OWNER" } + strangers
      let tooMany = try await ann.updateShare("Trips", share, ["participants": .array(full)])
      #expect(tooMany["serverErrorCode"] == "BAD_REQUEST" && tooMany["ckErrorCode"].integer == 29, "\(tooMany)")
      #expect(
        try await ann.updateShare("Trips", share, ["participants": .array(full.dropLast())])["participants"].elements
          .count == 101)
    }
  }

  @Test(.timeLimit(.minutes(2)))
  func `T-P12 a share that is accepted before its records are there, and one after, end alike`() async throws {
    try await Installation.run(workers: 2) { installation in
      let people = try await App(installation, model: Self.model).usersApart(["ann", "bea", "cem"])
      let (ann, bea, cem) = (
        try await Copy(people[0], in: "private"), try await Copy(people[1], in: "shared"),
        try await Copy(people[2], in: "shared")
      )
      let other = try await Copy(people[0], in: "private")
      try await ann.save(MainJob.insert("Post", "dunes", ["title": "Dunes"]))
      let share = try await ann.share(["dunes"], with: [people[1], people[2]]).json
      // Bea accepts before the other objects arrive, and Cem after them.
      try await bea.accept(share)
      try await bea.pull { $0.objects.count == 1 }
      try await ann.save(
        MainJob.insert("Tag", "sea", ["name": "sea"]),
        MainJob.update("Post", "dunes", ["title": "Dunes at night"], ["tags": ["sea"]]),
        MainJob.insert("Attachment", "map", ["fileName": "map.pdf"], ["post": "dunes"]))
      try await cem.accept(share)
      for copy in [bea, cem, other] { try await copy.pull { $0.objects.count == 3 && $0.pairs.count == 1 } }
      #expect(bea.graph == cem.graph && bea.graph == other.graph)
      #expect(bea.graph.objects["map"]?.toOnes["post"] == "dunes")
    }
  }

  @Test(.timeLimit(.minutes(2))) func `T-P05 a held-back save of a participant is undone once they may only read`()
    async throws
  {
    try await Installation.run(workers: 2) { installation in
      let people = try await App(installation, model: Self.model).usersApart(["ann", "bea"])
      let (owner, ann, bea) = (
        people[0], try await Copy(people[0], in: "private"), try await Copy(people[1], in: "shared")
      )
      try await ann.save(MainJob.insert("Post", "dunes", ["title": "Dunes"]))
      let share = try await ann.share(["dunes"], with: [people[1]]).json
      let zone = try #require(share["zoneID"]["zoneName"].string)
      try await bea.accept(share)
      try await bea.pull { $0.objects.count == 1 }

      // Ann's database is full, so Bea's saves wait.
      #expect(try await installation.aquifer("user", "quota", "ann", "1").code == 0)
      for _ in 0..<100 {
        let probe = try await owner.save("probe", String(repeating: "x", count: 2000), in: zone)
        if "\(probe)".contains("QUOTA_EXCEEDED") { break }
        try await Task.sleep(for: .milliseconds(50))
      }
      let long = Value.string(String(repeating: "n", count: 2000))
      try await bea.device.save([MainJob.update("Post", "dunes", ["title": long])], waitsForExport: false)
      try await bea.device.save(
        [MainJob.insert("Attachment", "map", ["fileName": long], ["post": "dunes"])], waitsForExport: false)
      let full = try await owner.allRecords(in: zone).records
      #expect(full["map"] == nil && full["dunes"]?["fields"]["CD_title"]["value"] == "Dunes")

      // When there is room again, Bea may only read.
      let current = try await owner.zoneShare(zone)
      let lowered = current["participants"].elements.filter { $0["type"] != "OWNER" }.map { participant -> Value in
        var members = participant.members
        members["permission"] = "READ_ONLY"
        return .object(members)
      }
      #expect(try await owner.updateShare(zone, current, ["participants": .array(lowered)])["serverErrorCode"] == .null)
      #expect(try await installation.aquifer("user", "quota", "ann", "0").code == 0)
      var undone: Set<String> = []
      for _ in 0..<200 where undone != ["dunes", "map"] {
        try await bea.device.call("POST", "/quarantine/retry", [:])
        try await bea.pull()
        let conflicts = try await bea.device.call("GET", "/conflicts")["conflicts"].elements
        undone = Set(conflicts.filter { $0["kind"] == "reverted" }.compactMap { $0["objectID"].string })
        try await Task.sleep(for: .milliseconds(50))
      }
      #expect(undone == ["dunes", "map"], "the journal has what was undone")
      let records = try await owner.allRecords(in: zone).records
      #expect(records["map"] == nil && records["dunes"]?["fields"]["CD_title"]["value"] == "Dunes")
      #expect(bea.graph.objects["dunes"]?.attributes["title"] == "Dunes" && bea.graph.objects["map"] == nil)
    }
  }
}
