// The cost of importing links and references whose ends have not arrived.

import Mirroring
import ObjectModel
import Records
import Testing

/// A zone that counts the lookups.
private final class CountingZone: RecordSource {
  private(set) var records: [String: SourceRecord] = [:]
  private(set) var lookups = 0
  /// Rows read by lookups of references.
  private(set) var pointersRead = 0

  func put(_ record: Record) { records[record.recordName] = SourceRecord(record: record, isDeleted: false) }

  func record(named recordName: String) throws -> SourceRecord? {
    lookups += 1
    return records[recordName]
  }

  func pointers(to target: String) throws -> [RecordPointer] {
    pointersRead += 1
    return []
  }
}

private let stamp = Stamp(timestamp: 0, userRecordName: "_a", deviceID: "d")

private let model: ModelIndex = {
  let photo = Entity(
    name: "Photo", attributes: [Attribute(name: "title", type: .string)],
    relationships: [
      Relationship(
        name: "tags", destinationName: "Tag", inverseName: "photos", inverseEntityName: "Tag", isToMany: true)
    ])
  let tag = Entity(
    name: "Tag", attributes: [Attribute(name: "name", type: .string)],
    relationships: [
      Relationship(
        name: "photos", destinationName: "Photo", inverseName: "tags", inverseEntityName: "Photo", isToMany: true)
    ])
  return ModelIndex(ManagedObjectModel(entities: [photo, tag]))
}()

/// The cost of importing a number of links before their ends, and then the ends.
private func cost(ofLinks count: Int) throws -> (links: Int, ends: Int, pointers: Int) {
  let zone = CountingZone()
  let importer = Importer(model: model, links: LinkResolver(model))
  func deliver(_ record: Record) throws {
    zone.put(record)
    guard case .change = try importer.outcome(of: SourceRecord(record: record, isDeleted: false), in: zone) else {
      Issue.record("\(record.recordName) is not delivered")
      return
    }
  }
  for index in 0..<count {
    try deliver(
      Record(
        recordName: "link \(index)", recordType: "CDMR",
        fields: [
          "CD_entityNames": .string("Photo:Tag"), "CD_relationships": .string("tags:photos"),
          "CD_recordNames": .string("P\(index):T\(index)"),
        ], created: stamp, modified: stamp))
  }
  let links = zone.lookups
  for index in 0..<count {
    for (name, entity) in [("P\(index)", "Photo"), ("T\(index)", "Tag")] {
      try deliver(
        Record(
          recordName: name, recordType: "CD_\(entity)", fields: ["CD_entityName": .string(entity)], created: stamp,
          modified: stamp))
    }
  }
  return (links, zone.lookups - links, zone.pointersRead)
}

@Test func `T-O08 ten thousand links before their ends cost two lookups each, and their ends none`() throws {
  let small = try cost(ofLinks: 100)
  let large = try cost(ofLinks: 10_000)
  #expect(large.links == 20_000 && large.ends == 0 && large.pointers == 0, "\(large)")
  #expect(large.links == small.links * 100 && large.ends == small.ends * 100)
}
