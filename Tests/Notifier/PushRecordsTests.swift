// What a notifier remembers of the pushes to each device.

import JSON
import Testing

@testable import Notifier

@Suite struct PushRecordsTests {
  private func rows(_ records: PushRecords, _ registrations: [Int64]) throws -> [String] {
    try #require(try JSONValue(parsing: records.json(of: registrations))["pushes"]).elements.map { row in
      let last = row["lastPush"]?.int64.map { "\($0)" } ?? "never"
      return
        """
        \(row["registration"]?.int64 ?? 0): \(last), \(row["delivered"]?.int64 ?? -1), \(row["failed"]?.int64 ?? -1), \
        \(row["lastFailure"]?.string ?? "-")
        """
    }
  }

  @Test func `pushes and failures are counted for each device, since the notifier began`() throws {
    var records = PushRecords(since: 7)
    #expect(try JSONValue(parsing: records.json(of: [1]))["since"]?.int64 == 7)
    records.note(.delivered, of: 1, at: 10)
    records.note(.later(.device, pause: nil, reason: "status 429"), of: 1, at: 20)
    records.note(.delivered, of: 1, at: 30)
    records.note(.refused(reason: String(repeating: "x", count: 500)), of: 2, at: 40)
    let reason = String(repeating: "x", count: 200)
    #expect(try rows(records, [3, 2, 1]) == ["2: never, 0, 1, \(reason)", "1: 30, 2, 1, status 429"])
    records.note(.gone, of: 1, at: 50)
    records.forget(2)
    #expect(try rows(records, [1, 2]).isEmpty)
  }

  @Test(arguments: [1, 0]) func `the devices that were woken last are remembered, in bounded memory`(step: Int64) throws
  {
    var records = PushRecords(since: 0)
    let count = Int64(PushRecords.limit)
    for id in 1...count + 1 { records.note(.delivered, of: id, at: id * step) }
    let known = try rows(records, Array(1...count + 1)).count
    #expect((1...PushRecords.limit / 2 + 1).contains(known), "\(known)")
    #expect(try rows(records, [count + 1]).count == 1)
    records.note(.delivered, of: count + 1, at: count + 2)
    #expect(try rows(records, Array(1...count + 1)).count == known)
  }
}
