// An import page ends before it keeps a reader for long.

import JSON
import Mirroring
import RecordStore
import Records
import ServiceBus
import Testing

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
