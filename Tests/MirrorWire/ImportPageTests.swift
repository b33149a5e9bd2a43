// Pages as the server writes them, and pages that no server writes.

import MirrorWire
import Testing

private let zone = #"{"zoneName":"z","ownerRecordName":"_o","zoneType":"REGULAR_CUSTOM_ZONE"}"#

/// A change of every type, and every key of a page.
private let text = #"""
  {"changes":[
   {"changeType":"zone","zoneID":\#(zone),"reason":"purged","action":"delete","recovery":9},
   {"redelivered":true,"changeType":"save","entity":"Post","objectID":"a","zoneID":\#(zone),
    "attributes":{"title":"a\"\\\/\b\f\n\r\té😀","score":-7,"ratio":1.5e2,"isOn":true,"none":null,
     "photo":{"asset":{"fileChecksum":"AQ==","size":3,"downloadURL":"http://x/y"}},"home":{"city":"Köln",\#
  "rooms":{"n":2}}},
    "relationships":{"cover":"c","author":null},"recordChangeTag":"7",
    "modified":{"timestamp":1795160004123,"userRecordName":"_u","deviceID":null}},
   {"changeType":"delete","entity":"Post","objectID":"b","zoneID":\#(zone)},
   {"changeType":"link","relationship":"tags","entity":"Post","objectID":"a","target":{"entity":"Tag","objectID":"t"}},
   {"changeType":"unlink","relationship":"tags","entity":"Post","objectID":"a","target":{"entity":"Tag",\#
  "objectID":"u"}},
   {"changeType":"move","objectID":"a","from":\#(zone),"to":\#(zone)},
   {"changeType":"share","zoneID":\#(zone)},
   {"changeType":"ofLater","deep":[[{}],[]]}],
   "quarantined":[{"objectID":"q","entity":"Post","ckErrorCode":12,"serverErrorCode":"BAD_REQUEST","reason":"r"}],
   "importToken":"tok","moreComing":true,"caughtUp":false,"progress":{"done":1,"total":2},"initialImport":{"done":true},
   "reset":{"reason":"Other","done":false},"later":[1,2]}
  """#

@Suite struct ImportPageTests {
  @Test func `a page has every change that it tells, and passes over what a later server adds`() throws {
    let page = try ImportPage(json: Array(text.utf8))
    let zoneID = ZoneID(zoneName: "z", ownerRecordName: "_o")
    let object = ImportedObject(
      entity: "Post", objectID: "a", zoneID: zoneID,
      attributes: [
        "title": .string("a\"\\/\u{8}\u{c}\n\r\té😀"), "score": .integer(-7), "ratio": .double(150),
        "isOn": .boolean(true),
        "none": .null, "photo": .asset(AssetReference(fileChecksum: "AQ==", size: 3, downloadURL: "http://x/y")),
        "home": .composite(["city": .string("Köln"), "rooms": .composite(["n": .integer(2)])]),
      ],
      relationships: ["cover": "c", "author": nil], recordChangeTag: "7",
      modified: Stamp(timestamp: 1_795_160_004_123, userRecordName: "_u", deviceID: nil), redelivered: true)
    func link(_ target: String) -> Link {
      Link(relationship: "tags", entity: "Post", objectID: "a", targetEntity: "Tag", targetID: target)
    }
    #expect(
      page.changes == [
        .zone(EndedZone(zoneID: zoneID, reason: "purged", action: .delete, recovery: 9)), .save(object),
        .delete(entity: "Post", objectID: "b", zoneID: zoneID), .link(link("t")), .unlink(link("u")),
        .move(objectID: "a", from: zoneID, to: zoneID), .share(zoneID),
      ])
    #expect(page.importToken == "tok" && page.moreComing && !page.caughtUp && page.isInitialImportDone)
    #expect(page.progress == .init(done: 1, total: 2) && page.reset == .init(reason: "Other", done: false))
    #expect(page.quarantined.map(\.objectID) == ["q"])
  }

  @Test func `a page that is cut anywhere is an error`() {
    let bytes = Array(text.utf8)
    for count in bytes.indices { #expect(throws: WireError.self) { try ImportPage(json: Array(bytes[..<count])) } }
  }

  @Test func `a byte that is another is an error or another page, and never a crash`() {
    let bytes = Array(text.utf8)
    var refused = 0
    for place in bytes.indices {
      for byte in [0, 0x22, 0x5b, 0x7b, 0x7d, 0x2c, 0x5c, 0x80, 0xff] as [UInt8] {
        var damaged = bytes
        damaged[place] = byte
        if (try? ImportPage(json: damaged)) == nil { refused += 1 }
      }
    }
    #expect(refused > bytes.count)
  }

  @Test(arguments: [
    "", "{", "[]", "{}", #"{"importToken":7}"#, #"{"importToken":"a","changes":[{"changeType":"save"}]}"#,
    #"{"importToken":"a"} x"#, #"{"importToken":"\ud800"}"#, #"{"importToken":"\ud800A"}"#, #"{"importToken":"\u12"}"#,
    #"{"importToken":"a","moreComing":tru}"#, #"{"importToken":"a","later":1e999}"#,
    #"{"importToken":"a","changes":[{"changeType":"zone","zoneID":{},"action":"burn"}]}"#,
    #"{"importToken":"a","later":\#(String(repeating: "[", count: 5000))}"#,
  ]) func `what is no page is refused`(_ text: String) {
    #expect(throws: WireError.self) { try ImportPage(json: Array(text.utf8)) }
  }

  @Test func `values are the same when they are written and read, by either reader`() throws {
    let values: [String: AttributeValue] = [
      "a": .null, "b": .boolean(false), "c": .integer(.min), "d": .integer(.max), "e": .double(-0.25),
      "f": .string("\u{0}é\"/😀"),
      "g": .composite(["x": .composite(["y": .null])]),
      "h": .asset(AssetReference(fileChecksum: "AQ==", size: 5, receipt: "r")),
    ]
    let change = ObjectChange(
      .insert, entity: "Post", objectID: "a", attributes: values,
      relationships: [
        "one": .toOne("x"), "none": .toOne(nil), "set": .toMany(["a", "b"]),
        "edits": .toManyEdits(add: ["c"], remove: []),
      ])
    let transaction = Transaction(
      transactionID: "t", timestamp: WireDate.text(milliseconds: 0), author: "app", changes: [change])
    #expect(try Transaction(json: try transaction.json()) == transaction)
    // The reader of pages reads what the encoder writes.
    let attributes = String(decoding: try values.json(), as: UTF8.self)
    let page =
      #"""
      {"importToken":"a","changes":[{"changeType":"save","objectID":"o","zoneID":\#(zone),"attributes":\#(attributes)}]}
      """#
    guard case .save(let object)? = try ImportPage(json: Array(page.utf8)).changes.first else {
      Issue.record("no object")
      return
    }
    #expect(object.attributes == values)
  }

  @Test func `a set-up says whose objects the client has, or that they are nobody's, or nothing`() throws {
    func text(_ request: SetUpRequest) throws -> String { String(decoding: try request.json(), as: UTF8.self) }
    #expect(try text(SetUpRequest(modelHash: "h")) == #"{"modelHash":"h"}"#)
    #expect(try text(SetUpRequest(modelHash: "h", owner: .nobody)) == #"{"account":null,"modelHash":"h"}"#)
    #expect(
      try text(SetUpRequest(modelHash: "h", deviceName: "Phone", owner: .user(recordName: "_u"), lease: 60))
        == #"{"account":"_u","device":{"name":"Phone"},"lease":60,"modelHash":"h"}"#)
  }

  @Test func `an error says which transaction was refused, and what to do`() throws {
    let text =
      #"""
      {"uuid":"u","serverErrorCode":"BAD_REQUEST","reason":"transactions[3]: changes[0]: Tag.nam: no","ckErrorCode":12}
      """#
    var error = try ServerError(json: Array(text.utf8))
    error.status = 400
    #expect(error.refusedTransaction == 3 && error.remedy == .none && error.requestID == "u")
    error.status = 404
    error.serverErrorCode = "NOT_FOUND"
    #expect(error.remedy == .none)
    error.reason = "There is no store"
    #expect(error.remedy == .setUpAgain && error.refusedTransaction == nil)
  }
}

@Suite struct WireDateTests {
  /// Days of each month are counted one by one.
  @Test func `every day from 1900 to 2100 is written and read as a calendar has it`() {
    var (year, month, day) = (1900, 1, 1)
    var milliseconds: Int64 = -2_208_988_800_000
    func two(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }
    while year < 2101 {
      let text = "\(year)-\(two(month))-\(two(day))T13:02:03.045Z"
      let expected = milliseconds + 46_923_045
      if WireDate.text(milliseconds: expected) != text || WireDate.milliseconds(text) != expected {
        Issue.record("\(text)")
      }
      let isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
      let length = [31, isLeap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month - 1]
      day += 1
      if day > length { (month, day) = (month + 1, 1) }
      if month > 12 { (year, month) = (year + 1, 1) }
      milliseconds += 86_400_000
    }
  }

  @Test(arguments: [
    "", "2026-11-20", "2026-02-29T00:00:00Z", "2026-13-01T00:00:00Z", "2026-11-20T24:00:00Z", "2026-11-20T07:33:24.Z",
    "2026-11-20T07:33:24.1234567890Z", "2026-11-20T07:33:24+01:00", "2026-11-20T07:33:24Zx", "-2026-11-20T07:33:24Z",
  ]) func `other text is no date`(_ text: String) { #expect(WireDate.milliseconds(text) == nil) }

  @Test func `decimals beyond milliseconds are cut off, and years beyond four digits have a sign`() {
    #expect(WireDate.milliseconds("1970-01-01T00:00:00.0019Z") == 1)
    for milliseconds in [253_402_300_800_000, -62_198_755_200_000] as [Int64] {
      #expect(WireDate.milliseconds(WireDate.text(milliseconds: milliseconds)) == milliseconds)
    }
  }
}
