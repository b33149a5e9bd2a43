// The data for queries: one zone full of records, and the queries on it.

import JSON

/// A zone in which every number of a range is the `CD_rating` of `hitCount` records, and each record has its own
/// `CD_createdAt`.
struct QueryPopulation: Sendable {
  let zoneName: String
  let recordCount: Int
  private let modifyPath: String
  private let queryPath: String

  static let hitCount = 5
  static let pageSize = 20
  /// All numbers have this many digits, so that all requests have the same length.
  static let digitCount = 7
  private static let first = 1_000_000
  private static let batch = 200

  init(_ scenario: Scenario, token: String, zoneName: String, recordCount: Int) {
    self.zoneName = zoneName
    self.recordCount = recordCount
    modifyPath = scenario.recordPlane("private/records/modify", token: token)
    queryPath = scenario.recordPlane("private/records/query", token: token)
  }

  /// The numbers that a workload may look for; after the largest there is still a full page.
  func numbers(_ workload: Workload) -> Range<Int> {
    Self.first..<Self.first + (workload == .qe ? recordCount / Self.hitCount : recordCount - 2 * Self.pageSize)
  }

  func maker(_ workload: Workload, host: String, random: FastRandom) -> RequestMaker {
    RequestMaker(
      workload, count: 1, target: queryPath, host: host, zoneName: zoneName, population: self, random: random)
  }

  /// Creates the records in an existing zone, a few requests at a time.
  func fill(with admin: Admin) async throws {
    try await withThrowingTaskGroup(of: Void.self) { group in
      for (number, start) in stride(from: 0, to: recordCount, by: Self.batch).enumerated() {
        if number >= 4 { try await group.next() }
        group.addTask {
          let answer = try await admin.call(
            "POST", modifyPath, body: creates(start..<min(start + Self.batch, recordCount)), isOperator: false)
          if let reason = answer["records"]?.elements.first?["reason"]?.string {
            throw LoadError(description: "a record was refused: \(reason)")
          }
        }
      }
      try await group.waitForAll()
    }
  }

  private func creates(_ numbers: Range<Int>) -> [UInt8] {
    var random = FastRandom()
    let operations = numbers.map { number in
      // Scattered, so that neither the order of writing nor that of names equals an index's order.
      let place = Self.first + number &* 7_919 % recordCount
      return #"""
        {"operationType":"create","record":{"recordName":"\#(random.uuid())","recordType":"CD_Note",\#
        "fields":{"CD_entityName":{"value":"Note"},"CD_title":{"value":"Note \#
        \#(number)"},"CD_rating":{"value":\#(Self.first + number % (recordCount / Self.hitCount))},\#
        "CD_createdAt":{"value":\#(place)000000}}}}
        """#
    }
    return Array(
      #"{"zoneID":{"zoneName":"\#(zoneName)"},"atomic":true,"operations":[\#(operations.joined(separator: ","))]}"#.utf8
    )
  }

  /// Repeats each query until it is too fast for a scan: the first query causes the index to be built.
  func waitForIndexes(with admin: Admin) async throws {
    let questions = [
      #""filterBy":[{"fieldName":"CD_rating","comparator":"EQUALS","fieldValue":{"value":\#(Self.first)}}]"#,
      #""sortBy":[{"fieldName":"CD_createdAt"}]"#,
    ]
    for question in questions {
      let body = Array(
        #"""
        {"zoneID":{"zoneName":"\#(zoneName)"},"resultsLimit":\#(Self.pageSize),"query":{"recordType":"CD_Note",\#
        \#(question)}}
        """#
        .utf8)
      for _ in 0..<3600 {
        let start = Connections.now()
        _ = try await admin.call("POST", queryPath, body: body, isOperator: false)
        // A scan takes microseconds a record; below 100 ms it does not matter.
        if Connections.now() - start < 100_000_000 { break }
        try await Task.sleep(for: .milliseconds(200))
      }
    }
  }
}
