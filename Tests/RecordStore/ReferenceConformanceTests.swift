import RecordStore
import Records
import Testing

struct ReferenceConformanceTests {
  @Test(arguments: StoreKind.allCases) func `sources are found by their target, ordered by field and source`(
    _ kind: StoreKind
  ) async throws {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      let other = try await Place(in: shard, zone: "other")
      let target = Sample.uuid(1)
      try await shard.write { transaction in
        for name in ["z", Sample.uuid(3), "6F", Sample.uuid(2)] {
          try transaction.save(
            Sample.note(name), in: place,
            references: [
              OutgoingReference(field: "CD_photo", target: target),
              OutgoingReference(field: "CD_album", target: "text name"),
            ])
        }
        try transaction.save(
          Sample.note("m"), in: place, references: [OutgoingReference(field: "CD_album", target: target)])
        try transaction.save(
          Sample.note("elsewhere"), in: other, references: [OutgoingReference(field: "CD_photo", target: target)])
        #expect(try transaction.references(to: target, in: place.zone).count == 5)
      }
      #expect(
        try await shard.read { try $0.references(to: target, in: place.zone) } == [
          IncomingReference(field: "CD_album", source: "m"), IncomingReference(field: "CD_photo", source: "6F"),
          IncomingReference(field: "CD_photo", source: Sample.uuid(2)),
          IncomingReference(field: "CD_photo", source: Sample.uuid(3)),
          IncomingReference(field: "CD_photo", source: "z"),
        ])
      #expect(
        try await shard.read { try $0.references(to: "text name", in: place.zone) }.map(\.source) == [
          "6F", Sample.uuid(2), Sample.uuid(3), "z",
        ])
      #expect(try await shard.read { try $0.references(to: "nobody", in: place.zone) } == [])
      // Names that differ in case are different names.
      #expect(try await shard.read { try $0.references(to: target.lowercased(), in: place.zone) } == [])
    }
  }

  @Test(arguments: StoreKind.allCases) func `the index follows each change of a record`(_ kind: StoreKind) async throws
  {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      func targets() async throws -> [String] {
        try await shard.read { snapshot in
          try ["a", "b", "c"].flatMap { target in
            try snapshot.references(to: target, in: place.zone).map { "\($0.source).\($0.field)->\(target)" }
          }
        }
      }
      func save(_ references: [(String, String)]) async throws {
        _ = try await shard.write { transaction in
          try transaction.save(
            Sample.note("s"), in: place, references: references.map { OutgoingReference(field: $0.0, target: $0.1) })
        }
      }
      try await save([("x", "a"), ("y", "b")])
      #expect(try await targets() == ["s.x->a", "s.y->b"])
      try await save([("y", "b"), ("x", "a"), ("x", "a")])
      #expect(try await targets() == ["s.x->a", "s.y->b"])
      try await save([("x", "c"), ("y", "b")])
      #expect(try await targets() == ["s.y->b", "s.x->c"])
      // One field may have two references: both ends of a link record.
      try await save([("x", "a"), ("x", "b")])
      #expect(try await targets() == ["s.x->a", "s.x->b"])
      try await shard.write { _ = try $0.delete("s", in: place) }
      #expect(try await targets() == [])
      try await save([("x", "a")])
      #expect(try await targets() == ["s.x->a"])
      // Twice in one body.
      try await shard.write { transaction in
        try transaction.save(Sample.note("s"), in: place, references: [OutgoingReference(field: "x", target: "b")])
        try transaction.save(Sample.note("s"), in: place, references: [OutgoingReference(field: "x", target: "c")])
      }
      #expect(try await targets() == ["s.x->c"])
      await #expect(throws: CancellationError.self) {
        try await shard.write { transaction in
          try transaction.save(Sample.note("s"), in: place)
          throw CancellationError()
        }
      }
      #expect(try await targets() == ["s.x->c"])
    }
  }

  @Test(arguments: StoreKind.allCases) func `sources that an action binds are found apart from plain pointers`(
    _ kind: StoreKind
  ) async throws {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      try await shard.write { transaction in
        #expect(try transaction.sources(boundTo: "t", by: .deleteSelf, in: place.zone, limit: 9) == [])
        for name in [Sample.uuid(2), "b", Sample.uuid(1)] {
          try transaction.save(
            Sample.note(name), in: place,
            references: [
              OutgoingReference(field: "x", target: "t", action: .deleteSelf),
              OutgoingReference(field: "y", target: "t", action: .deleteSelf),
              OutgoingReference(field: "x", target: "t"),
            ])
        }
        try transaction.save(
          Sample.note("v"), in: place, references: [OutgoingReference(field: "x", target: "t", action: .validate)])
        for number in 10..<40 {
          try transaction.save(
            Sample.note(Sample.uuid(number)), in: place, references: [OutgoingReference(field: "x", target: "t")])
        }
        #expect(
          try transaction.sources(boundTo: "t", by: .deleteSelf, in: place.zone, limit: 9) == [
            Sample.uuid(1), Sample.uuid(2), "b",
          ])
      }
      #expect(
        try await shard.read { try $0.sources(boundTo: "t", by: .deleteSelf, in: place.zone, limit: 2) }.count == 2)
      #expect(try await shard.read { try $0.sourceCount(boundTo: "t", by: .deleteSelf, in: place.zone) } == 3)
      #expect(try await shard.read { try $0.sources(boundTo: "t", by: .validate, in: place.zone, limit: 9) } == ["v"])
      #expect(try await shard.read { try $0.sources(boundTo: "t", by: .none, in: place.zone, limit: 9) } == [])
      #expect(
        try await shard.read { try $0.references(to: "t", in: place.zone) }.filter {
          $0.source == "b" || $0.source == "v"
        } == [
          IncomingReference(field: "x", source: "b", action: .deleteSelf), IncomingReference(field: "x", source: "b"),
          IncomingReference(field: "x", source: "v", action: .validate),
          IncomingReference(field: "y", source: "b", action: .deleteSelf),
        ])
      // The action is part of a reference: another action replaces it.
      _ = try await shard.write {
        try $0.save(
          Sample.note("b"), in: place, references: [OutgoingReference(field: "x", target: "t", action: .validate)])
      }
      #expect(
        try await shard.read { try $0.sources(boundTo: "t", by: .validate, in: place.zone, limit: 9) } == ["b", "v"])
      _ = try await shard.write { try $0.delete("v", in: place) }
      #expect(try await shard.read { try $0.sources(boundTo: "t", by: .validate, in: place.zone, limit: 9) } == ["b"])
    }
  }

  @Test(arguments: StoreKind.allCases) func `a body that is undone binds nothing, and the next that binds is seen`(
    _ kind: StoreKind
  ) async throws {
    struct Stop: Error {}
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      let binding = [OutgoingReference(field: "x", target: "t", action: .deleteSelf)]
      await #expect(throws: Stop.self) {
        try await shard.write { transaction in
          try transaction.save(Sample.note("a"), in: place, references: binding)
          throw Stop()
        }
      }
      #expect(try await shard.write { try $0.sources(boundTo: "t", by: .deleteSelf, in: place.zone, limit: 9) } == [])
      _ = try await shard.write { try $0.save(Sample.note("a"), in: place, references: binding) }
      #expect(
        try await shard.write { try $0.sources(boundTo: "t", by: .deleteSelf, in: place.zone, limit: 9) } == ["a"])
    }
  }

  @Test(arguments: StoreKind.allCases) func `a record is found by its short GUID for as long as it lives`(
    _ kind: StoreKind
  ) async throws {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      let other = try await Place(in: shard, zone: "other")
      var root = Sample.note("root")
      root.shortGUID = "0abc"
      let shared = root
      func zone(of shortGUID: String) async throws -> Int64? {
        try await shard.read { try $0.record(withShortGUID: shortGUID)?.zone }
      }
      _ = try await shard.write { try $0.save(shared, in: place) }
      let again = try await shard.write { try $0.save(shared, in: place) }
      #expect(try await shard.read { try $0.record(withShortGUID: "0abc")?.record } == again)
      #expect(try await zone(of: "0abc") == place.zone)
      #expect(try await zone(of: "0ABC") == nil)
      _ = try await shard.write { try $0.delete("root", in: place) }
      #expect(try await zone(of: "0abc") == nil)
      _ = try await shard.write { try $0.save(Sample.note("root"), in: place) }
      #expect(try await zone(of: "0abc") == nil)
      _ = try await shard.write { try $0.save(shared, in: other) }
      #expect(try await zone(of: "0abc") == other.zone)
      _ = try await shard.write { try $0.deleteZone(other.zone) }
      #expect(try await zone(of: "0abc") == nil)
    }
  }
}
