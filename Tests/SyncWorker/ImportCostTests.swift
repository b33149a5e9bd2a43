// An import page ends before it keeps a reader for long.

import JSON
import Mirroring
import RecordStore
import Records
import ServiceBus
import Testing

@testable import ObjectPlane
@testable import WorkerHost
@testable import ZoneCommit

@Test(arguments: StoreKind.allCases)
func `a page ends after half a megabyte of binary property lists, and the run brings them all`(_ kind: StoreKind)
  async throws
{
  try await ObjectPlaneWorld.with(kind) { world in
    try await world.setUp("A")
    let database = world.request("GET", "stores/A").database
    try await world.store.enqueue { store in
      guard let row = try store.database(database) else { throw CancellationError() }
      let zone = try store.makeZone(named: ReservedName.privateMirrorZone, in: row.key)
      let writer = try world.plane.context.writer(to: zone, in: store)
      let stamp = Stamp(timestamp: 1, userRecordName: "_alice")
      for number in 0..<20 {
        var record = Record(
          recordName: "P\(number)", recordType: "CD_Photo", fields: Fields(), created: stamp, modified: stamp)
        record.fields[ReservedName.entityName] = Field(.string("Photo"))
        record.fields["CD_place"] = Field(.bytes(Array("bplist00".utf8) + [UInt8](repeating: 0, count: 100_000)))
        _ = try writer.save(record, replacing: nil)
      }
    }.value
    var (pages, seen, token) = (0, 0, "")
    while true {
      let page = try await world.get("A/changes", token.isEmpty ? [:] : ["after": token]).json
      let count = (page["changes"]?.elements.count ?? 0) + (page["quarantined"]?.elements.count ?? 0)
      #expect((1...6).contains(count), "a page has a part of them")
      (pages, seen) = (pages + 1, seen + count)
      token = try #require(page["importToken"]?.string)
      guard page["moreComing"]?.bool == true, pages < 20 else { break }
    }
    #expect(pages == 4 && seen == 20)
  }
}

@Test(arguments: StoreKind.allCases)
func `zones are merged in feed order, and a few megabytes of their records are read ahead`(_ kind: StoreKind)
  async throws
{
  try await ObjectPlaneWorld.with(kind) { world in
    try await world.setUp("A")
    let database = world.request("GET", "stores/A").database
    let zoneCount = 20
    // Each round saves to most of the zones: the small records come first, and then those of 200 kilobytes.
    for round in 0..<8 {
      try await world.store.enqueue { store in
        guard let row = try store.database(database) else { throw CancellationError() }
        let stamp = Stamp(timestamp: 1, userRecordName: "_alice")
        for number in 0..<zoneCount where (number + round) % 5 != 0 {
          let zone = try store.makeZone(named: "z\(number)", in: row.key)
          var record = Record(
            recordName: "\(round)", recordType: "Note", fields: Fields(), created: stamp, modified: stamp)
          record.fields["n"] = Field(.bytes([UInt8](repeating: 0, count: round < 4 ? 10 : 200_000)))
          _ = try world.plane.context.writer(to: zone, in: store).save(record, replacing: nil)
        }
      }.value
    }
    let found = try await world.store.read { snapshot in
      guard let row = try snapshot.database(database) else { throw CancellationError() }
      let zones = try snapshot.zones(in: row.key, after: 0, limit: 99)
      var all: [Int64] = []
      for zone in zones { all += try snapshot.changes(in: zone.key, after: 3, limit: 99).map(\.sequence) }
      var feed = try ZoneFeed(zones, of: row, as: nil, after: 3, in: snapshot)
      var (order, names, held): ([Int64], Set<String>, Int) = ([], [], 0)
      while let (next, cursor) = try feed.next(from: snapshot) {
        order.append(next.sequence)
        names.insert(cursor.zone.zoneName + next.recordName)
        held = max(held, feed.heldByteCount)
        feed.advance()
      }
      return (all.sorted(), order, names.count, held, feed.heldByteCount)
    }
    #expect(found.0 == found.1 && found.1.count == found.2 && found.2 > 100)
    #expect(found.3 > 1 << 20 && found.3 < 5 << 20 && found.4 == 0, "\(found.3) of 13 megabytes, \(found.4)")
  }
}
