// Persistent history: its content, its queries, and the time of its purge.

import FixedClocks
import History
import JSON
import ObjectModel
import RecordStore
import Records
import ServiceBus
import Testing
import WebServices

private func insertTag(_ id: String) -> String {
  #"{"changeType":"insert","entity":"Tag","objectID":"\#(id)","attributes":{"name":"\#(id)"}}"#
}

@Test(arguments: StoreKind.allCases) func `T-H01 history tells transactions as they were saved`(_ kind: StoreKind)
  async throws
{
  try await ObjectPlaneWorld.with(kind) { world in
    try await world.setUp("A")
    try await world.save("A", insertTag("T"), id: "1", author: "app")
    try await world.save(
      "A",
      #"""
      {"changeType":"update","entity":"Tag","objectID":"T","attributes":{"name":"n"},\#
      "relationships":{"photos":{"add":["P"]}}}
      """#,
      id: "2", author: "sync")
    try await world.save(
      "A", #"{"changeType":"delete","entity":"Rating","objectID":"R","tombstone":{"value":4}}"#, id: "3")
    let reply = try await world.get("A/history")
    let transactions = try #require(reply.json["transactions"]?.elements)
    #expect(transactions.map { $0["transactionNumber"]?.int64 } == [1, 2, 3])
    #expect(transactions.map { $0["transactionID"]?.string } == ["1", "2", "3"])
    #expect(transactions[1]["author"]?.string == "sync" && transactions[1]["storeID"]?.string == "A")
    #expect(transactions[1]["timestamp"]?.string == "2026-11-20T07:33:24.123Z")
    let update = try #require(transactions[1]["changes"]?.elements.first)
    #expect(update["updatedProperties"]?.elements.map(\.string) == ["name", "photos"])
    #expect(update["relationships"]?["photos"]?["add"]?.elements.map(\.string) == ["P"])
    #expect(transactions[2]["changes"]?.elements.first?["tombstone"]?["value"]?.int64 == 4)
    #expect(reply.json["moreComing"]?.bool == false)
    let after = try await world.get("A/history", ["after": try #require(transactions[0]["token"]?.string)])
    #expect(after.json["transactions"]?.count == 2)
    #expect(
      try await world.get("A/history", ["after": try #require(reply.json["historyToken"]?.string)]).json[
        "transactions"]?.count == 0)
  }
}

@Test func `T-H10 filters leave transactions out, and the token advances past them`() async throws {
  try await ObjectPlaneWorld.with(.sqlite) { world in
    try await world.setUp("A")
    for (number, author) in ["app", "widget", "app"].enumerated() {
      try await world.save(
        "A", insertTag("T\(number)") + #",{"changeType":"insert","entity":"Photo","objectID":"P\#(number)"}"#,
        author: author)
    }
    func count(_ query: [String: String]) async throws -> Int? {
      try await world.get("A/history", query).json["transactions"]?.count
    }
    #expect(try await count(["author": "app"]) == 2)
    #expect(try await count(["excludeAuthor": "app"]) == 1)
    #expect(try await count(["entity": "Rating"]) == 0)
    let photos = try await world.get("A/history", ["entity": "Photo", "limit": "2"])
    #expect(photos.json["transactions"]?.elements.map { $0["changes"]?.count } == [1, 1])
    #expect(photos.json["moreComing"]?.bool == true)
    let rest = try await world.get(
      "A/history", ["after": try #require(photos.json["historyToken"]?.string), "excludeAuthor": "app"])
    #expect(rest.json["transactions"]?.count == 0 && rest.json["moreComing"]?.bool == false)
    #expect(try await count(["after": try #require(rest.json["historyToken"]?.string)]) == 0)
  }
}

@Test func `a call ends behind a few large transactions, also if its filter leaves none`() async throws {
  try await ObjectPlaneWorld.with(.sqlite) { world in
    try await world.setUp("A")
    // Short enough to stay in the transaction.
    let name = String(repeating: "x", count: 90_000)
    for number in 0..<10 {
      let tags = (0..<30).map { tag in
        #"{"changeType":"insert","entity":"Tag","objectID":"\#(number).\#(tag)","attributes":{"name":"\#(name)"}}"#
      }
      #expect(try await world.save("A", tags.joined(separator: ",")).status == 200)
    }
    var (pages, query) = (0, ["author": "nobody", "resultType": "objectIDs"])
    while true {
      let page = try await world.get("A/history", query).json
      pages += 1
      #expect(page["objectIDs"]?.count == 0, "\(page.text)")
      guard page["moreComing"]?.bool == true, pages < 9 else { break }
      query["after"] = try #require(page["historyToken"]?.string)
    }
    #expect(pages == 2, "of 27 megabytes")
  }
}

@Test(arguments: StoreKind.allCases) func `T-H06 a token of purged history is answered with 410 and 134301`(
  _ kind: StoreKind
) async throws {
  try await ObjectPlaneWorld.with(kind) { world in
    let begin = try #require(try await world.setUp("A").json["historyToken"]?.string)
    for number in 0..<6 { try await world.save("A", insertTag("T\(number)"), query: ["wait": "export"]) }
    let tokens =
      try await world.get("A/history").json["transactions"]?.elements.compactMap { $0["token"]?.string } ?? []
    let purge = try await world.send(world.request("DELETE", "stores/A/history", query: ["before": tokens[4]]))
    #expect(purge.json["deletedTransactions"]?.int64 == 5)
    for token in [begin, tokens[3]] {
      let reply = try await world.get("A/history", ["after": token])
      #expect(reply.status == 410 && reply.json["cocoaErrorCode"]?.int64 == 134301)
    }
    #expect(try await world.get("A/history", ["after": tokens[4]]).json["transactions"]?.count == 1)
    #expect(
      try await world.get("A/history").json["transactions"]?.count == 1,
      "without a token history begins where it begins")
    #expect(try await world.liveRecords().count == 6)
  }
}

@Test(arguments: StoreKind.allCases) func `T-H05 a deletion's tombstone has the preserved values, and only those`(
  _ kind: StoreKind
) async throws {
  try await ObjectPlaneWorld.with(kind) { world in
    try await world.setUp("A")
    try await world.save(
      "A",
      #"""
      {"changeType":"insert","entity":"Photo","objectID":"P"},{"changeType":"insert","entity":"Rating","objectID":"R",\#
      "attributes":{"value":5}}
      """#
    )
    let two = #"""
      {"transactions":[
        {"transactionID":"2","changes":[{"changeType":"update","entity":"Rating","objectID":"R",\#
      "attributes":{"value":4}}]},
        {"transactionID":"3","changes":[{"changeType":"delete","entity":"Rating","objectID":"R"},\#
      {"changeType":"delete","entity":"Photo","objectID":"P"},
                                        {"changeType":"delete","entity":"Rating","objectID":"never"}]}]}
      """#
    #expect(try await world.send(world.request("POST", "stores/A/transactions"), two).status == 200)
    let changes = try await world.get("A/history").json["transactions"]?.elements.last?["changes"]?.elements ?? []
    #expect(changes.map { $0["tombstone"]?["value"]?.int64 } == [4, nil, nil])
    #expect(changes.map { $0["tombstone"]?.count } == [1, 0, 0])
  }
}

// MARK: Queries

@Test(arguments: StoreKind.allCases)
func `transactions and changes are filtered by their properties, and changes keep their names`(_ kind: StoreKind)
  async throws
{
  try await ObjectPlaneWorld.with(kind) { world in
    try await world.setUp("A")
    let transactions = #"""
      {"transactions":[
        {"transactionID":"a","author":"app","contextName":"view","bundleID":"org.app","processID":"1","changes":[
          {"changeType":"insert","entity":"Photo","objectID":"P"},{"changeType":"insert","entity":"Tag",\#
      "objectID":"T","attributes":{"name":"x"}}]},
        {"transactionID":"b","author":"widget","contextName":"background","bundleID":"org.widget","processID":"2",\#
      "changes":[
          {"changeType":"update","entity":"Photo","objectID":"P","attributes":{"views":1}},{"changeType":"update",\#
      "entity":"Tag","objectID":"T","attributes":{"name":"y"}}]},
        {"transactionID":"c","changes":[{"changeType":"delete","entity":"Photo","objectID":"P"}]}]}
      """#
    #expect(try await world.send(world.request("POST", "stores/A/transactions"), transactions).status == 200)
    func found(_ query: [String: String]) async throws -> [String] {
      let reply = try await world.get("A/history", query).json
      return (reply["transactions"]?.elements ?? []).flatMap {
        $0["changes"]?.elements.map { $0["changeID"]?.string ?? "" } ?? []
      }
    }
    for (query, changes) in [
      ([:], ["1.0", "1.1", "2.0", "2.1", "3.0"]), (["contextName": "view"], ["1.0", "1.1"]),
      (["bundleID": "org.widget"], ["2.0", "2.1"]),
      (["processID": "1"], ["1.0", "1.1"]), (["objectID": "T"], ["1.1", "2.1"]),
      (["changeType": "update"], ["2.0", "2.1"]), (["changeType": "2"], ["3.0"]),
      (["entity": "Photo"], ["1.0", "2.0", "3.0"]), (["entity": "Photo", "author": "widget"], ["2.0"]),
      (["updatedProperty": "name"], ["2.1"]),
      (["excludeAuthor": "app", "entity": "Tag", "changeType": "insert"], []),
    ] as [([String: String], [String])] {
      #expect(try await found(query) == changes, "\(query)")
    }
    for query in [
      ["changeType": "3"], ["changeType": "move"], ["resultType": "6"], ["resultType": "all"],
      ["after": "x", "afterDate": "y"], ["afterDate": "yesterday"],
    ] {
      #expect(try await world.get("A/history", query).status == 400, "\(query)")
    }
  }
}

@Test(arguments: StoreKind.allCases) func `history is answered in each of the six forms, by name or by number`(
  _ kind: StoreKind
) async throws {
  try await ObjectPlaneWorld.with(kind) { world in
    try await world.setUp("A")
    try await world.save("A", insertTag("T") + "," + insertTag("U"), id: "1")
    try await world.save(
      "A", #"{"changeType":"update","entity":"Tag","objectID":"T","attributes":{"name":"n"}}"#, id: "2", author: "other"
    )
    let whole = try await world.get("A/history").json
    for (name, number) in [
      ("statusOnly", "0"), ("objectIDs", "1"), ("count", "2"), ("transactionsOnly", "3"), ("changesOnly", "4"),
      ("transactionsAndChanges", "5"),
    ] {
      let reply = try await world.get("A/history", ["resultType": name])
      #expect(
        reply.status == 200 && reply.json["historyToken"]?.string == whole["historyToken"]?.string
          && reply.json["moreComing"]?.bool == false, "\(name)")
      #expect(try await world.get("A/history", ["resultType": number]).bytes == reply.bytes)
    }
    func ask(_ type: String, _ more: [String: String] = [:]) async throws -> JSONValue {
      try await world.get("A/history", more.merging(["resultType": type]) { $1 }).json
    }
    #expect(try await ask("statusOnly")["succeeded"]?.bool == true)
    #expect(try await ask("objectIDs")["objectIDs"]?.elements.map(\.string) == ["T", "U"])
    let count = try await ask("count", ["entity": "Tag"])
    #expect(count["count"]?.int64 == 2 && count["changeCount"]?.int64 == 3)
    #expect(try await ask("count", ["author": "app"])["count"]?.int64 == 1)
    let bare = try await ask("transactionsOnly")["transactions"]?.elements ?? []
    #expect(
      bare.map { $0["transactionID"]?.string } == ["1", "2"]
        && bare.allSatisfy { $0["changes"] == nil && $0["token"] != nil })
    let changes = try await ask("changesOnly", ["objectID": "T"])["changes"]?.elements ?? []
    #expect(
      changes.map { $0["changeID"]?.string } == ["1.0", "2.0"]
        && changes.map { $0["transactionNumber"]?.int64 } == [1, 2])
    #expect(changes[1]["updatedProperties"]?.elements.map(\.string) == ["name"])
    // In pages; an object comes again on a later page if it changed there.
    let page = try await ask("objectIDs", ["limit": "1"])
    #expect(page["objectIDs"]?.count == 2 && page["moreComing"]?.bool == true)
    let rest = try await ask("objectIDs", ["after": try #require(page["historyToken"]?.string)])
    #expect(rest["objectIDs"]?.elements.map(\.string) == ["T"] && rest["moreComing"]?.bool == false)
  }
}

@Test func `a long history is counted in one call, and read in pages of two hundred`() async throws {
  try await ObjectPlaneWorld.with(.sqlite) { world in
    try await world.setUp("A")
    let transactions = (1...1001).map { number in
      HistoryTransaction(
        transactionID: "\(number)", timestamp: 0,
        changes: [HistoryChange(changeType: .insert, entity: "Tag", objectID: "T\(number)")])
    }
    try await world.appendWithoutExport(transactions, to: "A")
    let count = try await world.get("A/history", ["resultType": "count"]).json
    #expect(count["count"]?.int64 == 1001 && count["moreComing"]?.bool == false)
    let part = try await world.get("A/history", ["resultType": "count", "limit": "400"]).json
    #expect(part["count"]?.int64 == 400 && part["moreComing"]?.bool == true)
    #expect(
      try await world.get("A/history", ["resultType": "count", "after": try #require(part["historyToken"]?.string)])
        .json["count"]?.int64 == 601)
    var token: String?
    var numbers: [Int64] = []
    while true {
      let page = try await world.get("A/history", token.map { ["after": $0] } ?? [:]).json
      numbers += page["transactions"]?.elements.compactMap { $0["transactionNumber"]?.int64 } ?? []
      token = page["historyToken"]?.string
      if page["moreComing"]?.bool == false { break }
      #expect(page["transactions"]?.count == 200)
    }
    #expect(numbers == Array(1...1001))
  }
}

@Test(arguments: StoreKind.allCases) func `a position is a token, a date or a transaction, for reading and for purging`(
  _ kind: StoreKind
) async throws {
  try await ObjectPlaneWorld.with(kind) { world in
    try await world.setUp("A")
    for number in 1...6 {
      try await world.save("A", insertTag("T\(number)"), id: "id-\(number)", query: ["wait": "export"])
      world.clock.advance(by: 1000)
    }
    let start = world.clock.now - 6000
    func date(_ number: Int64, _ offset: Int64 = 0) -> String { MirrorDate.text(start + (number - 1) * 1000 + offset) }
    func numbers(_ query: [String: String]) async throws -> [Int64] {
      try await world.get("A/history", query).json["transactions"]?.elements.compactMap {
        $0["transactionNumber"]?.int64
      } ?? []
    }
    #expect(try await numbers(["afterDate": date(3)]) == [4, 5, 6], "what was saved then is not after it")
    #expect(try await numbers(["afterDate": date(3, -1)]) == [3, 4, 5, 6])
    #expect(try await numbers(["afterDate": date(99)]) == [])
    #expect(try await numbers(["afterTransaction": "4"]) == [5, 6])
    #expect(try await numbers(["afterTransaction": "id-5"]) == [6])
    #expect(try await numbers(["after": ""]) == [1, 2, 3, 4, 5, 6])
    #expect(try await world.get("A/history", ["afterTransaction": "7"]).status == 400)
    let unknown = try await world.get("A/history", ["afterTransaction": "never"])
    #expect(unknown.status == 410 && unknown.json["cocoaErrorCode"]?.int64 == 134301)

    func purge(_ query: [String: String]) async throws -> PlaneReply {
      try await world.send(world.request("DELETE", "stores/A/history", query: query))
    }
    #expect(
      try await purge(["beforeDate": date(2)]).json["deletedTransactions"]?.int64 == 1,
      "what was saved then is not before it")
    #expect(try await purge(["beforeTransaction": "3"]).json["deletedTransactions"]?.int64 == 1)
    #expect(try await purge(["beforeTransaction": "id-4", "resultType": "0"]).json["deletedTransactions"]?.int64 == 1)
    #expect(try await numbers([:]) == [4, 5, 6])
    #expect(try await numbers(["afterDate": date(1)]) == [4, 5, 6], "a date is never too old")
    for query in [["afterTransaction": "2"], ["afterTransaction": "id-2"]] {
      #expect(try await world.get("A/history", query).status == 410)
    }
    for query in [
      [:], ["before": "x", "beforeDate": "y"], ["beforeTransaction": "9"],
      ["beforeTransaction": "5", "resultType": "count"],
    ] {
      #expect(try await purge(query).status == 400, "\(query)")
    }
    #expect(try await numbers([:]) == [4, 5, 6])
  }
}

@Test(arguments: StoreKind.allCases)
func `positions at the ends of what numbers can say are refused or empty, and harm nothing`(_ kind: StoreKind)
  async throws
{
  try await ObjectPlaneWorld.with(kind) { world in
    try await world.setUp("A")
    try await world.save("A", insertTag("T"), id: "1")
    for number in [Int64.min, -1] {
      #expect(
        try await world.send(world.request("DELETE", "stores/A/history", query: ["beforeTransaction": "\(number)"]))
          .status == 400)
      #expect(try await world.get("A/history", ["afterTransaction": "\(number)"]).status == 400)
    }
    #expect(try await world.get("A/history", ["afterTransaction": "\(Int64.max)"]).status == 400)
    #expect(
      try await world.send(world.request("DELETE", "stores/A/history", query: ["beforeTransaction": "0"])).status == 410
    )
    // The last millisecond there is.
    let last = "+292278994-08-17T07:12:55.807Z"
    #expect(MirrorDate.milliseconds(last) == .max)
    #expect(try await world.get("A/history", ["afterDate": last]).json["transactions"]?.count == 0)
    #expect(try await world.get("A/history").json["transactions"]?.count == 1)
  }
}
