// Zones of two owners and a participant, through real processes: lists, feeds, saves, pings, ends, and dying processes.

import Foundation
import HTTPClient
import Testing

@Suite(.serialized) struct SharedZonesTests {
  private let model = Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path

  private func pings(_ user: User, _ device: String) async throws -> EventLines {
    let app = user.app
    let url = "\(app.installation.ready.notifier)/mirror/1/\(app.container)/development/pings?device=\(device)"
    return EventLines(
      try await app.installation.client.stream(
        url, headers: [HTTPClient.Header("Authorization", "Bearer \(user.token)")]))
  }

  @Test(.timeLimit(.minutes(3)))
  func
    `T-P09 T-P10 T-P18 T-P19 a participant has two owners' zones, until they leave one and lose the other`()
    async throws
  {
    try await Installation.run(workers: 2) { installation in
      let app = try await App(installation, model: model)
      let (ann, bea, cem) = (try await app.user("ann"), try await app.user("bea"), try await app.user("cem"))
      let (annTrips, beaTrips) = ("\(ann.recordName)/Trips", "\(bea.recordName)/Trips")
      for owner in [ann, bea] {
        try await owner.makeZone("Trips")
        #expect(try await owner.save("first", "by its owner", in: "Trips")["records"][0]["serverErrorCode"] == .null)
        let guid = try await owner.share("Trips", with: [(cem, "READ_WRITE")])
        #expect(try await cem.sharedZones().contains("\(owner.recordName)/Trips") == false)
        #expect(try await cem.accept(guid)["participantStatus"] == "ACCEPTED")
        #expect(try await cem.sharedZones().contains("\(owner.recordName)/Trips"), "what was accepted is there at once")
      }
      // The whole shared database at once.
      let first = try await cem.sharedFeed()
      #expect(first.zones == [annTrips, beaTrips])
      let zones: Value = [
        "zones": [["zoneID": User.zoneID("Trips", of: bea)], ["zoneID": User.zoneID("Trips", of: ann)]]
      ]
      let changes = try await cem.records("changes/zone", zones, in: "shared")["zones"]
      #expect(
        changes.elements.map { $0["zoneID"]["ownerRecordName"] } == [.string(bea.recordName), .string(ann.recordName)])
      #expect(changes.elements.allSatisfy { $0["records"].elements.contains { $0["recordName"] == "first" } })
      let query: Value = ["zoneID": User.zoneID("Trips", of: ann), "query": ["recordType": "Note"]]
      #expect(
        try await cem.records("records/query", query, in: "shared")["records"][0]["fields"]["title"]["value"]
          == "by its owner")

      // Cem writes, and each user's devices get a ping for their own view of the database.
      var annHears = try await pings(ann, "ann's")
      var cemHears = try await pings(cem, "cem's")
      #expect(try await cem.save("second", "by Cem", in: "Trips", of: ann)["records"][0]["serverErrorCode"] == .null)
      #expect(try await ann.allRecords(in: "Trips").records["second"]?["fields"]["title"]["value"] == "by Cem")
      let (own, others) = (
        try #require(try await annHears.next())["ck"]["met"], try #require(try await cemHears.next())["ck"]["met"]
      )
      #expect(own["dbs"] == 1 && own["zoid"] == .string(ann.recordName) && own["zid"] == "Trips")
      #expect(others["dbs"] == 2 && others["zoid"] == .string(ann.recordName) && others["zid"] == "Trips")
      let second = try await cem.sharedFeed(after: first.token)
      #expect(second.zones == [annTrips])

      // Only owners may delete zones.
      let made = try await cem.send(
        "zones/modify",
        ["operations": [["operationType": "delete", "zone": ["zoneID": User.zoneID("Trips", of: ann)]]]], in: "shared")
      #expect(made.text.contains("BAD_REQUEST"))
      #expect(try await ann.allRecords(in: "Trips").records.keys.contains("second"))

      // Cem leaves one share: only Cem's access ends.
      try await cem.stopSharing("Trips", of: bea)
      let third = try await cem.sharedFeed(after: second.token)
      #expect(third.zones == ["-" + beaTrips])
      #expect(try await cem.sharedZones() == [annTrips])
      #expect(try await bea.allRecords(in: "Trips").records.keys.contains("first"))
      // Ann stops sharing the other one, and keeps everything.
      try await ann.stopSharing("Trips")
      let fourth = try await cem.sharedFeed(after: third.token)
      #expect(fourth.zones == ["-" + annTrips])
      #expect(try await cem.sharedZones() == [])
      #expect(try await ann.allRecords(in: "Trips").records["second"]?["fields"]["title"]["value"] == "by Cem")
      let denied = try await cem.save("third", "too late", in: "Trips", of: ann)
      #expect(
        denied["serverErrorCode"] == "ZONE_NOT_FOUND" || denied["records"][0]["serverErrorCode"] == "ZONE_NOT_FOUND")
      #expect(try await cem.sharedFeed(after: fourth.token).zones == [])
      // The operators' view.
      let (code, output, _) = try await installation.aquifer("--json", "share", "list")
      #expect(code == 0 && !output.contains(ann.recordName))
      #expect(output.contains(bea.recordName), "of a share that a participant left the owner is left")
    }
  }

  @Test(.timeLimit(.minutes(2)))
  func `a participant is told what he subscribed to in an owner's zone until an operator ends the share`() async throws
  {
    try await Installation.run(workers: 2) { installation in
      let app = try await App(installation, model: model)
      let (ann, cem) = (try await app.user("ann"), try await app.user("cem"))
      try await ann.makeZone("Trips")
      _ = try await cem.accept(try await ann.share("Trips", with: [(cem, "READ_ONLY")]))
      let subscriptions: [Value] = [
        ["subscriptionID": "zone", "subscriptionType": "zone", "zoneID": User.zoneID("Trips", of: ann)],
        [
          "subscriptionID": "notes", "subscriptionType": "query", "zoneID": User.zoneID("Trips", of: ann),
          "firesOn": ["create"],
          "query": ["recordType": "Note"],
        ], ["subscriptionID": "all", "subscriptionType": "database"],
      ]
      let operations = subscriptions.map { ["operationType": "create", "subscription": $0] as Value }
      let made = try await cem.records("subscriptions/modify", ["operations": .array(operations)], in: "shared")
      #expect(made["subscriptions"].elements.allSatisfy { $0["serverErrorCode"] == .null }, "\(made)")
      func listed() async throws -> Set<String> {
        Set(
          try await cem.records("subscriptions/list", [:], in: "shared")["subscriptions"].elements.compactMap {
            $0["subscriptionID"].string
          })
      }
      #expect(try await listed() == ["zone", "notes", "all"])
      var hears = try await pings(cem, "cem's")
      _ = try await ann.save("first", "by its owner", in: "Trips")
      var told: Set<String> = []
      while told.count < 4 {
        let ck = try #require(try await hears.next())["ck"]
        for (kind, subject) in ck.members where ["met", "fet", "qry"].contains(kind) {
          #expect(subject["dbs"] == 2 && subject["zoid"] == .string(ann.recordName) && subject["zid"] == "Trips")
          told.insert(subject["sid"].string ?? "")
        }
      }
      #expect(told == ["zone", "notes", "all", "com.apple.coredata.cloudkit.shared.subscription"])

      let place = [
        "--container", app.container, "--environment", "development", "--owner", ann.recordName, "--zone", "Trips",
      ]
      let shown = try await installation.aquifer(["--json", "share", "show"] + place)
      #expect(shown.code == 0 && shown.output.contains(cem.recordName) && shown.output.contains("readOnly"), "\(shown)")
      let refused = try await installation.aquifer(["share", "stop"] + place)
      #expect(refused.code != 0)
      let stopped = try await installation.aquifer(["share", "stop"] + place + ["--yes"])
      #expect(stopped.code == 0, "\(stopped)")
      #expect(try await cem.sharedZones() == [])
      for _ in 0..<200 {
        if try await listed() == ["all"] { break }
        try await Task.sleep(for: .milliseconds(20))
      }
      #expect(try await listed() == ["all"])
      // They don't come back with a new share.
      _ = try await cem.accept(try await ann.share("Trips", with: [(cem, "READ_ONLY")]))
      #expect(try await listed() == ["all"])
      #expect(try await ann.allRecords(in: "Trips").records["first"]?["fields"]["title"]["value"] == "by its owner")
    }
  }

  @Test(.timeLimit(.minutes(3)), arguments: ["worker", "share"])
  func
    `shares, acceptances and ends that a death cuts short are whole or not begun, and a repetition completes them`(
      role: String
    ) async throws
  {
    try await Installation.run { installation in
      let app = try await App(installation, model: model)
      let (ann, cem) = (try await app.user("ann"), try await app.user("cem"))
      var random = SystemRandomNumberGenerator()
      for round in 0..<6 {
        let zone = "Zone \(round)"
        try await ann.makeZone(zone)
        let pid = try #require(try installation.now().pids[role]?.first)
        let delay = Int.random(in: 0...60, using: &random)
        try await withThrowingTaskGroup(of: Void.self) { group in
          group.addTask {
            try await Task.sleep(for: .milliseconds(delay))
            #expect(kill(pid, SIGKILL) == 0)
          }
          group.addTask {
            let guid = try await ann.share(zone, with: [(cem, "READ_ONLY")])
            #expect(try await cem.accept(guid)["participantStatus"] == "ACCEPTED")
            #expect(try await cem.sharedZones().contains("\(ann.recordName)/\(zone)"), "round \(round), \(delay) ms")
            if round % 2 == 0 {
              try await ann.stopSharing(zone)
              #expect(try await !cem.sharedZones().contains("\(ann.recordName)/\(zone)"), "round \(round), \(delay) ms")
            }
          }
          try await group.waitForAll()
        }
        _ = try await installation.waitForReadyFile { $0.pids[role]?.count == 1 && $0.pids[role] != [pid] }
      }
      #expect(try await cem.sharedZones() == Set([1, 3, 5].map { "\(ann.recordName)/Zone \($0)" }))
    }
  }
}
