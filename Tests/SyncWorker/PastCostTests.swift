// Records with a large past: no request and no batch reads all of it at once.

import JSON
import Mirroring
import RecordStore
import Records
import ServiceBus
import Testing

@testable import ObjectPlane
@testable import WorkerHost
@testable import ZoneCommit

extension ObjectPlaneWorld {
  /// Writes states of photo P, each with another number of views, and so many bytes beside it.
  fileprivate func writePhoto(states count: Int, byteCount: Int) async throws {
    let database = request("GET", "stores/A").database
    let name = Field(.string(String(repeating: "n", count: byteCount)))
    try await store.enqueue { [plane] store in
      let row = try store.makeDatabase(database)
      let zone = try store.makeZone(named: ReservedName.privateMirrorZone, in: row.key)
      let writer = try plane.context.writer(to: zone, in: store)
      let stamp = Stamp(timestamp: 1, userRecordName: "_alice")
      for number in 0..<count {
        var record = Record(recordName: "P", recordType: "CD_Photo", fields: Fields(), created: stamp, modified: stamp)
        record.fields[ReservedName.entityName] = Field(.string("Photo"))
        record.fields["CD_displayName"] = name
        record.fields["CD_views"] = Field(.int64(Int64(number)))
        _ = try writer.save(record, replacing: store.record(named: "P", in: zone.key))
      }
    }.value
  }
}

@Suite struct `A large past` {
  @Test(arguments: StoreKind.allCases)
  func `an audit of large states ends its page in time, and the pages tell them all`(
    _ kind: StoreKind
  ) async throws {
    try await ObjectPlaneWorld.with(kind, keepsPastStates: true) { world in
      try await world.setUp("A")
      try await world.writePhoto(states: 50, byteCount: 900_000)
      var (views, pages, last): ([Int64?], Int, Int64) = ([], 0, 0)
      while true {
        let page = try await world.get("A/audit", ["objectID": "P", "property": "views", "after": "\(last)"]).json
        let changes = page["changes"]?.elements ?? []
        #expect(changes.count <= 40)
        views += changes.map { $0["properties"]?.elements.first?["new"]?["value"]?.int64 }
        pages += 1
        last = try #require(page["last"]?.int64)
        if page["moreComing"]?.bool != true { break }
      }
      #expect(views == (0..<50).map { $0 } && pages == 2, "\(pages) pages: \(views)")
    }
  }

  @Test(arguments: StoreKind.allCases) func `the way of an object tells its latest changes, however many there were`(
    _ kind: StoreKind
  ) async throws {
    try await ObjectPlaneWorld.with(kind, keepsPastStates: true) { world in
      try await world.setUp("A")
      try await world.writePhoto(states: 1100, byteCount: 10)
      let database = world.request("GET", "stores/A").database
      let (text, last) = try await world.store.read { snapshot in
        let row = try #require(try snapshot.database(database))
        let mirror = try #require(try snapshot.mirror("A", in: row.key))
        var writer = JSONWriter()
        try ObjectWay(of: "P", zoneName: ReservedName.privateMirrorZone, in: mirror, snapshot).write(to: &writer)
        return (writer.bytes, row.sequence)
      }
      let steps = try JSONValue(parsing: text).elements.filter { $0["step"]?.string == "exported" }
      #expect(steps.map { $0["sequence"]?.int64 } == (last - 19...last).map { $0 })
    }
  }
}
