// Damaged bodies over HTTP: no process ends, none grows, and refused requests store nothing.

import Foundation
import Testing

/// Damages valid bodies, in the same way in every run.
private struct Spoiler {
  private var state: UInt64

  init(seed: UInt64) { state = seed }

  private mutating func below(_ limit: Int) -> Int {
    state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
    return limit > 0 ? Int(state >> 33) % limit : 0
  }

  private static let pieces = [
    "null", "[]", "{}", "NaN", "1e999", "9007199254740993", "-", #""\ud800""#, "\u{0}", ",", "\"", "]", "}",
    String(repeating: "[", count: 200),
    String(repeating: "7", count: 400), #""recordName":"a","#, #""operations":[],"#,
  ]

  mutating func spoiled(_ body: String) -> [UInt8] {
    var bytes = Array(body.utf8)
    for _ in 0...below(3) {
      let place = below(bytes.count + 1)
      switch below(5) {
      case 0: bytes.removeSubrange(place...)
      case 1: if place < bytes.count { bytes[place] = UInt8(below(256)) }
      case 2: bytes.insert(contentsOf: Self.pieces[below(Self.pieces.count)].utf8, at: place)
      case 3: bytes.removeSubrange(place..<min(bytes.count, place + below(12)))
      default: bytes.insert(contentsOf: bytes[place..<min(bytes.count, place + below(60))], at: below(bytes.count + 1))
      }
    }
    return bytes
  }

  mutating func pick<Element>(_ elements: [Element]) -> Element { elements[below(elements.count)] }
}

@Suite(.serialized) struct HostileBodiesTests {
  private static let bodies: [(path: String, body: String)] = [
    (
      "private/records/modify",
      #"""
      {"operations":[{"operationType":"forceUpdate","record":{"recordName":"a","recordType":"CD_Tag",\#
      "fields":{"CD_name":{"value":"spoiled","type":"STRING"},"to":{"value":{"recordName":"a","action":"VALIDATE"}}}},\#
      "desiredKeys":["CD_name"]},{"operationType":"delete","record":{"recordName":"b","recordChangeTag":"2"}}],\#
      "zoneID":{"zoneName":"Trips"},"atomic":false}
      """#
    ),
    (
      "private/records/lookup",
      #"{"records":[{"recordName":"a","desiredKeys":["CD_name"]}],"zoneID":{"zoneName":"Trips"}}"#
    ),
    (
      "private/records/query",
      #"""
      {"query":{"recordType":"CD_Tag","filterBy":[{"fieldName":"CD_name","comparator":"EQUALS",\#
      "fieldValue":{"value":"x"}}],"sortBy":[{"fieldName":"CD_name"}]},"zoneID":{"zoneName":"Trips"},"resultsLimit":3}
      """#
    ),
    ("private/changes/zone", #"{"zones":[{"zoneID":{"zoneName":"Trips"},"syncToken":"","resultsLimit":2}]}"#),
    ("private/changes/database", #"{"resultsLimit":1}"#),
    ("private/zones/modify", #"{"operations":[{"operationType":"create","zone":{"zoneID":{"zoneName":"Other"}}}]}"#),
    ("private/zones/lookup", #"{"zones":[{"zoneName":"Trips"}]}"#),
    ("public/records/resolve", #"{"shortGUIDs":[{"value":"0000aaaaaaaaaaaaaaaaaaaaa","shouldFetchRootRecord":true}]}"#),
    (
      "public/records/modify",
      #"{"operations":[{"operationType":"create","record":{"recordType":"CD_Tag","fields":{}}}]}"#
    ),
  ]

  /// Resident bytes of all processes.
  private static func memory(_ installation: Installation) throws -> Int {
    try installation.now().pids.values.flatMap(\.self).reduce(0) { sum, pid in
      let status = try String(contentsOfFile: "/proc/\(pid)/status", encoding: .utf8)
      let line = try #require(status.split(separator: "\n").first { $0.hasPrefix("VmRSS:") })
      return sum + 1024 * (Int(line.split(whereSeparator: \.isWhitespace)[1]) ?? 0)
    }
  }

  @Test(.timeLimit(.minutes(4)))
  func `hundreds of spoiled bodies change nothing that they are refused for, and no process grows`() async throws {
    try await Installation.run { installation in
      let app = try await App(
        installation, model: Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path)
      let alice = try await app.user("alice")
      _ = try await alice.records(
        "zones/modify", ["operations": [["operationType": "create", "zone": ["zoneID": ["zoneName": "Trips"]]]]])
      let before = try installation.now().pids
      var spoiler = Spoiler(seed: 7)
      var refusals = 0
      func send(_ count: Int) async throws {
        for _ in 0..<count {
          let (path, body) = spoiler.pick(Self.bodies)
          let bytes = spoiler.spoiled(body)
          let token = try await alice.records("changes/database", [:])["syncToken"]
          let answer = try await installation.send(
            "POST", "\(installation.ready.gateway)/database/1/\(app.container)/development/\(path)",
            bearer: alice.token, bytes: bytes)
          if answer.status == 200 { continue }
          refusals += 1
          let text = String(decoding: bytes, as: UTF8.self)
          #expect(
            [400, 404, 413].contains(answer.status), "\(path) \(text): \(answer.status) \(answer.text.prefix(300))")
          let error = try answer.json
          #expect(error["serverErrorCode"].string != nil && error["reason"].string?.isEmpty == false, "\(path) \(text)")
          #expect(try await alice.records("changes/database", [:])["syncToken"] == token, "\(path) \(text)")
        }
      }
      /// Bodies of the greatest allowed size, and slightly larger ones.
      func sendLarge(_ count: Int) async throws {
        for index in 0..<count {
          let answer = try await installation.send(
            "POST", "\(installation.ready.gateway)/database/1/\(app.container)/development/private/records/modify",
            bearer: alice.token,
            bytes: [UInt8](repeating: UInt8(ascii: "["), count: (8 + index % 2) << 20))
          #expect(answer.status == (index % 2 == 0 ? 400 : 413))
        }
      }
      // Every thread that has parsed a large body keeps memory for another one: measured, about 100 MB in all.
      try await send(100)
      try await sendLarge(24)
      let settled = try Self.memory(installation)
      try await send(200)
      try await sendLarge(16)
      let grown = try Self.memory(installation) - settled
      #expect(grown < 48 << 20, "the processes grew by \(grown) bytes")
      #expect(refusals > 100)
      #expect(try installation.now().pids == before)
      _ = try await alice.allRecords(in: "Trips")
    }
  }
}
