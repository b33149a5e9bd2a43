// Stores learn that their database was restored from a backup.

import JSON
import RecordStore
import Records
import ServiceBus
import Testing

@Test func `progress counts what there is to import, also in a database that was restored`() async throws {
  try await ObjectPlaneWorld.with(.sqlite) { world in
    try await world.setUp("A")
    func insert(_ ids: ClosedRange<Int>) -> String {
      ids.map { #"{"changeType":"insert","entity":"Tag","objectID":"T\#($0)"}"# }.joined(separator: ",")
    }
    for range in [1...3, 4...6] { try await world.save("A", insert(range), query: ["wait": "export"]) }
    let lastEvent = try #require(try await world.get("A/events").json["lastEvent"]?.string.flatMap { Int64($0) })
    try await world.restored { world in
      func pages(after token: String?) async throws -> (progress: [[Int64?]], token: String?) {
        var (progress, token) = ([[Int64?]](), token)
        while true {
          var query = ["limit": "2"]
          if let token { query["after"] = token }
          let page = try await world.get("B/changes", query)
          try #require(page.status == 200, "\(page.text)")
          progress.append([page.json["progress"]?["done"]?.int64, page.json["progress"]?["total"]?.int64])
          token = page.json["importToken"]?.string
          if page.json["moreComing"]?.bool != true { return (progress, token) }
        }
      }
      try await world.setUp("B")
      let first = try await pages(after: nil)
      let total = try #require(first.progress.first?[1])
      #expect((6...20).contains(total) && first.progress.count == 3, "\(first.progress)")
      #expect(
        first.progress.map { $0[0] ?? -1 } == first.progress.map { $0[0] ?? -1 }.sorted()
          && first.progress.allSatisfy { $0[1] == total })
      #expect(first.progress.last?[0] == total && (first.progress.first?[0] ?? 0) > 0)
      // Saves after the restore count from there.
      try await world.save("A", insert(7...9), query: ["wait": "export"])
      let next = try await pages(after: first.token)
      #expect(next.progress == [[2, 3], [3, 3]], "\(next.progress)")
      // A store that is new by then has both before it.
      try await world.setUp("C")
      let whole = try await world.get("C/changes", ["limit": "7"]).json["progress"]
      #expect(
        whole?["total"]?.int64 == total + 3 && (total...total + 2).contains(whole?["done"]?.int64 ?? 0),
        "\(String(describing: whole))")
      #expect(
        try await world.get("A/events").json["lastEvent"]?.string.flatMap { Int64($0) } ?? 0 > lastEvent + 1_000_000,
        "numbers never go back")
    }
  }
}
