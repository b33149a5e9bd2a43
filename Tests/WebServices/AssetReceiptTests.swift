import JSON
import ObjectModel
import Records
import Testing
import WebServices

@Suite struct `Asset receipts and upload URLs` {
  static let key = [UInt8](repeating: 7, count: 32)
  static let asset = Asset(hash: (0..<32).map { UInt8($0) }, byteCount: 11)

  static func user(
    _ name: String = "_alice", _ container: String = "iCloud.a", _ environment: Environment = .development
  ) -> AssetUser {
    AssetUser(container: ContainerID(rawValue: container)!, environment: environment, userRecordName: name)
  }

  @Test func `a receipt is good for its user until it expires`() {
    let receipt = AssetReceipt(asset: Self.asset, expiry: 1000)
    let text = receipt.text(for: Self.user(), signedWith: Self.key)
    #expect(AssetReceipt(text: text, of: Self.user(), signedWith: Self.key, now: 999) == receipt)
    #expect(AssetReceipt(text: text, of: Self.user(), signedWith: Self.key, now: 1000) == nil)
    #expect(AssetReceipt(text: text, of: Self.user(), signedWith: [1], now: 0) == nil)
    // Also where one user's name continues another's container.
    for other in [
      Self.user("_bob"), Self.user("_alice", "iCloud.b"), Self.user("_alice", "iCloud.a", .production),
      Self.user("a_alice", "iCloud."),
    ] {
      #expect(AssetReceipt(text: text, of: other, signedWith: Self.key, now: 0) == nil)
    }
  }

  @Test func `an upload's path is good until it expires`() throws {
    let url = AssetUploadURL(user: Self.user(), expiry: 1000)
    let segments = url.path(signedWith: Self.key).split(separator: "/").map(String.init)
    #expect(Array(segments.prefix(3)) == ["assets", "1", "upload"])
    #expect(AssetUploadURL(segments: segments, signedWith: Self.key, now: 999) == url)
    #expect(AssetUploadURL(segments: segments, signedWith: Self.key, now: 1000) == nil)
    #expect(AssetUploadURL(segments: segments, signedWith: [1], now: 0) == nil)
    #expect(AssetUploadURL(segments: segments + ["x"], signedWith: Self.key, now: 0) == nil)
    // Texts made for other purposes with the same key.
    let receipt = AssetReceipt(asset: Self.asset, expiry: 1000).text(for: Self.user(), signedWith: Self.key)
    let courier = CourierToken(
      container: ContainerID(rawValue: "iCloud.a")!, environment: .development, userRecordName: "_alice",
      clientID: "9999", grant: "g", expiry: .max
    )
    .text(signedWith: Self.key)
    for text in [receipt, courier] {
      #expect(AssetUploadURL(segments: segments.dropLast() + [text], signedWith: Self.key, now: 0) == nil)
    }
  }

  @Test func `altered at any byte, or cut short anywhere, neither is good`() throws {
    let path = AssetUploadURL(user: Self.user(), expiry: 1000).path(signedWith: Self.key)
    let receipt = AssetReceipt(asset: Self.asset, expiry: 1000).text(for: Self.user(), signedWith: Self.key)
    func isGood(_ path: [UInt8]) -> Bool {
      AssetUploadURL(
        segments: String(decoding: path, as: UTF8.self).split(separator: "/").map(String.init), signedWith: Self.key,
        now: 0) != nil
    }
    func isReceipt(_ text: [UInt8]) -> Bool {
      AssetReceipt(text: String(decoding: text, as: UTF8.self), of: Self.user(), signedWith: Self.key, now: 0) != nil
    }
    #expect(isGood(Array(path.utf8)) && isReceipt(Array(receipt.utf8)))
    for (text, check) in [(Array(path.utf8), isGood), (Array(receipt.utf8), isReceipt)] {
      for index in text.indices where text[index] != UInt8(ascii: "/") {
        var altered = text
        altered[index] = altered[index] == UInt8(ascii: "Q") ? UInt8(ascii: "g") : UInt8(ascii: "Q")
        #expect(!check(altered), "byte \(index)")
        #expect(!check(Array(text[..<index])), "cut at \(index)")
      }
    }
  }

  @Test func `the answer to an upload has the five keys`() throws {
    var writer = JSONWriter()
    AssetReceipt(asset: Self.asset, expiry: 1000).write(for: Self.user(), signedWith: Self.key, to: &writer)
    let json = try JSONValue(parsing: writer.bytes)
    #expect(json["fileChecksum"]?.base64?.count == 21)
    #expect(json["size"]?.int64 == 11)
    #expect(json["wrappingKey"]?.base64?.count == 16)
    #expect(json["referenceChecksum"]?.string == json["fileChecksum"]?.string)
    #expect(
      AssetReceipt(text: json["receipt"]?.string ?? "", of: Self.user(), signedWith: Self.key, now: 0)?.asset
        == Self.asset)
  }
}

@Suite struct `Assets in records` {
  static let zone = Zone.ID(zoneName: "Trips", ownerName: "_alice")
  static let first = Asset(hash: [UInt8](repeating: 1, count: 32), byteCount: 11)
  static let second = Asset(hash: [UInt8](repeating: 2, count: 32), byteCount: 22)
  static let reader = AssetReader(
    user: `Asset receipts and upload URLs`.user(), key: `Asset receipts and upload URLs`.key, now: 500)

  static func receipt(_ asset: Asset, user: String = "_alice", expiry: Int64 = 1000) -> String {
    let text = AssetReceipt(asset: asset, expiry: expiry).text(
      for: `Asset receipts and upload URLs`.user(user), signedWith: `Asset receipts and upload URLs`.key)
    return #"{"fileChecksum":"\#(asset.fileChecksum)","size":\#(asset.byteCount),"receipt":"\#(text)"}"#
  }

  static func shown(_ asset: Asset) -> String {
    #"{"fileChecksum":"\#(asset.fileChecksum)","size":\#(asset.byteCount),"downloadURL":"https://host/somewhere"}"#
  }

  static func operation(_ fields: String, kind: String = "forceUpdate") throws -> RecordOperation {
    let body =
      #"""
      {"operations":[{"operationType":"\#(kind)","record":{"recordName":"a","recordType":"Note",\#
      "fields":{\#(fields)}}}]}
      """#
    let json = try JSONValue(parsing: Array(body.utf8))
    return try ModifyRecordsRequest(json, zone: zone, schema: SchemaIndex(Schema()), assets: reader) { "new" }
      .operations[0]
  }

  /// The fields after an operation on a record with the fields `present`, or the refusal.
  static func outcome(_ operation: RecordOperation, on present: Fields? = nil) -> Result<Fields, RecordError> {
    Result { () throws(RecordError) in
      let stamp = Stamp(timestamp: 1, userRecordName: "_alice")
      let existing = present.map {
        RecordOperation.Existing(
          record: Record(recordName: "a", recordType: "Note", fields: $0, created: stamp, modified: stamp), sequence: 1)
      }
      guard case .save(let record) = try operation.decision(meeting: existing, stamp: stamp) else {
        throw RecordError(.internalError, "not saved")
      }
      return record.fields
    }
  }

  @Test func `a receipt becomes an asset, in a list and with either type's spelling, too`() throws {
    #expect(
      try Self.outcome(Self.operation(#""f":{"value":\#(Self.receipt(Self.first))}"#))
        == .success(["f": .asset(Self.first)]))
    for type in ["ASSET", "ASSETID"] {
      #expect(
        try Self.outcome(Self.operation(#""f":{"value":\#(Self.receipt(Self.first)),"type":"\#(type)"}"#))
          == .success(["f": .asset(Self.first)]))
    }
    let list = #"[\#(Self.receipt(Self.first)),\#(Self.receipt(Self.second))]"#
    #expect(
      try Self.outcome(Self.operation(#""f":{"value":\#(list),"type":"ASSETID_LIST"}"#))
        == .success(["f": .list(element: .asset, [.asset(Self.first), .asset(Self.second)])]))
  }

  @Test func `a receipt of another user, or an old one, is refused naming the field`() throws {
    for receipt in [
      Self.receipt(Self.first, user: "_bob"), Self.receipt(Self.first, expiry: 500),
      #"{"receipt":"","fileChecksum":"","size":1}"#,
    ] {
      guard case .failure(let error) = try Self.outcome(Self.operation(#""f":{"value":\#(receipt),"type":"ASSETID"}"#))
      else {
        Issue.record("it was taken")
        continue
      }
      #expect(error.code == .badRequest)
      #expect(
        error.reason == "Note.f: the asset's receipt is not this user's, or has expired: upload its content again")
    }
  }

  @Test(arguments: ["forceUpdate", "forceReplace"]) func `an asset sent back as it was shown stays what it is`(
    kind: String
  ) throws {
    let present: Fields = [
      "f": .asset(Self.first), "l": .list(element: .asset, [.asset(Self.first), .asset(Self.second)]),
    ]
    let sent =
      #"""
      "f":{"value":\#(Self.shown(Self.first))},"l":{"value":[\#(Self.shown(Self.second)),\#
      \#(Self.receipt(Self.first))],"type":"ASSETID_LIST"}
      """#
    #expect(
      try Self.outcome(Self.operation(sent, kind: kind), on: present)
        == .success(["f": .asset(Self.first), "l": .list(element: .asset, [.asset(Self.second), .asset(Self.first)])]))
  }

  @Test func `an asset that the record has not is not had by showing it`() throws {
    let present: Fields = ["f": .asset(Self.first), "g": .int64(1)]
    var longer = Self.first
    longer.byteCount += 1
    for sent in [
      #""f":{"value":\#(Self.shown(Self.second))}"#, #""g":{"value":\#(Self.shown(Self.first))}"#,
      #""f":{"value":\#(Self.shown(longer))}"#,
    ] {
      for present in [present, nil] {
        guard case .failure(let error) = try Self.outcome(Self.operation(sent), on: present) else {
          Issue.record("it was taken: \(sent)")
          continue
        }
        #expect(error.reason.hasSuffix(": the asset has no receipt of this server: upload its content first"))
        #expect(error.reason.hasPrefix("Note."))
      }
    }
  }
}
