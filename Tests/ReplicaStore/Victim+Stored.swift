// What is there of a store whose processes were killed.

import Foundation
import MirrorWire
import Testing

@testable import ReplicaStore
@testable import replica_tool

extension Victim {
  /// Numbers that were acknowledged.
  func acknowledged() -> [Int] { numbers(in: ledger) }

  private func numbers(in path: String) -> [Int] {
    let text = (try? String(contentsOfFile: path, encoding: .utf8)) ?? ""
    return text.split(separator: "\n").compactMap { Int($0) }
  }

  /// Numbers in the store by how many of their two halves are there, the texts of the pictures, and how many saves wait
  /// to be sent.
  struct Stored {
    var halves: [Int: Int] = [:]
    var pictures: [String] = []
    var outboxCount = 0
    /// Of zoneEnds: objects of an ended zone that are noted, and not in the outbox yet.
    var unlisted: Set<String> = []
    /// The names of objects whose insertion waits.
    var insertions: [String] = []
    /// Of switches: some file has saves of two accounts.
    var isMixed = false
    /// Entities and properties in saves that wait, which the file's model does not have.
    var foreignWords: Set<String> = []
    /// Of zoneEnds: the transactions that send an object again, of those that wait and of those that the server has had
    /// since the latest end.
    var senders: [String: Set<String>] = [:]
    /// Of consumes: the transactions that the reader was told, in that order.
    var told: [Int] = []
  }

  /// nil: there is no store, or none that can be opened.
  func stored() async throws -> Stored? {
    guard kind == .switches else { return try await stored(in: current) }
    var all: Stored?
    for path in files {
      guard let stored = try await stored(in: path) else { continue }
      var sum = all ?? Stored()
      sum.halves.merge(stored.halves, uniquingKeysWith: +)
      sum.outboxCount += stored.outboxCount
      sum.foreignWords.formUnion(stored.foreignWords)
      sum.isMixed = sum.isMixed || Set(stored.halves.keys.map { $0 % 3 }).count > 1
      all = sum
    }
    return all
  }

  private var files: [String] { [store, "\(store)-account-1", "\(store)-account-2"] }
  /// The file that opens next; without switches there is one.
  private var current: String { get throws { try AccountFiles(store).current() } }

  private func stored(in path: String) async throws -> Stored? {
    guard FileManager.default.fileExists(atPath: path) else { return nil }
    var configuration = World.configuration(path, isMirrored: kind != .consumes)
    configuration.isReadOnly = true
    for model in kind.models {
      // Dropped because the file has another version's model; a file that none opens is told as one that is gone.
      guard let replica = try? await Replica.open(configuration, model) else { continue }
      let (kind, read) = (kind, numbers(in: "\(store)-told"))
      let stored = try await replica.read { snapshot in
        var stored = Stored()
        if kind == .tracks { try stored.readTracks(snapshot) } else { try stored.readHalves(kind, snapshot) }
        try stored.readOutbox(snapshot)
        stored.told = read
        return stored
      }
      await replica.close()
      return stored
    }
    return nil
  }

  /// Records what is lost, or there in part.
  func check(_ place: String) async throws {
    let acknowledged = acknowledged()
    guard let stored = try await stored() else {
      #expect(acknowledged.isEmpty, "\(place): the store is gone")
      return
    }
    #expect(stored.halves.values.allSatisfy { $0 == 2 }, "\(place): \(stored.halves.filter { $0.value != 2 })")
    switch kind {
    case .resets:
      // Each reset takes away what the former one brought.
      #expect(stored.halves.count <= 1, "\(place)")
      #expect(stored.halves.keys.first ?? 0 >= acknowledged.last ?? 0, "\(place)")
    case .saves, .imports, .migrates, .contents, .switches, .reuploads, .tracks, .consumes, .zoneEnds:
      #expect(Set(acknowledged).isSubset(of: stored.halves.keys), "\(place): acknowledged work is lost")
    }
    #expect(!stored.isMixed, "\(place): a file has saves of two accounts")
    #expect(stored.foreignWords.isEmpty, "\(place): words of another version wait to be sent")
    if kind == .consumes {
      // A page of one transaction may be told again, and none is left out.
      #expect(stored.told.first ?? 1 == 1, "\(place)")
      #expect(zip(stored.told, stored.told.dropFirst()).allSatisfy { [$0, $0 + 1].contains($1) }, "\(place)")
      #expect(stored.told.last ?? 0 >= 2 * acknowledged.count, "\(place): the reader missed a transaction")
    } else if kind == .reuploads {
      for path in files {
        guard let stored = try await self.stored(in: path) else { continue }
        let names = stored.halves.keys.flatMap { ["\($0)a", "\($0)b"] }
        #expect(stored.insertions.sorted() == names.sorted(), "\(place): \(path) sends an object twice or never")
      }
    } else if kind == .zoneEnds {
      checkEnds(stored, place)
    } else if kind != .imports, kind != .resets {
      #expect(stored.outboxCount == stored.halves.count, "\(place)")
    }
    let hasPictures = [.contents, .reuploads].contains(kind)
    #expect(stored.pictures.count == (hasPictures ? 2 * stored.halves.count : 0), "\(place)")
    for text in stored.pictures {
      let name = try #require(ContentName(text))
      let path = "\(try current)-contents/\(name.checksum)"
      #expect((try? ContentFile.measure(path)) == name, "\(place): the content of \(text) is lost")
    }
  }
}

extension Victim {
  /// Each end has each object sent by one transaction, once the server has it or still waiting. Those of the last end
  /// that are not in the outbox yet are noted.
  private func checkEnds(_ stored: Stored, _ place: String) {
    let text = (try? String(contentsOfFile: "\(store)-server", encoding: .utf8)) ?? ""
    var ends: [Int: [String: Set<String>]] = [:]
    for line in text.split(separator: "\n") {
      let words = line.split(separator: " ").map(String.init)
      guard words.count == 3, let end = Int(words[0]) else { continue }
      ends[end, default: [:]][words[2], default: []].insert(words[1])
    }
    let last = stored.halves.keys.max() ?? 0
    if last > 0 { ends[last, default: [:]].merge(stored.senders) { $0.union($1) } }
    for end in stored.halves.keys {
      let sent = ends[end] ?? [:]
      let unlisted = end == last ? stored.unlisted : []
      #expect(
        unlisted.union(sent.keys) == Set((1...end).flatMap { ["\($0)a", "\($0)b"] }),
        "\(place): end \(end) loses an object")
      let isOnce = sent.values.allSatisfy { $0.count == 1 } && unlisted.isDisjoint(with: sent.keys)
      #expect(isOnce, "\(place): end \(end) sends an object twice")
    }
  }
}

extension Victim.Stored {
  fileprivate mutating func readHalves(_ kind: Victim.Kind, _ snapshot: Snapshot) throws {
    let (entity, number) = kind == .consumes ? ("Photo", "size") : ("Note", "number")
    let objects = "FROM e_\(entity) n JOIN object o ON o._pk = n._pk WHERE o.state = 1"
    for row in try snapshot.rows("SELECT n.\(number), count(*) \(objects) GROUP BY 1", []) {
      guard case .integer(let number) = row[0], case .integer(let count) = row[1] else { continue }
      halves[Int(number)] = Int(count)
    }
    guard kind != .consumes else { return }
    for row in try snapshot.rows("SELECT n.picture \(objects) AND n.picture IS NOT NULL", []) {
      guard case .text(let text) = row[0] else { continue }
      pictures.append(text)
    }
  }

  /// A half of a number is a tick with its track, which is in its group.
  fileprivate mutating func readTracks(_ snapshot: Snapshot) throws {
    let isLater = snapshot.hasEntity("Entry")
    let (tick, groups) = isLater ? ("Entry", "folders") : ("Tick", "groups")
    for name in try snapshot.names(Query(tick)) {
      let id = AnyObjectID(entityName: tick, recordName: name)
      guard let values = try snapshot.values(id), case .integer(let number)? = values["dayOffset"],
        case .object(let track)? = values["track"]
      else { continue }
      var query = Query("TrackGroup")
      query.related = .init(groups, of: AnyObjectID(entityName: "Track", recordName: track))
      let isWhole =
        try track == "\(number)t" && values[isLater ? "times" : "count"] == .integer(2)
        && snapshot.names(query) == ["\(number)g"]
      halves[Int(number), default: 0] += isWhole ? 1 : 0
    }
  }

  fileprivate mutating func readOutbox(_ snapshot: Snapshot) throws {
    for row in try snapshot.rows(Self.unlistedNames, []) {
      if case .text(let name) = row[0] { unlisted.insert(name) }
    }
    for row in try snapshot.rows("SELECT body FROM outbox", []) {
      guard case .data(let body) = row[0] else { continue }
      outboxCount += 1
      let transaction = try Transaction(json: [UInt8](body))
      for change in transaction.changes {
        senders[change.objectID, default: []].insert(transaction.transactionID)
        if change.changeType == .insert { insertions.append(change.objectID) }
        guard let entity = snapshot.schema.entities[change.entity] else {
          foreignWords.insert(change.entity)
          continue
        }
        let names = Set((change.attributes ?? [:]).keys).union((change.relationships ?? [:]).keys)
        foreignWords.formUnion(names.filter { entity.column($0) == nil && entity.toMany[$0] == nil })
      }
    }
  }
}

extension Victim.Stored {
  private static let unlistedNames =
    "SELECT o.name FROM object o JOIN endedZone z ON coalesce(o.zone, z.zone) = z.zone "
    + "WHERE o.state = 1 AND o._pk > z.after AND o._pk <= z.last"
}

extension Victim.Kind {
  /// The versions that a file of this kind may have, none of which knows the others.
  fileprivate var models: [ManagedObjectModel] {
    let models =
      switch self {
      case .tracks: [Tracks.model(isLater: false), Tracks.model(isLater: true)]
      case .consumes: [ManagedObjectModel.measured]
      default: (1...3).map(Endless.model)
      }
    return models.map { ManagedObjectModel(hash: $0.hash, entities: $0.entities) }
  }
}
