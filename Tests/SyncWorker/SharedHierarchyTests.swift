import FixedClocks
import JSON
import Mirroring
import RecordStore
import Records
import Sanitizers
import Sharing
import Testing

@testable import WorkerHost
@testable import ZoneCommit

/// Hierarchies of an owner's zone in a shared store: there is what the record plane shows, and no more.
struct SharedHierarchyTests {
  /// Bob's phone: the photos that it has, and how often it was told of each one's deletion.
  private struct Album {
    var phone: Phone
    var photos: Set<String> = []
    var deletions: [String: Int] = [:]

    @discardableResult
    mutating func pull(limit: Int? = nil) async throws -> [JSONValue] {
      let changes = try await phone.pull(limit: limit)
      for change in changes {
        let name = change["objectID"]?.string ?? ""
        switch change["changeType"]?.string {
        case "save": photos.insert(name)
        case "delete":
          photos.remove(name)
          deletions[name, default: 0] += 1
        case "zone": photos = []
        default: break
        }
      }
      return changes
    }
  }

  @Test
  func `of a hierarchy a shared store has what hangs below its root, over tombstones, too, and hears of nothing else`()
    async throws
  {
    try await SharedWorld.with { world in
      let zone = SharedHierarchy(world)
      for (name, parent) in [("R", nil), ("M", "R"), ("C", "M"), ("X", nil), ("P", nil)] {
        try await zone.put(name, below: parent)
      }
      try await zone.delete("gone")
      try await zone.share("R")
      try await zone.join("R")
      try await world.setUp()
      var bob = Album(phone: Phone(world))
      let first = try await bob.pull()
      #expect(bob.photos == ["R", "M", "C"])
      #expect(first.contains { $0["changeType"]?.string == "share" }, "\(first.map(\.text))")
      // The record in between is deleted; its descendants stay, and the feed tells them.
      try await zone.delete("M")
      try await zone.delete("X")
      try await zone.put("C", below: "M")
      let then = try await bob.pull()
      #expect(bob.photos == ["R", "C"])
      #expect(!then.contains { $0.text.contains(#""X""#) }, "\(then.map(\.text))")
      for path in ["records", "permissions"] {
        var answers: [String] = []
        for name in ["P", "Q"] {
          answers.append(
            try await world.send("POST", path, [:], #"{"objectIDs":["\#(name)"]}"#).text.replacing(
              #""\#(name)""#, with: "NAME"))
        }
        #expect(answers[0] == answers[1])
      }
      #expect(try await world.send("GET", "objects/P").status == 404)
      // Changes of unshared records are no news to the participant.
      for title in 0..<5 { try await zone.put("P\(title)", below: nil) }
      #expect(try await world.send("GET", "status").json["pending"]?["downloads"]?.int64 == 0)
      let list = try await world.send("GET", "objects/C").json
      #expect(list["objectID"]?.string == "C")
    }
  }

  @Test(arguments: Sanitizer.few(4, of: 1...16 as ClosedRange<UInt64>))
  func `a shared store that looks now and then ends with what its user may see of hierarchies, and hears of no more`(
    seed: UInt64
  ) async throws {
    try await SharedWorld.with { world in
      let random = SeededRandom(seed: seed &* 31)
      func pick(_ count: Int) -> Int { Int(random.next() % UInt64(count)) }
      let zone = SharedHierarchy(world)
      let names = (0..<8).map { "n\($0)" }
      var model = HierarchyModel()
      try await zone.put("n0", below: nil)
      (model.alive, model.parents) = (["n0"], [:])
      try await world.setUp()
      var bob = Album(phone: Phone(world))
      var log: [String] = []
      for _ in 0..<120 {
        let name = names[pick(names.count)]
        let shared = model.shares.keys.sorted()
        switch pick(11) {
        case 0..<4:
          let parent = pick(4) == 0 ? nil : names[pick(names.count)]
          log.append("put \(name) below \(parent ?? "nothing")")
          try await zone.put(name, below: parent)
          model.alive.insert(name)
          model.parents[name] = parent
        case 4:
          log.append("delete \(name)")
          try await zone.delete(name)
          model.alive.remove(name)
          model.shares[name] = nil
        case 5:
          guard model.alive.contains(name), model.shares[name] == nil else { continue }
          log.append("share \(name)")
          try await zone.share(name)
          model.shares[name] = []
        case 6, 7:
          guard !shared.isEmpty, case let root = shared[pick(shared.count)], model.shares[root] == [] else { continue }
          log.append("join \(root)")
          try await zone.join(root)
          model.shares[root] = ["bob"]
        case 8:
          guard !shared.isEmpty, case let root = shared[pick(shared.count)], model.shares[root] != [] else { continue }
          log.append("leave \(root)")
          try await zone.leave(root)
          model.shares[root] = []
        default:
          let limit = pick(2) == 0 ? nil : 1 + pick(4)
          log.append("pull by \(limit ?? 0)")
          try await bob.pull(limit: limit)
          #expect(bob.photos == model.visible(to: "bob").filter { !$0.hasPrefix("S-") }, "\(log.suffix(40))")
          for (name, count) in bob.deletions {
            #expect(count <= model.departures["bob"]?[name] ?? 0, "\(name): \(log.suffix(40))")
          }
        }
        model.note(["bob"])
      }
      try await bob.pull()
      #expect(bob.photos == model.visible(to: "bob").filter { !$0.hasPrefix("S-") })
    }
  }
}

/// Alice's zone Trips, with a hierarchy of photos.
private struct SharedHierarchy {
  let world: SharedWorld

  init(_ world: SharedWorld) { self.world = world }

  private func write(_ body: @escaping @Sendable (any ShardTransaction, ZoneWriter, Stamp) throws -> Void) async throws
  {
    let (schema, time, context) = (
      try await world.schemas.schema(of: SharedWorld.container, .development), world.clock.now, world.plane.context
    )
    try await world.store(of: "_alice").enqueue { transaction in
      let zone = try transaction.makeZone(
        named: "Trips", in: transaction.makeDatabase(SharedWorld.database("_alice")).key)
      let writer = try context.writer(to: zone, schema, in: transaction)
      try body(transaction, writer, Stamp(timestamp: time, userRecordName: "_alice"))
    }.value
  }

  func put(_ name: String, below parent: String?) async throws {
    try await write { transaction, writer, stamp in
      var record = Record(recordName: name, recordType: "CD_Photo", fields: Fields(), created: stamp, modified: stamp)
      record.fields[ReservedName.entityName] = Field(.string("Photo"))
      record.fields["CD_displayName"] = Field(.string(name))
      record.parent = parent
      let existing = try transaction.record(named: name, in: writer.zone.key)
      record.shortGUID = existing?.isDeleted == false ? existing?.record.shortGUID : nil
      _ = try writer.save(record, replacing: existing)
    }
  }

  func delete(_ name: String) async throws {
    try await write { transaction, writer, stamp in
      guard let existing = try transaction.record(named: name, in: writer.zone.key), !existing.isDeleted else { return }
      _ = try writer.delete(existing, modified: stamp)
    }
  }

  func share(_ root: String) async throws {
    try await write { transaction, writer, stamp in
      let name = "S-\(root)"
      let record = Record(
        recordName: name, recordType: ReservedName.shareRecordType, fields: Fields(), created: stamp, modified: stamp)
      let state = ShareState(
        of: KnownUser(userRecordName: "_alice"), rootRecordName: root, participantID: "owner", at: stamp.timestamp)
      let share = StoredShare(name: name, rootRecordName: root, shortGUID: "0\(root)", state: nil)
      let shares = ShareWriter(writer: writer)
      _ = try shares.save(
        record, replacing: transaction.record(named: name, in: writer.zone.key), share,
        ShareDecision(from: nil, to: state))
      _ = try shares.touchRoot(root, shortGUID: "0\(root)", stamp: stamp)
    }
  }

  func join(_ root: String) async throws {
    try await change(root) { state in
      state.participants.append(
        Participant(
          participantID: "bob", identity: KnownUser(userRecordName: "_bob").identity(), role: .privateUser,
          permission: .readWrite, acceptance: .accepted,
          dateAdded: 0))
    }
  }

  func leave(_ root: String) async throws {
    try await change(root) { $0.participants.removeAll { $0.participantID == "bob" } }
  }

  private func change(_ root: String, _ body: @escaping @Sendable (inout ShareState) -> Void) async throws {
    try await write { transaction, writer, stamp in
      guard let share = try transaction.share(named: "S-\(root)", in: writer.zone.key), var state = share.state else {
        return
      }
      body(&state)
      _ = try ShareWriter(writer: writer).apply(ShareDecision(from: share.state, to: state), to: share, stamp: stamp)
    }
  }
}
