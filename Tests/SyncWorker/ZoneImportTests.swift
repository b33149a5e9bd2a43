// Tests of imports into a zone that are refused, their content, and the callers that may make them.

import Assets
import Crypto
import History
import JSON
import RecordStore
import Records
import ServiceBus
import Synchronization
import Testing
import WebServices

@testable import WorkerHost
@testable import ZoneCommit

@Test(arguments: StoreKind.allCases)
func `an import that does not fit is refused naming the line, and nothing of it is stored`(_ kind: StoreKind)
  async throws
{
  try await ObjectPlaneWorld.with(kind) { world in
    try await world.setUp("A")
    try await world.save(
      "A", #"{"changeType":"insert","entity":"Tag","objectID":"T","attributes":{"name":"T"}}"#,
      query: ["wait": "export"])
    func line(_ name: String, _ fields: String = "{}", type: String = "CD_Tag", more: String = "") -> String {
      #"""
      {"record":{"recordName":"\#(name)","recordType":"\#(type)","fields":\#(fields),"created":{"timestamp":1,\#
      "userRecordName":"_a"},"modified":{"timestamp":1,"userRecordName":"_a"}\#(more)}}
      """#
    }
    func send(
      _ body: String, _ query: [String: String] = ["merge": "true"], environment: Environment = .development,
      as who: ZoneCaller = .operator
    ) async throws -> (Int, String) {
      let reply = try await world.zone(
        "POST", "import", query: query, Array(body.utf8), environment: environment, as: who)
      return (reply.status, String(decoding: reply.bytes, as: UTF8.self))
    }
    let good = line("N", #"{"CD_name":{"type":"STRING","value":"n"}}"#)
    let hash = String(repeating: "ab", count: 32)
    for (body, reason) in [
      (good + "\nnonsense", "line 2"), (good + "\n" + good, "line 2: the record 'N' appears twice"),
      (#"{"format":"other/1"}"#, "line 1: the format"), ("{}", "line 1"),
      (line(""), "recordName"), (line("_x"), "reserved"),
      (line("M", #"{"CD_name":{"type":"INT64","value":1}}"#), "CD_Tag.CD_name"),
      (line("M", #"{"x":{"type":"LUNCH","value":1}}"#), "LUNCH"),
      (line("M", #"{"x":{"type":"STRING"}}"#), "value is missing"),
      (line("M", #"{"x":{"type":"INT64","value":1.5}}"#), "CD_Tag.x"),
      (line("M", #"{"x":{"type":"BYTES","value":"?"}}"#), "BYTES"),
      (line("M", #"{"x":{"type":"ASSETID","value":{"sha256":"ab","size":1}}}"#), "sha256"),
      (
        line("M", #"{"x":{"type":"ASSETID","value":{"sha256":"\#(hash)","size":1}}}"#),
        kind == .sqlite ? "asset not found" : ""
      ),
      (#"{"record":{"recordName":"M","recordType":"CD_Tag","fields":{}}}"#, "created"),
      ((0...400).map { line("M\($0)") }.joined(separator: "\n"), "line 401: more than 400"),
    ] where !reason.isEmpty {
      let (status, text) = try await send(body)
      #expect(status == 400 && text.contains(reason), "\(body.prefix(120)): \(text)")
    }
    let (full, reason) = try await send(good, [:])
    #expect(full == 409 && reason.contains("1 records"))
    let (unproven, _) = try await send(
      line("M", #"{"x":{"type":"ASSETID","value":{"sha256":"\#(hash)","size":1}}}"#), as: .owner)
    #expect(unproven == 400, "a user names content by its receipt")
    for body in [good, line("M", type: "Unknown")] {
      #expect(try await send(body, [:], environment: .production).0 == 400)
    }
    #expect(try await world.liveRecords().map(\.recordName) == ["T"])
    #expect(try await send(good).0 == 200)
    #expect(try await world.liveRecords().map(\.recordName) == ["N", "T"])
  }
}

@Test(arguments: StoreKind.allCases)
func `an import makes no zone beyond those that a database has room for`(_ kind: StoreKind) async throws {
  try await ObjectPlaneWorld.with(kind) { world in
    let id = world.request("GET", "stores/x").database
    try await world.store.enqueue { transaction in
      let database = try transaction.makeDatabase(id)
      _ = try transaction.makeZone(named: ReservedName.defaultZone, in: database.key)
      let count = try transaction.liveZoneCount(in: database.key)
      for number in 0..<(Limit.zonesPerDatabase - 1 - count) {
        _ = try transaction.makeZone(named: "Z\(number)", in: database.key)
      }
    }.value
    #expect(try await world.zone("POST", "import", zone: "last", as: .owner).status == 200)
    let refused = try await world.zone("POST", "import", zone: "other", as: .owner)
    #expect(refused.status == 413 && String(decoding: refused.bytes, as: UTF8.self).contains("QUOTA_EXCEEDED"))
    for zone in ["last", "Z0", ReservedName.defaultZone] {
      #expect(try await world.zone("POST", "import", zone: zone, as: .owner).status == 200, "\(zone)")
    }
    let zones = try await world.store.read { snapshot in
      try snapshot.database(id).map { try snapshot.liveZoneCount(in: $0.key) }
    }
    #expect(zones == Limit.zonesPerDatabase)
  }
}

@Test func `content for an import is uploaded once, and named by its receipt or, for operators, by its hash`()
  async throws
{
  try await ObjectPlaneWorld.with(.sqlite) { world in
    let content: [UInt8] = [1, 2, 3]
    let hash = Hex.encode(SHA256.hash(content))
    let question = Array(#"{"assets":[{"sha256":"\#(hash)","size":3}]}"#.utf8)
    let missing = try JSONValue(parsing: try await world.zone("POST", "assets", question).bytes)["assets"]?.elements
      .first
    #expect(
      missing?["present"]?.bool == false
        && missing?["uploadURL"]?.string?.hasPrefix("https://host/assets/1/upload/") == true)
    let asset = try world.assets.put(content, until: .max)
    #expect(
      try JSONValue(parsing: try await world.zone("POST", "assets", question).bytes)["assets"]?.elements.first?[
        "present"]?.bool == true)
    let hidden = try JSONValue(parsing: try await world.zone("POST", "assets", question, as: .owner).bytes)["assets"]?
      .elements.first
    #expect(hidden?["present"]?.bool == false, "a hash shows nobody else's content")
    let user = AssetUser(container: ObjectPlaneWorld.container, environment: .development, userRecordName: "_alice")
    let receipt = AssetReceipt(asset: asset, expiry: .max).text(for: user, signedWith: Array("signing key".utf8))
    let line =
      #"""
      {"record":{"recordName":"N","recordType":"File","fields":{"x":{"type":"ASSETID",\#
      "value":{"receipt":"\#(receipt)"}}},"created":{"timestamp":1,"userRecordName":"_a"},"modified":{"timestamp":1,\#
      "userRecordName":"_a"}}}
      """#
    #expect(try await world.zone("POST", "import", Array(line.utf8), as: .owner).status == 200)
    #expect(try await world.store.read { try $0.asset(withHash: asset.hash) }?.useCount == 1)
    #expect(try await world.zone("POST", "assets", Array(#"{"assets":[{"sha256":"x","size":3}]}"#.utf8)).status == 400)
  }
}

@Test(arguments: StoreKind.allCases)
func `a zone is its owner's and the operators', and the public database's the operators' alone`(_ kind: StoreKind)
  async throws
{
  try await ObjectPlaneWorld.with(kind) { world in
    try await world.setUp("A")
    try await world.setUp("P", scope: .public)
    for (method, call) in [("GET", "export"), ("POST", "import"), ("POST", "restore"), ("POST", "assets")] {
      #expect(try await world.zone(method, call, as: .nobody).status == 421, "\(call)")
      #expect(try await world.zone(method, call, scope: .shared, as: .owner).status == 400)
      #expect(
        try await world.zone(method, call, zone: ReservedName.defaultZone, scope: .public, as: .owner).status == 403)
      #expect(try await world.zone(method == "GET" ? "POST" : "GET", call, as: .owner).status == 405)
    }
    #expect(try await world.zone("GET", "export", as: .owner).status == 200)
    #expect(try await world.zone("GET", "export", zone: ReservedName.defaultZone, scope: .public).status == 200)
    #expect(try await world.zone("GET", "export", zone: "nowhere", as: .owner).status == 404)
    #expect(try await world.zone("GET", "lunch", as: .owner).status == 404)
    #expect(try await world.zone("GET", "export", zone: "_x", as: .owner).status == 404)
    #expect(try await world.zone("POST", "import", zone: "other", scope: .public).status == 400)
    for query in [["sequence": "x"], ["sequence": "999"], ["after": "T"], ["limit": "-"]] {
      #expect(try await world.zone("GET", "export", query: query, as: .owner).status == 400, "\(query)")
    }
  }
}
