// Requests about other users' zones.

import Installations
import JSON

extension Attack {
  static let shared = [
    Attack(
      name: "owners",
      what:
        """
        changes of zones of 200 owners, with unknown members, in turn with 2 MB and with the most that is allowed, 16 \
        at once
        """
    ) { scene in
      let zones = (0..<200).map {
        #"{"zoneID":{"zoneName":"Zone","ownerRecordName":"_\#(Words.repeated("0", 29))\#(100 + $0)"}}"#
      }.joined(separator: ",")
      let bodies = [2_000_000, 1_000_000].map {
        Array(#"{"unknown":"\#(Words.repeated("a", $0))","zones":[\#(zones)]}"#.utf8)
      }
      return {
        try await scene.repeatedly(scene.isLong ? 60 : 16) { number in
          let answer = try await scene.attacker.records("changes/zone", bodies[number % 2], in: "shared")
          scene.note(answer.text, documented: ["200", "400 BAD_REQUEST", "413", "429", "503"])
        }
      }
    },
    Attack(
      name: "owners-lookups", what: "the same lookups, in turn with 4 MB and with the most that is allowed, 4 at once"
    ) { scene in
      let zones = (0..<200).map {
        #"{"zoneID":{"zoneName":"Zone","ownerRecordName":"_\#(Words.repeated("0", 29))\#(100 + $0)"}}"#
      }.joined(separator: ",")
      let bodies = [4_000_000, 1_000_000].map {
        Array(#"{"unknown":"\#(Words.repeated("a", $0))","zones":[\#(zones)]}"#.utf8)
      }
      return {
        try await scene.repeatedly(4) { number in
          let answer = try await scene.attacker.records("zones/lookup", bodies[number % 2], in: "shared")
          scene.note(answer.text, documented: ["200", "400 BAD_REQUEST", "413", "429", "503"])
        }
      }
    },
    Attack(name: "foreign-zones", what: "requests that name 200 zones of strangers each, and must not fill the logs") {
      scene in
      let operations = (0..<200).map {
        #"{"zoneID":{"zoneName":"Zone\#($0)","ownerRecordName":"_\#(Words.repeated("0", 32))"}}"#
      }
      let body = #"{"zones":[\#(operations.joined(separator: ","))]}"#
      let logs = scene.stage.installation.logs
      return {
        let before = logByteCount(logs)
        let start = monotonicNanoseconds()
        try await scene.repeatedly(4) { _ in
          for call in ["changes/zone", "zones/lookup"] {
            scene.note(
              try await scene.attacker.records(call, body).text, documented: ["200", "400", "403", "404", "429"])
          }
        }
        let perSecond = Double(logByteCount(logs) - before) * 1e9 / Double(monotonicNanoseconds() - start)
        if perSecond > 20_000 { scene.complain("the logs grow by \(Int(perSecond)) bytes a second") }
      }
    },
    Attack(name: "participants", what: "a zone with many participants, whose owner saves batches of 200") { scene in
      let others = try await guests(of: scene, count: scene.isLong ? 99 : 20)
      let body = Array(Words.modify((0..<200).map { Words.save("shared-\($0)", #""text":{"value":"again"}"#) }).utf8)
      let zone = #"{"zones":[{"zoneID":{"zoneName":"Zone","ownerRecordName":"\#(scene.attacker.recordName)"}}]}"#
      return {
        async let reading: Void = scene.repeatedly(others.count) { number in
          scene.note(
            try await others[number].records("changes/zone", zone, in: "shared").text,
            documented: ["200", "429", "503"])
          try await scene.pause(.milliseconds(100))
        }
        try await scene.repeatedly(1) { _ in
          scene.note(
            try await scene.attacker.records("records/modify", body).text,
            documented: ["200", "429", "200 TRY_AGAIN_LATER", "503"])
        }
        try await reading
      }
    },
    Attack(name: "removed", what: "a removed participant fetches content by an address from before") { scene in
      guard let guest = try await guests(of: scene, count: 1).first else { throw RunError("there is no guest") }
      let tokens = try await scene.attacker.must(
        "assets/upload", #"{"zoneID":{"zoneName":"Zone"},"tokens":[{"recordType":"Photo","fieldName":"blob"}]}"#)
      guard let url = tokens["tokens"]?.elements.first?["url"]?.string, let path = path(of: url) else {
        throw RunError("assets/upload names no address")
      }
      let uploaded = try await scene.attacker.send("POST", path, body: [UInt8](repeating: 0x61, count: 100_000))
      guard uploaded.status == 200, let file = uploaded.json?["singleFile"] else {
        throw RunError("the answer for the upload is \(uploaded.text)")
      }
      let blob = object {
        $0.key("value")
        $0.value(file)
      }
      try await scene.attacker.must(
        "records/modify",
        Words.modify([Words.save("photo", type: "Photo", #""blob":\#(String(decoding: blob, as: UTF8.self))"#)]))
      let zone = #""zoneID":{"zoneName":"Zone","ownerRecordName":"\#(scene.attacker.recordName)"}"#
      let seen = try await guest.must("records/lookup", #"{\#(zone),"records":[{"recordName":"photo"}]}"#, in: "shared")
      guard let address = seen["records"]?.elements.first?["fields"]?["blob"]?["value"]?["downloadURL"]?.string,
        let download = Attack.path(of: address)
      else {
        throw RunError("the guest has no address")
      }
      guard try await guest.send("GET", download).status == 200 else { throw RunError("the guest can't fetch it") }
      try await scene.attacker.must(
        "records/modify",
        Words.modify([#"{"operationType":"forceDelete","record":{"recordName":"cloudkit.zoneshare"}}"#]))
      return {
        // The guest's device may keep content in its own HTTP cache, which sends no request.
        try await scene.repeatedly(4) { _ in
          scene.note(
            "\(try await guest.send("GET", download).status)", documented: ["401", "403", "404", "410", "421", "429"])
        }
      }
    },
  ]

  /// Shares the attacker's zone with `count` new users, who accept.
  static func guests(of scene: Scene, count: Int) async throws -> [UserClient] {
    var guests: [UserClient] = []
    for _ in 0..<count { guests.append(try await scene.stage.user("guest")) }
    let participants = guests.map {
      #"""
      {"type":"USER","permission":"READ_WRITE","acceptanceStatus":"INVITED",\#
      "userIdentity":{"lookupInfo":{"userRecordName":"\#($0.recordName)"}}}
      """#
    }
    let share =
      #"""
      {"recordType":"cloudkit.share","recordName":"cloudkit.zoneshare","fields":{"cloudkit.title":{"value":"Trip"}},\#
      "publicPermission":"NONE","participants":[\#(participants.joined(separator: ","))]}
      """#
    let made = try await scene.attacker.must(
      "records/modify", Words.modify([#"{"operationType":"create","record":\#(share)}"#]))
    guard let guid = made["records"]?.elements.first?["shortGUID"]?.string else {
      throw RunError("the share has no short GUID")
    }
    for guest in guests {
      try await guest.must("records/accept", #"{"shortGUIDs":[{"value":"\#(guid)"}]}"#, in: "public")
    }
    return guests
  }

  private static func logByteCount(_ folder: String) -> Int {
    ["gateway-1", "notifier-1", "share-1"].reduce(0) {
      $0 + (ServerProcess.contents("\(folder)/\($1).log")?.count ?? 0)
    }
      + (1...Stage.workerCount).reduce(0) { $0 + (ServerProcess.contents("\(folder)/worker-\($1).log")?.count ?? 0) }
  }
}
