import Foundation
import Records
import Testing

@testable import RecordStore

/// Past states of records: the states that are kept, their asset uses, and the horizon.
struct PastConformanceTests {
  private static var keeping: SQLiteRecordStore.Options {
    var options = SQLiteRecordStore.Options()
    options.keepsPastStates = true
    return options
  }

  @Test(arguments: StoreKind.allCases) func `a record is known as it was at every sequence since its zone was made`(
    _ kind: StoreKind
  ) async throws {
    try await withShard(kind, options: Self.keeping) { shard in
      let place = try await Place(in: shard)
      var expected: [Int64: String?] = [:]
      // Sequence 1 made the zone.
      for step in 2...12 as ClosedRange<Int64> {
        try await shard.write { transaction -> Void in
          switch step {
          case 4, 9: _ = try transaction.delete("a", in: place)
          case 5, 6: try transaction.save(Sample.note("b", title: "b \(step)"), in: place)
          default:
            try transaction.save(
              Sample.note("a", type: step == 8 ? "CD_Tag" : "CD_Note", title: "a \(step)"), in: place)
          }
        }
        let present = try await shard.read { try $0.record(named: "a", in: place.zone) }
        expected[step] = present.flatMap {
          $0.isDeleted ? nil : $0.record.recordType + ($0.record.fields.string("CD_title") ?? "")
        }
      }
      try await shard.read { [expected] (snapshot) throws in
        for (sequence, title) in expected {
          let state = try snapshot.state(of: "a", in: place.zone, at: sequence)
          let found = state.flatMap {
            $0.isDeleted ? nil : $0.record.recordType + ($0.record.fields.string("CD_title") ?? "")
          }
          #expect(found == title, "at \(sequence)")
        }
        #expect(try snapshot.state(of: "a", in: place.zone, at: 1) == nil)
        #expect(try snapshot.state(of: "b", in: place.zone, at: 4) == nil)
        #expect(try snapshot.state(of: "b", in: place.zone, at: 5)?.record.fields.string("CD_title") == "b 5")
        #expect(try snapshot.state(of: "nobody", in: place.zone, at: 5) == nil)
        #expect(try snapshot.states(of: "a", in: place.zone).map(\.sequence) == [2, 3, 4, 7, 8, 9, 10, 11, 12])
        #expect(try snapshot.states(of: "a", in: place.zone, limit: 2).map(\.sequence) == [2, 3])
        #expect(
          try snapshot.pastStates(of: "a", in: place.zone, after: 9, limit: 1, byteLimit: .max).map(\.until) == [10])
        #expect(try snapshot.horizon(of: place.zone) == 1 && snapshot.horizon(of: 99) == nil)
        #expect(
          try snapshot.firstReplacement(in: place.zone, after: 999) == 3
            && snapshot.firstReplacement(in: place.zone, after: 1000) == nil)
        #expect(try snapshot.oldestReplacement() == 1000)
        #expect(try snapshot.records(in: place.zone, afterName: nil, limit: 9).map(\.record.recordName) == ["a", "b"])
        #expect(try snapshot.records(in: place.zone, afterName: "a", limit: 9).map(\.record.recordName) == ["b"])
      }
      if let store = shard as? SQLiteShardStore { #expect(try await store.verify().problems == []) }
    }
  }

  @Test(arguments: StoreKind.allCases) func `past states are read by bytes, and by the time of their replacement`(
    _ kind: StoreKind
  ) async throws {
    try await AssetWorld.with(kind, options: Self.keeping) { world, shard in
      let place = try await Place(in: shard)
      for number in 0..<6 {
        try await shard.write { transaction -> Void in
          var note = Sample.note("a")
          note.fields["CD_bytes"] = Field(.bytes((0..<10_000).map { _ in UInt8.random(in: 0...255) }))
          try transaction.save(note, in: place)
          try transaction.save(Sample.note("b", title: "\(number)"), in: place)
        }
        world.pass(10)
      }
      // The zone at 1; then both records at 2, 3 and so on, and ten milliseconds later anew.
      try await shard.read { (snapshot) throws -> Void in
        func read(_ byteLimit: Int, after sequence: Int64 = 0, limit: Int = 9) throws -> [Int64] {
          try snapshot.pastStates(of: "a", in: place.zone, after: sequence, limit: limit, byteLimit: byteLimit).map(
            \.stored.sequence)
        }
        #expect(try [read(.max), read(.max, limit: 3), read(.max, limit: 0)] == [[2, 4, 6, 8, 10], [2, 4, 6], []])
        #expect(try [read(0), read(0, after: 4), read(0, after: 12)] == [[2], [4], []])
        #expect(
          try [read(35_000), read(35_000, after: 9), read(35_000, limit: 2)] == [[2, 4, 6], [8, 10], [2, 4]])
        func replaced(after time: Int64) throws -> Int64? {
          try snapshot.pastState(of: "b", in: place.zone, replacedAfter: time)?.stored.sequence
        }
        #expect(try [0, 1009, 1010, 1049, 1050].map(replaced) == [3, 3, 5, 11, nil])
        #expect(try snapshot.pastState(of: "nobody", in: place.zone, replacedAfter: 0) == nil)
      }
    }
  }

  @Test(arguments: StoreKind.allCases) func `forgotten states raise the horizon, the oldest first`(_ kind: StoreKind)
    async throws
  {
    try await withShard(kind, options: Self.keeping) { shard in
      let place = try await Place(in: shard)
      let other = try await Place(in: shard, zone: "other")
      try await shard.write { transaction in
        for title in ["1", "2", "3"] { try transaction.save(Sample.note("a", title: title), in: place) }
        for title in ["1", "2"] { try transaction.save(Sample.note("a", title: title), in: other) }
      }
      // The zones at 1 and 2; then records at 3, 4, 5 and 6, 7.
      #expect(try await shard.write { try $0.forgetPast(replacedBefore: 1000, limit: 9) } == 0)
      #expect(try await shard.write { try $0.forgetPast(replacedBefore: 1001, limit: 0) } == 0)
      #expect(try await shard.write { try $0.forgetPast(replacedBefore: 1001, limit: 1) } == 1)
      #expect(try await shard.read { try [$0.horizon(of: place.zone), $0.horizon(of: other.zone)] } == [4, 2])
      #expect(try await shard.read { try $0.states(of: "a", in: place.zone).map(\.sequence) } == [4, 5])
      #expect(try await shard.write { try $0.forgetPast(replacedBefore: .max, limit: 9) } == 2)
      #expect(try await shard.read { try [$0.horizon(of: place.zone), $0.horizon(of: other.zone)] } == [5, 7])
      #expect(try await shard.write { try $0.forgetPast(replacedBefore: .max, limit: 9) } == 0)
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `a store that keeps no past raises horizons, and a zone takes its past along when it goes`(_ kind: StoreKind)
    async throws
  {
    try await withShard(kind) { shard in
      let place = try await Place(in: shard)
      _ = try await shard.write { try $0.save(Sample.note("a"), in: place) }
      #expect(try await shard.read { try $0.horizon(of: place.zone) } == 1, "nothing was replaced yet")
      _ = try await shard.write { try $0.save(Sample.note("a"), in: place) }
      #expect(try await shard.read { try $0.horizon(of: place.zone) } == 3)
      #expect(try await shard.read { try $0.states(of: "a", in: place.zone).map(\.sequence) } == [3])
    }
    var options = Self.keeping
    options.sweepLimit = 1
    try await withShard(kind, options: options) { shard in
      let place = try await Place(in: shard)
      try await shard.write { transaction in for _ in 0..<5 { try transaction.save(Sample.note("a"), in: place) } }
      try await shard.write { try $0.deleteZone(place.zone) }
      #expect(try await shard.read { try $0.horizon(of: place.zone) } == nil)
      #expect(try await shard.read { try $0.states(of: "a", in: place.zone) } == [])
      let again = try await Place(in: shard)
      #expect(try await shard.read { try $0.horizon(of: again.zone) } == 8)
      #expect(try await shard.read { try $0.state(of: "a", in: again.zone, at: 8) } == nil)
      for _ in 0..<20 {
        try await shard.write { _ in }
        // While a client saves, the sweep gets a fifth of the time.
        try await Task.sleep(for: .milliseconds(25))
      }
      #expect(try await shard.write { try $0.forgetPast(replacedBefore: .max, limit: 9) } == 0, "all of it is swept")
      if let store = shard as? SQLiteShardStore { #expect(try await store.verify().problems == []) }
    }
  }

  @Test(arguments: StoreKind.allCases) func `content stays for as long as a past state has it`(_ kind: StoreKind)
    async throws
  {
    try await AssetWorld.with(kind, options: Self.keeping) { world, shard in
      let place = try await Place(in: shard)
      let (a, b) = (try world.upload([1]), try world.upload([2]))
      func uses() async throws -> [Int?] {
        try await shard.read { snapshot in try [a, b].map { try snapshot.asset(withHash: $0.hash)?.useCount } }
      }
      _ = try await shard.write { try $0.save(Sample.note("1", assets: [a], others: [a]), in: place) }
      _ = try await shard.write { try $0.save(Sample.note("1", assets: [a]), in: place) }
      #expect(try await uses() == [3, nil])
      _ = try await shard.write { try $0.save(Sample.note("1", assets: [b]), in: place) }
      #expect(try await uses() == [3, 1])
      _ = try await shard.write { try $0.delete("1", in: place) }
      #expect(try await uses() == [3, 1])
      try world.forgetUploads()
      #expect(try await shard.collectAssets(orphanedBefore: .max, limit: 9).value == 0)
      // A record that comes back finds its content, long after its upload was forgotten.
      _ = try await shard.write { try $0.save(Sample.note("1", assets: [a, b]), in: place) }
      #expect(try await uses() == [4, 2])
      let byteCount = try await shard.read { try $0.database(key: place.database)?.byteCount }
      world.pass(10)
      #expect(try await shard.write { try $0.forgetPast(replacedBefore: 1010, limit: 2) } == 2)
      #expect(try await uses() == [1, 2])
      #expect(try await shard.write { try $0.forgetPast(replacedBefore: 1010, limit: 9) } == 2)
      #expect(try await uses() == [1, 1])
      #expect(
        try await shard.read { try $0.database(key: place.database)?.byteCount } == byteCount,
        "the past is on nobody's quota")
      _ = try await shard.write { try $0.delete("1", in: place) }
      _ = try await shard.write { try $0.forgetPast(replacedBefore: .max, limit: 9) }
      #expect(try await uses() == [0, 0])
      #expect(try await shard.read { try $0.asset(withHash: a.hash)?.orphanedAt } == 1010)
      #expect(try await shard.collectAssets(orphanedBefore: .max, limit: 9).value == 2)
    }
  }
}
