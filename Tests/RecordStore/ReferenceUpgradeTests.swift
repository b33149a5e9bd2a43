// Files of releases that did not store the actions of references: after the upgrade, the actions take effect.

import Records
import SQLite
import Testing

@testable import RecordStore

struct ReferenceUpgradeTests {
  /// Repeats the format change over tables of the present format, whose rows were stored without actions.
  private static func again(in folder: TemporaryFolder) -> ShardFile {
    var file = ShardFile(SQLiteConfiguration(directory: folder.path), shard: 0, shardCount: 1)
    file.changes.append(FormatChangeStep(format: 1000, statements: [], fill: FormatChange.referenceActions.fill))
    return file
  }

  /// A record with reference fields, and the fields and targets that earlier releases stored for it.
  private static func source(_ name: String, _ fields: [(name: String, value: FieldValue)]) -> (
    record: Record, references: [OutgoingReference]
  ) {
    var record = Sample.note(name)
    var references: [OutgoingReference] = []
    for field in fields {
      record.fields[field.name] = Field(field.value)
      let values: [FieldValue] =
        if case .list(element: .reference, let values) = field.value { values } else { [field.value] }
      for case .reference(let reference) in values where reference.zoneID == nil {
        let outgoing = OutgoingReference(field: field.name, target: reference.recordName)
        if !references.contains(outgoing) { references.append(outgoing) }
      }
    }
    return (record, references)
  }

  private static func pointer(_ target: String, _ action: Reference.Action) -> FieldValue {
    .reference(Reference(recordName: target, action: action))
  }

  @Test func `references that were stored without their actions bind from the moment the file is brought up to date`()
    async throws
  {
    let folder = try TemporaryFolder()
    let store = try StoredFormatTests.store(folder)
    let old = try await store.open(shard: 0)
    let place = try await Place(in: old)
    let doomed = try await Place(in: old, zone: "doomed")
    let parent = Sample.uuid(1)
    let child = Self.source(
      "child", [("parent", Self.pointer(parent, .deleteSelf)), ("plain", Self.pointer("x", .none))])
    let guarded = Self.source("guarded", [("keeps", Self.pointer(parent, .validate))])
    let both = Self.source(
      "both",
      [
        (
          "list",
          .list(
            element: .reference,
            [Self.pointer(parent, .none), Self.pointer(parent, .deleteSelf), Self.pointer("x", .validate)])
        )
      ])
    var relationship = Sample.note("relationship")
    relationship.fields["CD_parent"] = Field(.string(parent))
    let (elsewhere, byName) = (
      Self.source(
        "elsewhere",
        [
          (
            "parent",
            .reference(
              Reference(recordName: parent, action: .deleteSelf, zoneID: Zone.ID(zoneName: "z", ownerName: "o")))
          )
        ]), relationship
    )
    try await old.write { transaction in
      for (record, references) in [child, guarded, both, elsewhere] {
        try transaction.save(record, in: place, references: references)
      }
      try transaction.save(byName, in: place, references: [OutgoingReference(field: "CD_parent", target: parent)])
      try transaction.save(child.record, in: doomed, references: child.references)
      try transaction.save(Self.source("gone", [("parent", Self.pointer(parent, .deleteSelf))]).record, in: place)
      try transaction.delete("gone", in: place)
    }
    #expect(try await old.read { try $0.sourceCount(boundTo: parent, by: .deleteSelf, in: place.zone) } == 0)
    await old.close()
    #expect(try StoredFormatTests.meta("bindsReferences", in: folder) ?? 0 == 0)

    let shard = try await store.open(Self.again(in: folder))
    #expect(try StoredFormatTests.meta("bindsReferences", in: folder) == 1)
    #expect(
      try await shard.read { try $0.sources(boundTo: parent, by: .deleteSelf, in: place.zone, limit: 9) } == [
        "both", "child",
      ])
    #expect(
      try await shard.read { try $0.sources(boundTo: parent, by: .validate, in: place.zone, limit: 9) } == ["guarded"])
    #expect(try await shard.read { try $0.sources(boundTo: "x", by: .validate, in: place.zone, limit: 9) } == ["both"])
    let pointers = try await shard.read { try $0.references(to: parent, in: place.zone) }
    #expect(
      pointers.map { "\($0.source).\($0.field) \($0.action)" }.sorted() == [
        "both.list deleteSelf", "both.list none", "child.parent deleteSelf", "guarded.keeps validate",
        "relationship.CD_parent none",
      ])
    #expect(try await shard.read { try $0.record(named: "child", in: place.zone)?.record } == child.record)
    #expect(try await shard.verify().problems == [])
    // Saves use the rows that the upgrade wrote.
    let current = both.record
    try await shard.write { transaction in
      try transaction.save(Sample.note("child"), in: place)
      try transaction.save(
        current, in: place, references: [OutgoingReference(field: "list", target: parent, action: .deleteSelf)])
    }
    #expect(
      try await shard.read { try $0.sources(boundTo: parent, by: .deleteSelf, in: place.zone, limit: 9) } == ["both"])
    #expect(try await shard.verify().problems == [])
    await shard.close()
  }

  @Test
  func
    `a file whose references bind nothing stays as it was, and a damaged record does not hold the upgrade up`()
    async throws
  {
    let folder = try TemporaryFolder()
    let store = try StoredFormatTests.store(folder)
    let old = try await store.open(shard: 0)
    let place = try await Place(in: old)
    let plain = Self.source("plain", [("x", Self.pointer("y", .none))])
    try await old.write { transaction in
      for number in 0..<1200 {
        var record = plain.record
        record.recordName = Sample.uuid(number)
        try transaction.save(record, in: place, references: plain.references)
      }
    }
    await old.close()
    try StoredFormatTests.execute("UPDATE record SET sum = sum + 1 WHERE id = 700", in: folder)
    let shard = try await store.open(Self.again(in: folder))
    #expect(try StoredFormatTests.meta("bindsReferences", in: folder) ?? 0 == 0)
    #expect(try await shard.read { try $0.references(to: "y", in: place.zone).count } == 1200)
    // One problem for the record itself, and one for its reference in the index.
    let problems = try await shard.verify().problems
    #expect(problems.count == 2 && problems[0].contains("is damaged"), "\(problems)")
    await shard.close()
  }

  @Test func `a file of the format before is brought up to date when it is opened`() async throws {
    let folder = try TemporaryFolder()
    var file = ShardFile(SQLiteConfiguration(directory: folder.path), shard: 0, shardCount: 1)
    file.changes = file.changes.filter { $0.format < FormatChange.referenceActions.rawValue }
    let connection = try file.takeOver().connection
    let child = Self.source("child", [("parent", Self.pointer("p", .deleteSelf))]).record
    let data = child.encoded()
    let references = try StoredReferences.encode([StoredReferences.Entry(field: 2, target: "p")])
    let header = RecordRowHeader(zone: 2, sequence: 1, type: 1, isDeleted: false, origin: 0, sequenceOfOthers: 0)
    try connection.execute(
      """
      INSERT INTO symbol(id, text) VALUES (1, 'CD_Note'), (2, 'parent');
      INSERT INTO database(id, container, environment, owner, incarnation, seq, bytes) \
      VALUES (1, 'iCloud.org.example.notes', 'development', 'ada', 5, 1, \(data.count));
      INSERT INTO zone(id, database, name, incarnation, seq, deleted, live, bytes) \
      VALUES (2, 1, 'notes', 6, 1, 0, 1, \(data.count));
      INSERT INTO reference(zone, target, field, source) VALUES (2, 'p', 2, 3);
      INSERT OR REPLACE INTO meta(key, value) VALUES ('lastKey', 2);
      """)
    try connection.statement(
      SQL(
        "old",
        """
        INSERT INTO record(id, zone, name, seq, type, deleted, origin, others, sum, refs, data) \
        VALUES (3, 2, 'child', 1, 1, 0, 0, 0, ?1, ?2, ?3)
        """
      )
    ).binding(
      data.withUnsafeBytes { header.checksum(name: "child", references: references, data: $0) }, references, data
    ).run()
    connection.close()
    let shard = try await StoredFormatTests.store(folder).open(shard: 0)
    #expect(try await shard.read { try $0.record(named: "child", in: 2)?.record } == child)
    #expect(try await shard.write { try $0.sources(boundTo: "p", by: .deleteSelf, in: 2, limit: 9) } == ["child"])
    #expect(try await #require(shard as? SQLiteShardStore).verify().problems == [])
    await shard.close()
  }
}
