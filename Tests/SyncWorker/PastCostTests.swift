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

  /// Reads photo P's zone as an export does.
  fileprivate func source<Value: Sendable>(
    _ body: @escaping @Sendable (ZoneSource, StoredZone) throws -> Value
  ) async throws -> Value {
    let database = request("GET", "stores/A").database
    return try await store.read { snapshot in
      let zone = try #require(
        try snapshot.database(database).flatMap {
          try snapshot.zone(named: ReservedName.privateMirrorZone, in: $0.key)
        })
      return try body(ZoneSource(zone, in: snapshot), zone)
    }
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

  @Test(arguments: StoreKind.allCases) func `the edits of an object with one base read its past once`(_ kind: StoreKind)
    async throws
  {
    try await ObjectPlaneWorld.with(kind, keepsPastStates: true) { world in
      try await world.writePhoto(states: 100, byteCount: 1000)
      try await world.source { source, zone in
        let base = zone.sequence - 80
        let history = try source.history(of: "P", since: base)
        #expect(history.states.count == 80)
        guard case .record(let ancestor) = history.ancestor else { throw CancellationError() }
        #expect(ancestor.fields["CD_views"]?.value == .int64(19))
        let read = source.pastReader.byteCount
        for _ in 0..<50 {
          let isSame = try source.history(of: "P", since: base) == history
          #expect(isSame)
        }
        #expect(source.pastReader.byteCount == read)
        _ = try source.history(of: "P", since: base + 1)
        #expect(source.pastReader.byteCount > read, "another base is another question")
      }
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `beyond the bytes that a batch may read of the past, ancestors are unknown and the present is known`(
    _ kind: StoreKind
  ) async throws {
    try await ObjectPlaneWorld.with(kind, keepsPastStates: true) { world in
      try await world.writePhoto(states: 30, byteCount: 900_000)
      try await world.source { source, zone in
        // A few states are no matter.
        guard case .record = try source.history(of: "P", since: zone.sequence - 2).ancestor else {
          throw CancellationError()
        }
        for base in 1...zone.sequence - 20 {
          let history = try source.history(of: "P", since: base)
          // Not compared in the macro, which writes down whole records.
          let isUnknown = history.ancestor == .unknown
          #expect(isUnknown)
          #expect(history.states.last?.record.fields["CD_views"]?.value == .int64(29))
        }
        #expect(source.pastReader.byteCount < ZoneSource.pastByteLimit + 3_000_000)
      }
    }
  }

  @Test(arguments: StoreKind.allCases) func `all links that went with an object are found, and looked for once`(
    _ kind: StoreKind
  ) async throws {
    try await ObjectPlaneWorld.with(kind, keepsPastStates: true) { world in
      try await world.setUp("A")
      let tags = (0..<120).map { "T\($0)" }
      let made = tags.map { #"{"changeType":"insert","entity":"Tag","objectID":"\#($0)"}"# }.joined(separator: ",")
      let list = tags.map { "\"\($0)\"" }.joined(separator: ",")
      try await world.edit("A", made)
      try await world.edit(
        "A", #"{"changeType":"insert","entity":"Photo","objectID":"P","relationships":{"tags":[\#(list)]}}"#)
      try await world.edit("A", #"{"changeType":"delete","entity":"Photo","objectID":"P"}"#)
      try await world.source { source, _ in
        let company = try source.company(ofDeleted: "P")
        let ends = Set(
          company.links.compactMap { LinkRecord($0).map { $0.ends.first == "P" ? $0.ends.second : $0.ends.first } })
        #expect(company.links.count == 120 && ends == Set(tags))
        let read = source.pastReader.byteCount
        #expect(try source.company(ofDeleted: "P") == company)
        #expect(source.pastReader.byteCount == read)
      }
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
