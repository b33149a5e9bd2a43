// Objects that are sent again while commits of the worker fail.

import JSON
import RecordStore
import Records
import ServiceBus
import Testing

private let photo =
  #"""
  {"changeType":"insert","entity":"Photo","objectID":"P","attributes":{"displayName":"Dunes"},\#
  "relationships":{"tags":{"add":["T"]}}}
  """#

private func tag(_ id: String) -> String {
  #"{"changeType":"insert","entity":"Tag","objectID":"\#(id)","attributes":{"name":"\#(id)"}}"#
}

private func reupload(_ store: String) -> String {
  let transactions = [tag("T") + "," + tag("U"), photo].enumerated().map { number, changes in
    #"""
    {"transactionID":"\#(store)\#(number)","timestamp":"2026-11-20T07:33:24.123Z",\#
    "author":"\#(ReservedName.reuploadAuthor)","changes":[\#(changes)]}
    """#
  }
  return #"{"transactions":[\#(transactions.joined(separator: ","))]}"#
}

extension ObjectPlaneWorld {
  fileprivate func lastNumber(of store: String) async throws -> Int64? {
    let id = request("GET", "stores/x").database
    return try await self.store.read { snapshot in
      try snapshot.database(id).flatMap { try snapshot.mirror(store, in: $0.key) }?.lastTransactionNumber
    }
  }
}

@Test func `what is sent again is there once and whole, whichever commit fails, and however often it is sent`()
  async throws
{
  var (number, isThrough) = (1, false)
  while !isThrough {
    let commits = FailingCommits()
    try await ObjectPlaneWorld.with(.memory, keepsPastStates: true, commitFailure: { _ in commits.next() }) { world in
      let (a, b) = (try await Device("A", world), try await Device("B", world))
      try await world.save("A", tag("T") + "," + tag("U") + "," + photo, query: ["wait": "export"])
      for device in [a, b] { try await device.pull() }
      try await world.endZone()
      for device in [a, b] { try await device.pull() }
      commits.fail(number)
      for store in ["A", "B"] {
        // Once more at the end: the answer was lost.
        var answers = 0
        while answers < 2 {
          let post = world.request("POST", "stores/\(store)/transactions", query: ["wait": "export"])
          let reply = try await world.send(post, reupload(store))
          if reply.status == 200 { answers += 1 }
        }
      }
      isThrough = commits.isDue
      commits.fail(.max)
      for store in ["A", "B"] { try await world.save(store, tag("new-\(store)"), query: ["wait": "export"]) }
      let records = try await world.liveRecords()
      #expect(
        records.filter { $0.recordType != "CDMR" }.map(\.recordName) == ["P", "T", "U", "new-A", "new-B"],
        "commit \(number)")
      #expect(records.filter { $0.recordType == "CDMR" }.count == 1, "commit \(number)")
      #expect(records.first { $0.recordName == "P" }?.fields.string("CD_displayName") == "Dunes", "commit \(number)")
      #expect(try await world.lastNumber(of: "A") == 4, "commit \(number)")
      #expect(try await world.lastNumber(of: "B") == 3, "commit \(number)")
      let fresh = try await Device("fresh", world)
      for device in [a, b, fresh] { try await device.pull() }
      #expect(fresh.graph.objects.count == 5 && fresh.graph.links.count == 1, "commit \(number)")
    }
    number += 1
  }
  #expect(number > 4, "several commits failed")
}
