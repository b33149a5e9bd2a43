import Assets
import DistantAssets
import FixedClocks
import Foundation
import JSON
import RecordStore
import Records
import ServiceBus
import Testing
import WebServices

@testable import ObjectPlane
@testable import SharedStores
@testable import WorkerHost

/// Assets in both planes, over a store with files.
struct AssetPlaneTests {
  /// Alice's databases in a shard on disk, and what she uploads.
  private struct Uploads {
    let world: RecordPlaneWorld
    let assets: AssetFolder
    let folder: String

    /// Runs `body` with contents in a folder, and again as if they were on a network.
    static func with(_ body: (Uploads) async throws -> Void) async throws {
      for isDistant in [false, true] { try await with(isDistant: isDistant, body) }
    }

    private static func with(isDistant: Bool, _ body: (Uploads) async throws -> Void) async throws {
      let folder = NSTemporaryDirectory() + "aquifer-asset-plane-\(UUID().uuidString)"
      defer { try? FileManager.default.removeItem(atPath: folder) }
      let assets = AssetFolder(directory: folder + "/assets")
      let seen: any AssetStore = isDistant ? DistantAssets(assets) : assets
      let store = try await SQLiteRecordStore(
        SQLiteConfiguration(directory: folder + "/shards", assets: seen), shardCount: 1
      ).open(shard: 0)
      let uploads = Uploads(world: RecordPlaneWorld(store, assets: seen), assets: assets, folder: folder)
      do {
        try await uploads.world.makeZone()
        try await body(uploads)
        let report = try await (store as? SQLiteShardStore)?.verify(readsAssets: true)
        #expect(report?.problems == [])
      } catch {
        await store.close()
        throw error
      }
      await store.close()
    }

    /// The dictionary a client gets for its upload.
    func upload(_ text: String, user: String = "_alice") throws -> String {
      AssetPlaneTests.dictionary(
        try assets.put(Array(text.utf8), until: AssetLifetime.uploadExpiry(at: world.clock.now)), user: user,
        now: world.clock.now)
    }

    func blob(_ name: String) async throws -> JSONValue? {
      try await world.lookUp([name]).records.first?["fields"]?["blob"]
    }
  }

  fileprivate static func dictionary(
    _ asset: Asset, user: String = "_alice", container: ContainerID = RecordPlaneWorld.container, now: Int64
  ) -> String {
    var writer = JSONWriter()
    AssetReceipt(asset: asset, expiry: AssetLifetime.uploadExpiry(at: now)).write(
      for: AssetUser(container: container, environment: .development, userRecordName: user),
      signedWith: Array("signing key".utf8), to: &writer)
    return String(decoding: writer.bytes, as: UTF8.self)
  }

  @Test func `a record takes what its user uploaded, shows it, and keeps it when it is sent back as shown`()
    async throws
  {
    try await Uploads.with { uploads in
      let world = uploads.world
      let saved = try await world.operate("create", "a", fields: #"{"blob":{"value":\#(try uploads.upload("hello"))}}"#)
        .records[0]
      #expect(saved["fields"]?["blob"]?["type"]?.string == "ASSETID")
      let shown = try #require(try await uploads.blob("a")?["value"])
      let segments = try #require(shown["downloadURL"]?.string).dropFirst("https://host/".count).split(separator: "/")
        .map(String.init)
      let url = try #require(
        AssetURL(segments: segments, signedWith: Array("signing key".utf8), now: world.clock.now / 1000))
      #expect(try uploads.assets.read(Asset(hash: url.hash, byteCount: 5), shard: url.shard) == Array("hello".utf8))
      #expect(
        AssetURL(segments: segments, signedWith: Array("signing key".utf8), now: world.clock.now / 1000 + 900) == nil)

      // Long after the upload was forgotten.
      _ = try uploads.assets.sweepSpool(now: .max / 2)
      let sent = #"{"fileChecksum":"\#(shown["fileChecksum"]?.string ?? "")","size":5,"downloadURL":"whatever"}"#
      let again = try await world.operate(
        "update", "a", tag: saved["recordChangeTag"]?.string,
        fields: #"{"blob":{"value":\#(sent)},"title":{"value":"t"}}"#)
      #expect(again.records[0]["fields"]?["blob"]?["value"]?["size"]?.int64 == 5)
      let other = try await world.operate("create", "b", fields: #"{"blob":{"value":\#(sent)}}"#)
      #expect(
        other.records[0]["reason"]?.string
          == "Note.blob: the asset has no receipt of this server: upload its content first")
    }
  }

  @Test
  func
    `content that is gone, another user's or another container's is refused naming the field, its siblings are saved`()
    async throws
  {
    try await Uploads.with { uploads in
      let world = uploads.world
      let gone = Self.dictionary(Asset(hash: [UInt8](repeating: 1, count: 32), byteCount: 3), now: world.clock.now)
      let foreign = Self.dictionary(
        try uploads.assets.put([1], until: .max / 2), container: try #require(ContainerID(rawValue: "iCloud.other")),
        now: world.clock.now)
      let bobs = try uploads.upload("bob's", user: "_bob")
      let operations = [gone, foreign, bobs, try uploads.upload("mine")].enumerated().map { index, value in
        #"""
        {"operationType":"create","record":{"recordName":"\#(index)","recordType":"Note",\#
        "fields":{"blob":{"value":\#(value)}}}}
        """#
      }
      let body = #"{"zoneID":{"zoneName":"Trips"},"atomic":false,"operations":[\#(operations.joined(separator: ","))]}"#
      let records = try await world.post("records/modify", body).records
      #expect(records[0]["reason"]?.string == "Note.blob: asset not found: upload it again")
      for index in 1...2 {
        #expect(records[index]["serverErrorCode"]?.string == "BAD_REQUEST")
        #expect(
          records[index]["reason"]?.string
            == "Note.blob: the asset's receipt is not this user's, or has expired: upload its content again")
      }
      #expect(records[3]["serverErrorCode"] == nil)
      for name in ["0", "1", "2"] {
        #expect(try await world.lookUp([name]).records[0]["serverErrorCode"]?.string == "NOT_FOUND")
      }
    }
  }

  @Test func `a repeated request is answered as stored, though its asset has left the record since`() async throws {
    try await Uploads.with { uploads in
      let world = uploads.world
      let saved = try await world.operate("create", "a", fields: #"{"blob":{"value":\#(try uploads.upload("hello"))}}"#)
        .records[0]
      let shown = try #require(saved["fields"]?["blob"]?["value"]?["fileChecksum"]?.string)
      let fields =
        #"{"blob":{"value":{"fileChecksum":"\#(shown)","size":5,"downloadURL":"x"}},"title":{"value":"t"}}"#
      let first = try await world.operate("forceUpdate", "a", fields: fields, requestID: "x:1").records[0]
      _ = try await world.operate(
        "forceUpdate", "a", fields: #"{"blob":{"value":\#(try uploads.upload("other"))},"n":{"value":1}}"#)
      let again = try await world.operate("forceUpdate", "a", fields: fields, requestID: "x:1").records[0]
      #expect(again.code == nil && again.tag == first.tag, "\(again.text)")
      #expect(again.value("title")?.string == "t")
      _ = try await world.operate("forceDelete", "a")
      let gone = try await world.operate("forceUpdate", "a", fields: fields, requestID: "x:1").records[0]
      #expect(gone.code == nil && gone.tag == first.tag, "\(gone.text)")
    }
  }

  @Test func `a receipt made anew is for another record, also when the first one is gone by then`() async throws {
    try await Uploads.with { uploads in
      let world = uploads.world
      let list =
        #"""
        {"blob":{"value":\#(try uploads.upload("hello"))},"files":{"value":[\#(try uploads.upload("1")),\#
        \#(try uploads.upload("2"))],"type":"ASSETID_LIST"}}
        """#
      _ = try await world.operate("create", "a", fields: list)
      _ = try uploads.assets.sweepSpool(now: .max / 2)
      let items = [("a", "blob"), ("a", "files"), ("a", "title"), ("absent", "blob")].map {
        #"{"recordName":"\#($0)","fieldName":"\#($1)"}"#
      }
      let body =
        #"""
        {"zoneID":{"zoneName":"Trips"},"targetZoneID":{"zoneName":"Other"},"assets":[\#(items.joined(separator: ","))]}
        """#
      let assets = try await world.post("assets/rereference", body).json["assets"]?.elements ?? []
      try #require(assets.count == 4)
      #expect(assets[1]["serverErrorCode"]?.string == "BAD_REQUEST")
      #expect(assets[2]["serverErrorCode"]?.string == "BAD_REQUEST")
      #expect(assets[3]["serverErrorCode"]?.string == "NOT_FOUND")
      #expect(assets[3]["recordName"]?.string == "absent")
      _ = try await world.operate("forceDelete", "a", type: nil)
      _ = try await world.store.collectAssets(orphanedBefore: .max, limit: 9).value
      let value = #"{"receipt":"\#(assets[0]["receipt"]?.string ?? "")"}"#
      #expect(
        try await world.operate("create", "b", fields: #"{"blob":{"value":\#(value),"type":"ASSETID"}}"#).records[0][
          "serverErrorCode"] == nil)
      #expect(try await uploads.blob("b")?["value"]?["size"]?.int64 == 5)
      // Another user's zone does not exist for bob.
      #expect(try await world.post("assets/rereference", body, user: "_bob").status == 404)
      for bad in ["{}", #"{"assets":[{"recordName":"a"}],"zoneID":{"zoneName":"Trips"}}"#] {
        #expect(try await world.post("assets/rereference", bad).status == 400)
      }
    }
  }

  @Test(arguments: [StoreKind.memory, .sqlite, .distant]) func `an object's attribute takes what its user uploaded`(
    _ kind: StoreKind
  ) async throws {
    try await ObjectPlaneWorld.with(kind) { world in
      try await world.setUp("A")
      let content = [UInt8](repeating: 7, count: 900_000)
      let asset = try world.assets.put(content, until: AssetLifetime.uploadExpiry(at: world.clock.now))
      func insert(_ id: String, _ dictionary: String) -> String {
        #"""
        {"changeType":"insert","entity":"PhotoData","objectID":"\#(id)","attributes":{"data":{"asset":\#(dictionary)}}}
        """#
      }
      let mine = Self.dictionary(asset, container: ObjectPlaneWorld.container, now: world.clock.now)
      let reply = try await world.save("A", insert("P", mine), query: ["wait": "export"])
      #expect(reply.status == 200, "\(reply.text)")
      let record = try #require(try await world.liveRecords().first)
      #expect(record.assets == [asset])

      let bobs = Self.dictionary(asset, user: "_bob", container: ObjectPlaneWorld.container, now: world.clock.now)
      for refused in [
        bobs, #"{"fileChecksum":"\#(asset.fileChecksum)","size":900000,"downloadURL":"https://host"}"#, "{}", "7",
      ] {
        let reply = try await world.save("A", insert("Q", refused))
        #expect(reply.status == 400)
        #expect(reply.reason?.contains("PhotoData.data: ") == true, "\(reply.text)")
      }
      #expect(try await world.liveRecords().count == 1)
    }
  }

  @Test func `a save whose contents had to be prepared again is exported like any other`() async throws {
    try await ObjectPlaneWorld.with(.distant) { world in
      try await world.setUp("A")
      let asset = try world.assets.put([1, 2, 3], until: AssetLifetime.uploadExpiry(at: world.clock.now))
      let mine = Self.dictionary(asset, container: ObjectPlaneWorld.container, now: world.clock.now)
      try await world.withExports {
        let distant = try #require(world.plane.context.object.assets as? DistantAssets)
        distant.forgetOnce()
        let reply = try await world.save(
          "A",
          #"{"changeType":"insert","entity":"PhotoData","objectID":"P","attributes":{"data":{"asset":\#(mine)}}}"#)
        #expect(reply.status == 200, "\(reply.text)")
        while try await world.liveRecords().isEmpty { try await Task.sleep(for: .milliseconds(1)) }
      }
      #expect(try await world.liveRecords().map(\.recordName) == ["P"])
    }
  }

  @Test(arguments: [StoreKind.memory, .sqlite, .distant])
  func `imports and objects show large bytes as links when asked to, and texts as themselves`(_ kind: StoreKind)
    async throws
  {
    try await ObjectPlaneWorld.with(kind) { world in
      try await world.setUp("A")
      try await world.setUp("B")
      let content = [UInt8](repeating: 7, count: 900_000)
      let text = String(repeating: "x", count: 900_000)
      _ = try await world.save(
        "A",
        #"""
        {"changeType":"insert","entity":"PhotoData","objectID":"large",\#
        "attributes":{"data":"\#(Data(content).base64EncodedString())"}},
        {"changeType":"insert","entity":"PhotoData","objectID":"small","attributes":{"data":"BwcH"}},
        {"changeType":"insert","entity":"Tag","objectID":"text","attributes":{"name":"\#(text)"}}
        """#, query: ["wait": "export"])
      func values(_ query: [String: String]) async throws -> [String: JSONValue] {
        let changes = try await world.get("B/changes", query).json["changes"]?.elements ?? []
        return Dictionary(
          uniqueKeysWithValues: changes.compactMap { change in
            (change["attributes"]?["data"] ?? change["attributes"]?["name"]).map {
              (change["objectID"]?.string ?? "", $0)
            }
          })
      }
      for query in [[:], ["assets": "inline"]] {
        let inline = try await values(query)
        #expect(
          inline["large"]?.string == Data(content).base64EncodedString() && inline["small"]?.string == "BwcH"
            && inline["text"]?.string == text)
      }
      let linked = try await values(["assets": "links"])
      #expect(linked["small"]?.string == "BwcH" && linked["text"]?.string == text)
      let asset = try #require(linked["large"]?["asset"])
      #expect(asset["size"]?.int64 == 900_000)
      let segments = try #require(asset["downloadURL"]?.string).dropFirst("https://host/".count).split(separator: "/")
        .map(String.init)
      let url = try #require(
        AssetURL(segments: segments, signedWith: Array("signing key".utf8), now: world.clock.now / 1000))
      #expect(try world.assets.read(Asset(hash: url.hash, byteCount: 900_000), shard: url.shard) == content)
      let object = try await world.get("B/objects/large", ["assets": "links"]).json["attributes"]?["data"]?["asset"]
      #expect(object?["size"]?.int64 == 900_000 && object?["fileChecksum"]?.string == asset["fileChecksum"]?.string)
      let whole = try await world.get("B/objects/large").json["attributes"]?["data"]?.string
      #expect(whole == Data(content).base64EncodedString())
      for path in ["B/changes", "B/objects/large"] {
        let refused = try await world.get(path, ["assets": "none"])
        #expect(refused.status == 400 && refused.reason == "assets is inline or links")
      }
    }
  }

  @Test(arguments: [StoreKind.sqlite, .distant])
  func `an export reads a large value that is not in memory, and moves one that its record has no room for`(
    _ kind: StoreKind
  ) async throws {
    try await ObjectPlaneWorld.with(kind) { world in
      try await world.setUp("A")
      let text = String(repeating: "x", count: 650_000)
      let key = try #require(try await world.store.read { try $0.mirrors(afterKey: 0, limit: 1).first?.key })
      // The save's own export does not run; a later one has only what is stored.
      world.plane.objects.exports.throttle([key: .max], on: 0)
      _ = try await world.save(
        "A", #"{"changeType":"insert","entity":"Photo","objectID":"P","attributes":{"displayName":"\#(text)"}}"#)
      #expect(try await world.liveRecords().isEmpty)
      world.plane.objects.exports.throttle([:], on: 0)
      #expect(try await world.get("A/changes").status == 200)
      #expect(try await world.liveRecords().first?.fields["CD_displayName"] == Field(.string(text)))
      let city = String(repeating: "y", count: 90_000)
      let change =
        #"{"changeType":"update","entity":"Photo","objectID":"P","attributes":{"place":{"city":"\#(city)"}}}"#
      _ = try await world.save("A", change, query: ["wait": "export"])
      let record = try #require(try await world.liveRecords().first)
      #expect(record.fields["CD_displayName"] == Field(.string(text)))
      let moved = try #require(record.assets.first)
      #expect(moved.byteCount > 90_000)
      #expect(try world.assets.read(moved, shard: 0).count == Int(moved.byteCount))
      let store = try #require(world.store as? SQLiteShardStore)
      #expect(try await store.verify(readsAssets: true).problems == [])
    }
  }

  @Test(arguments: [StoreKind.sqlite, .distant])
  func `large values of objects are kept for as long as their history`(_ kind: StoreKind) async throws {
    try await ObjectPlaneWorld.with(kind) { world in
      try await world.setUp("A")
      let value = String(repeating: "x", count: 900_000)
      for (type, id, value) in [("insert", "T1", value), ("update", "T2", "short")] {
        _ = try await world.save(
          "A", #"{"changeType":"\#(type)","entity":"Tag","objectID":"T","attributes":{"name":"\#(value)"}}"#, id: id,
          query: ["wait": "export"])
      }
      #expect(try await world.liveRecords().flatMap(\.assets) == [])
      // No record has it any more, its transaction has.
      #expect(try await world.store.collectAssets(orphanedBefore: .max, limit: 9).value == 0)
      let history = try await world.get("A/history").json["transactions"]?.elements.first?["changes"]?.elements.first
      #expect(history?["attributes"]?["name"]?.string?.utf8.count == 900_000)
      let store = try #require(world.store as? SQLiteShardStore)
      #expect(try await store.verify(readsAssets: true).problems == [])
    }
  }

  @Test func `the root record of a share has links that hold for its participant, and for nobody else`() async throws {
    try await Uploads.with { uploads in
      let world = uploads.world
      _ = try await world.operate(
        "create", "root", fields: #"{"blob":{"value":\#(try uploads.upload("hello"))}}"#)
      let shortGUID = try #require(try await world.shareHierarchy("root", with: ["bob"])["shortGUID"]?.string)
      for (user, reader) in [("_alice", nil), ("_bob", "_bob")] {
        let found = try await world.resolve(.resolve, [shortGUID], by: user, fetchesRoot: true)[0]
        let shown = found["rootRecord"]?["fields"]?["blob"]?["value"]?["downloadURL"]?.string
        let segments = try #require(shown, "\(found.text)").dropFirst("https://host/".count).split(separator: "/")
          .map(String.init)
        let url = try #require(
          AssetURL(segments: segments, signedWith: Array("signing key".utf8), now: world.clock.now / 1000))
        #expect(url.reader?.userRecordName == reader && url.reader?.zoneName == reader.map { _ in "Trips" })
      }
    }
  }
}
