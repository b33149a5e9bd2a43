// Encrypted attributes on the object plane and in exports: in no file, but in every answer for their user (T-M22).

import Crypto
import Foundation
import JSON
import Mirroring
import ObjectModel
import RecordStore
import Records
import Testing
import WebServices

struct EncryptionTests {
  private static let model = ManagedObjectModel(entities: [
    Entity(
      name: "Patient",
      attributes: [
        Attribute(name: "name", type: .string),
        Attribute(name: "diagnosis", type: .string, allowsCloudEncryption: true, preservesValueOnDeletion: true),
        Attribute(name: "scan", type: .binary, allowsCloudEncryption: true),
        Attribute(name: "weight", type: .double, allowsCloudEncryption: true),
      ])
  ])
  private static let modelHash = ModelIndex(model).modelHash

  private static func with(keys: KeyRing, assetThreshold: Int? = nil, _ body: (ObjectPlaneWorld) async throws -> Void)
    async throws
  {
    try await ObjectPlaneWorld.with(
      .sqlite, models: [.development: [model]], keepsPastStates: true, keys: keys, assetThreshold: assetThreshold, body)
  }

  private static func setUp(_ store: String, _ world: ObjectPlaneWorld) async throws {
    let reply = try await world.send(
      world.request("PUT", "stores/\(store)"), #"{"modelHash":"\#(modelHash)","device":{"name":"d"}}"#)
    try #require(reply.status == 200, "\(reply.text)")
  }

  /// How many files hold the bytes, of records, logs, spool and assets.
  private static func files(in world: ObjectPlaneWorld, with text: String) throws -> Int {
    let names = try #require(FileManager.default.enumerator(atPath: world.folder)?.allObjects as? [String])
    return names.count {
      FileManager.default.contents(atPath: world.folder + "/" + $0)?.range(of: Data(text.utf8)) != nil
    }
  }

  @Test(arguments: [20, 150_000, 800_000, 2_000_000])
  func `T-M22 an encrypted value of any length is in no file of the data folder, and in the answers to its user`(
    count: Int
  ) async throws {
    try await Self.with(keys: ObjectPlaneWorld.testKeys) { world in
      try await Self.setUp("A", world)
      let secret = "an-open-secret-" + String(repeating: "s", count: count)
      let scan = Data("another-open-secret ".utf8) + Data(repeating: 7, count: count)
      let attributes = #"{"name":"Ada","diagnosis":"\#(secret)","scan":"\#(scan.base64EncodedString())","weight":61.5}"#
      let saved = try await world.save(
        "A", #"{"changeType":"insert","entity":"Patient","objectID":"P","attributes":\#(attributes)}"#,
        query: ["wait": "export"])
      #expect(saved.status == 200, "\(saved.text)")
      // A past state, and the fields that a tombstone keeps.
      _ = try await world.save(
        "A", #"{"changeType":"update","entity":"Patient","objectID":"P","attributes":{"weight":62}}"#,
        query: ["wait": "export"])
      let record = try #require(try await world.liveRecords().first)
      #expect(
        record.fields["CD_weight"] == Field(.double(62), isEncrypted: true)
          && record.fields["CD_name"]?.isEncrypted == false)
      for text in ["an-open-secret", "another-open-secret"] { #expect(try Self.files(in: world, with: text) == 0) }
      #expect(try Self.files(in: world, with: "Patient") > 0, "the look into the files sees")

      try await Self.setUp("B", world)
      let page = try await world.get("B/changes")
      let imported = try #require(page.json["changes"]?.elements.first?["attributes"])
      if count < 1_000_000 {
        #expect(imported["diagnosis"]?.string == secret && imported["scan"]?.base64.map { Data($0) } == scan)
      }
      #expect(imported["weight"]?.double == 62)
      #expect(try await world.get("A/objects/P/explain").text.contains("open-secret") == false)
      let deleted = try await world.save(
        "A", #"{"changeType":"delete","entity":"Patient","objectID":"P"}"#, query: ["wait": "export"])
      #expect(deleted.status == 200)
      let history = try await world.get("A/history")
      #expect(history.status == 200 && history.json["transactions"]?.elements.count == 3)
      for text in ["an-open-secret", "another-open-secret"] { #expect(try Self.files(in: world, with: text) == 0) }
    }
  }

  @Test func `T-M22 without a key an encrypted value is refused with what is to be done, and others are saved`()
    async throws
  {
    try await Self.with(keys: KeyRing()) { world in
      try await Self.setUp("A", world)
      let refused = try await world.save(
        "A", #"{"changeType":"insert","entity":"Patient","objectID":"P","attributes":{"diagnosis":"flu"}}"#)
      #expect(
        refused.status == 503 && refused.json["reason"]?.string?.contains("--encryption-key") == true, "\(refused.text)"
      )
      #expect(try await world.get("A/history").json["transactions"]?.elements.count == 0)
      let saved = try await world.save(
        "A", #"{"changeType":"insert","entity":"Patient","objectID":"P","attributes":{"name":"Ada"}}"#,
        query: ["wait": "export"])
      #expect(saved.status == 200)
      #expect(try await world.liveRecords().count == 1)
    }
  }

  @Test
  func `T-M08 with a threshold of the installation's, values below it are inline and those that reach it are assets`()
    async throws
  {
    try await Self.with(keys: ObjectPlaneWorld.testKeys, assetThreshold: 100) { world in
      try await Self.setUp("A", world)
      for count in [99, 100] {
        let insert =
          #"""
          {"changeType":"insert","entity":"Patient","objectID":"P\#(count)",\#
          "attributes":{"name":"\#(String(repeating: "n", count: count))"}}
          """#
        _ = try await world.save("A", insert, query: ["wait": "export"])
      }
      let records = try await world.liveRecords()
      #expect(records.map(\.recordName) == ["P100", "P99"])
      #expect(records[0].fields["CD_name"] == nil && records[0].assets.count == 1)
      #expect(records[1].fields.string("CD_name")?.count == 99 && records[1].assets.isEmpty)
      try await Self.setUp("B", world)
      let changes = try await world.get("B/changes").json["changes"]?.elements ?? []
      #expect(Set(changes.compactMap { $0["attributes"]?["name"]?.string?.count }) == [99, 100])
    }
  }
}
