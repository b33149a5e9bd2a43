import JSON
import Records
import Testing

@testable import WebServices

@Suite struct `Subscriptions` {
  static func subscription(_ text: String) throws -> Subscription {
    try Subscription(try Wire.json(text), owner: "_alice", schema: Wire.schema) { "made" }
  }

  static func shown(_ text: String) throws -> String {
    String(decoding: try subscription(text).json(owner: "_alice"), as: UTF8.self)
  }

  @Test(arguments: [
    (
      #"{"subscriptionType":"database"}"#, #"{"subscriptionID":"made","subscriptionType":"database","firesOnce":false}"#
    ),
    (
      #"{"subscriptionID":"s","subscriptionType":"zone","zoneID":"Trips","firesOnce":true,"notificationInfo":{}}"#,
      #"""
      {"subscriptionID":"s","subscriptionType":"zone","zoneID":{"zoneName":"Trips","ownerRecordName":"_alice",\#
      "zoneType":"REGULAR_CUSTOM_ZONE"},"firesOnce":true,"notificationInfo":{}}
      """#
    ),
    (
      #"""
      {"subscriptionID":"s","subscriptionType":"query","query":{"recordType":"Note","filterBy":[],"extra":null},\#
      "firesOn":["delete","CREATE","create"],"unknown":1}
      """#,
      #"""
      {"subscriptionID":"s","subscriptionType":"query","zoneID":{"zoneName":"_defaultZone","ownerRecordName":"_alice",\#
      "zoneType":"DEFAULT_ZONE"},"zoneWide":false,"query":{"recordType":"Note","filterBy":[],"extra":null},\#
      "firesOn":["create","delete"],"firesOnce":false}
      """#
    ),
    (
      #"""
      {"subscriptionID":"s","subscriptionType":"query","zoneWide":true,"query":{"recordType":"Note"},\#
      "firesOn":["update"],"notificationInfo":{"alertBody":"b","alertLocalizationKey":"k",\#
      "alertLocalizationArgs":["a","b"],"alertActionLocalizationKey":"ak","alertLaunchImage":"i","soundName":"s",\#
      "shouldBadge":true,"shouldSendContentAvailable":true,"additionalFields":["f"],"category":"c","x":[]}}
      """#,
      #"""
      {"subscriptionID":"s","subscriptionType":"query","zoneWide":true,"query":{"recordType":"Note"},\#
      "firesOn":["update"],"firesOnce":false,"notificationInfo":{"alertBody":"b","alertLocalizationKey":"k",\#
      "alertLocalizationArgs":["a","b"],"alertActionLocalizationKey":"ak","alertLaunchImage":"i","soundName":"s",\#
      "shouldBadge":true,"shouldSendContentAvailable":true,"additionalFields":["f"],"category":"c"}}
      """#
    ),
  ])
  func `a stored subscription says what the client meant, and reads as the same again`(sent: String, shown: String)
    throws
  {
    #expect(try Self.shown(sent) == shown)
    #expect(try Self.shown(shown) == shown)
  }

  @Test func `all zones are meant only where none is named`() throws {
    let query = #""subscriptionType":"query","query":{"recordType":"Note"},"firesOn":["create"]"#
    #expect(try Self.subscription(#"{\#(query)}"#).zone == .defaultZone)
    #expect(try Self.subscription(#"{\#(query),"zoneWide":true}"#).zone == nil)
    #expect(
      try Self.subscription(#"{\#(query),"zoneWide":true,"zoneID":{"zoneName":"Trips"}}"#).zone?.zoneName == "Trips")
  }

  static let bad: [(String, String)] = [
    ("{}", "subscriptionType is missing"),
    (#"{"subscriptionType":"record"}"#, "subscriptionType must be zone, query or database, not 'record'"),
    (#"{"subscriptionType":"zone"}"#, "zoneID is missing: a zone subscription must name its zone"),
    (#"{"subscriptionType":"zone","zoneID":7}"#, "zoneID must be an object"),
    (#"{"subscriptionType":"database","subscriptionID":""}"#, "subscriptionID has 1 to 255 printable ASCII characters"),
    (
      #"{"subscriptionType":"database","subscriptionID":"a\u0000"}"#,
      "subscriptionID has 1 to 255 printable ASCII characters"
    ),
    (#"{"subscriptionType":"database","subscriptionID":7}"#, "subscriptionID must be a string"),
    (#"{"subscriptionType":"database","firesOnce":1}"#, "firesOnce must be true or false"),
    (#"{"subscriptionType":"query","firesOn":["create"]}"#, "query is missing"),
    (#"{"subscriptionType":"query","firesOn":["create"],"query":{}}"#, "query: recordType is missing"),
    (
      #"{"subscriptionType":"query","query":{"recordType":"Note"}}"#,
      "firesOn is missing: a query subscription must name create, update or delete, or several of them"
    ),
    (
      #"{"subscriptionType":"query","query":{"recordType":"Note"},"firesOn":[]}"#,
      "firesOn is missing: a query subscription must name create, update or delete, or several of them"
    ),
    (
      #"{"subscriptionType":"query","query":{"recordType":"Note"},"firesOn":["read"]}"#,
      "firesOn has 'read': it takes create, update, delete"
    ),
    (#"{"subscriptionType":"query","query":{"recordType":"Note"},"firesOn":[1]}"#, "firesOn[0] must be a string"),
    (#"{"subscriptionType":"database","notificationInfo":[]}"#, "notificationInfo must be an object"),
    (
      #"{"subscriptionType":"database","notificationInfo":{"alertBody":1}}"#,
      "notificationInfo: alertBody must be a string"
    ),
    (
      #"{"subscriptionType":"database","notificationInfo":{"shouldBadge":"yes"}}"#,
      "notificationInfo: shouldBadge must be true or false"
    ),
    (
      #"{"subscriptionType":"database","notificationInfo":{"additionalFields":"f"}}"#,
      "notificationInfo: additionalFields must be an array"
    ),
    (
      #"""
      {"subscriptionType":"database","notificationInfo":{"additionalFields":\#
      [\#((0..<33).map { #""f\#($0)""# }.joined(separator: ","))]}}
      """#,
      "notificationInfo: additionalFields has 33 items, the limit is 32"
    ),
  ]

  @Test(arguments: bad) func `an impossible subscription is refused by name`(text: String, reason: String) throws {
    #expect(throws: RecordError(.badRequest, reason)) { try Self.subscription(text) }
  }

  @Test(arguments: [
    ("NEAR", #"{"latitude":1,"longitude":2}"#, "location"), ("CONTAINS_ALL_TOKENS", #""a b""#, "string"),
    ("CONTAINS_ANY_TOKENS", #""a b""#, "string"),
  ])
  func `distances and words are not for subscriptions`(comparator: String, value: String, field: String) throws {
    let filter =
      #"{"fieldName":"\#(field)","comparator":"\#(comparator)","distance":5,"fieldValue":{"value":\#(value)}}"#
    do {
      _ = try Self.subscription(
        #"{"subscriptionType":"query","firesOn":["create"],"query":{"recordType":"Note","filterBy":[\#(filter)]}}"#)
      Issue.record("nothing was refused")
    } catch let error as RecordError {
      #expect(error.code == .badRequest)
      #expect(error.reason.contains(comparator))
    }
  }

  // MARK: Requests

  static func operations(_ text: String) throws -> [SubscriptionOperation] {
    try SubscriptionOperation.operations(of: try Wire.json(text), owner: "_alice", schema: Wire.schema) { "made \($0)" }
  }

  @Test func `a bad subscription is its own operation's trouble, and one without a name gets one`() throws {
    let operations = try Self.operations(
      #"""
      {"operations":[{"operationType":"create","subscription":{"subscriptionType":"database"}},\#
      {"operationType":"create","subscription":{"subscriptionType":"x"}},{"operationType":"delete",\#
      "subscription":{"subscriptionID":"d"}},{"operationType":"update","subscription":{"subscriptionID":"u",\#
      "subscriptionType":"database"}}]}
      """#
    )
    #expect(operations.map(\.subscriptionID) == ["made 0", "made 1", "d", "u"])
    #expect(operations.map { (try? $0.subscription?.get()) != nil } == [true, false, false, true])
    #expect(operations[2].subscription == nil)
  }

  @Test(arguments: [
    ("{}", "operations is missing"),
    (
      #"{"operations":[{"operationType":"replace","subscription":{}}]}"#,
      "operations[0]: unknown operationType 'replace'"
    ),
    (#"{"operations":[{"operationType":"create"}]}"#, "operations[0]: subscription is missing"),
    (
      #"{"operations":[{"operationType":"delete","subscription":{}}]}"#,
      "operations[0]: subscription.subscriptionID is missing"
    ),
    (
      #"""
      {"operations":[{"operationType":"delete","subscription":{"subscriptionID":"s"}},{"operationType":"delete",\#
      "subscription":{"subscriptionID":"s"}}]}
      """#,
      "You can't modify the subscription 's' twice in one request"
    ),
    (
      #"{"operations":["#
        + (0...200).map { _ in #"{"operationType":"create","subscription":{}}"# }.joined(separator: ",") + "]}",
      "operations has 201 items, the limit is 200"
    ),
  ])
  func `a request that can't be taken apart is refused as a whole`(text: String, reason: String) throws {
    #expect(throws: RecordError(.badRequest, reason)) { try Self.operations(text) }
  }

  @Test func `a subscription has a size that a list of them can bear`() throws {
    func operation(_ length: Int) throws -> SubscriptionOperation {
      let body = String(repeating: "x", count: length)
      return try Self.operations(
        #"""
        {"operations":[{"operationType":"create","subscription":{"subscriptionType":"database",\#
        "notificationInfo":{"alertBody":"\#(body)"}}}]}
        """#
      )[0]
    }
    #expect(throws: Never.self) { try operation(7800).subscription?.get() }
    #expect(throws: RecordError.self) { try operation(8000).subscription?.get() }
  }
}

/// The JSON bodies, written out by hand from docs/protocol/record-plane.md#web-courier.
@Suite struct `Notification bodies` {
  static let container = ContainerID(rawValue: "iCloud.x")
  static let zone = Zone.ID(zoneName: "Trips", ownerName: "_me")
  static let record = Record(
    recordName: "r/1", recordType: "Note",
    fields: [
      "asset": .asset(Asset(hash: [UInt8](repeating: 1, count: 32), byteCount: 5)), "bytes": .bytes([1, 2, 255]),
      "double": .double(1.5), "int": .int64(7),
      "list": .list(element: .string, [.string("a"), .string("b")]),
      "location": .location(Location(latitude: 1.5, longitude: -2)),
      "reference": .reference(Reference(recordName: "other", action: .none)), "string": .string("say \"hi\""),
      "time": .timestamp(1_700_000_000_000),
    ], created: Stamp(timestamp: 1, userRecordName: "_me"), modified: Stamp(timestamp: 1, userRecordName: "_me"))

  static func body(
    _ info: String?, scope: DatabaseScope = .private, _ change: (NotificationInfo?) throws -> NotificationContent.Change
  ) throws -> String {
    let info = try info.map { try NotificationInfo(try Wire.json($0)) }
    let content = NotificationContent(
      container: try #require(container), scope: scope, subscriptionID: "sub", info: info, change: try change(info))
    return String(decoding: content.json(notificationID: "N"), as: UTF8.self)
  }

  static func query(
    _ info: String?, _ event: Subscription.Event = .create, of record: Record = record, in zone: Zone.ID = zone
  ) throws -> String {
    try body(info, scope: zone.ownerName == DatabaseID.publicOwner ? .public : .private) {
      .query(.init(event, of: record, info: $0), in: zone)
    }
  }

  @Test func `a zone's and a database's subscription name the zone that changed`() throws {
    #expect(
      try Self.body(nil) { _ in .zone(Self.zone) }
        == #"""
        {"aps":{"content-available":1},"ck":{"cid":"iCloud.x","nid":"N","ce":2,"fet":{"sid":"sub","zid":"Trips",\#
        "zoid":"_me","dbs":1}}}
        """#
    )
    #expect(
      try Self.body(nil, scope: .shared) { _ in .database(Self.zone) }
        == #"""
        {"aps":{"content-available":1},"ck":{"cid":"iCloud.x","nid":"N","ce":2,"met":{"sid":"sub","zid":"Trips",\#
        "zoid":"_me","dbs":2}}}
        """#
    )
  }

  @Test(arguments: [(Subscription.Event.create, 1), (.update, 2), (.delete, 3)])
  func `a query's subscription names the record and what happened to it`(event: Subscription.Event, number: Int) throws
  {
    #expect(
      try Self.query("{}", event)
        == #"""
        {"aps":{"content-available":1},"ck":{"cid":"iCloud.x","nid":"N","ce":2,"qry":{"sid":"sub","zid":"Trips",\#
        "zoid":"_me","dbs":1,"rid":"r/1","fo":\#(number)}}}
        """#
    )
    let everybodys = Zone.ID(zoneName: "_defaultZone", ownerName: DatabaseID.publicOwner)
    #expect(try Self.query(nil, in: everybodys).contains(#""zid":"_defaultZone","zoid":"_defaultOwner","dbs":0,"#))
  }

  static let alerts: [(String, String)] = [
    (#"{"alertBody":"a \"b\""}"#, #"{"alert":{"body":"a \"b\""}}"#),
    (#"{"alertBody":"a","shouldSendContentAvailable":true}"#, #"{"content-available":1,"alert":{"body":"a"}}"#),
    (#"{"shouldSendContentAvailable":true}"#, #"{"content-available":1}"#),
    (#"{"shouldBadge":true}"#, #"{"badge":1}"#), (#"{"soundName":"default"}"#, #"{"sound":"default"}"#),
    (#"{"category":"c"}"#, #"{"content-available":1,"category":"c"}"#),
    (
      #"""
      {"alertLocalizationKey":"k","alertLocalizationArgs":["string","missing","int","double","time","reference",\#
      "list","asset","string"],"alertActionLocalizationKey":"ak","alertLaunchImage":"i","shouldBadge":true,\#
      "soundName":"s","category":"c"}
      """#,
      #"""
      {"alert":{"loc-key":"k","loc-args":["say \"hi\"","","7","1.5","1700000000000","other","a, b","","say \#
      \"hi\""],"action-loc-key":"ak","launch-image":"i"},"badge":1,"sound":"s","category":"c"}
      """#
    ),
  ]

  @Test(arguments: alerts) func `a notification's visible parts come from notificationInfo and the record`(
    info: String, aps: String
  ) throws {
    #expect(try Self.query(info).hasPrefix(#"{"aps":\#(aps),"ck":"#))
  }

  @Test func `a zone has no fields to take a text's arguments from`() throws {
    #expect(
      try Self.body(#"{"alertLocalizationKey":"k","alertLocalizationArgs":["string"]}"#) { _ in .zone(Self.zone) }
        .contains(#""loc-args":[""]"#))
  }

  @Test func `additional fields are bare values, those that have no such form or are not there are left out`() throws {
    let names = [
      "string", "int", "double", "time", "bytes", "reference", "location", "list", "asset", "missing", "int",
    ]
    let info = #"{"additionalFields":[\#(names.map { #""\#($0)""# }.joined(separator: ","))]}"#
    #expect(
      try Self.query(info, .delete).hasSuffix(
        #"""
        "fo":3,"af":{"string":"say \"hi\"","int":7,"double":1.5,"time":1700000000000,"bytes":"AQL/",\#
        "reference":"other","location":{"latitude":1.5,"longitude":-2.0},"list":["a","b"]}}}}
        """#))
    #expect(try Self.query(#"{"additionalFields":["missing"]}"#).hasSuffix(#""af":{}}}}"#))
  }

  @Test func `a field that is too long does not keep the others away, and encrypted ones stay at home`() throws {
    var record = Self.record
    record.fields["long"] = Field(.string(String(repeating: "x", count: 5000)))
    record.fields["infinite"] = Field(.list(element: .double, [.double(1), .double(.infinity)]))
    record.fields["secret"] = Field(.string("secret"), isEncrypted: true)
    let info =
      #"""
      {"alertLocalizationKey":"k","alertLocalizationArgs":["long","secret","int"],"additionalFields":["long",\#
      "infinite","secret","int"]}
      """#
    let body = try Self.query(info, of: record)
    #expect(body.contains(#""loc-args":["","","7"]"#))
    #expect(body.hasSuffix(#""af":{"int":7}}}}"#))
    #expect(!body.contains("secret"))
  }
}
