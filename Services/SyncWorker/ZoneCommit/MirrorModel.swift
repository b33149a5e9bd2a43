// Prepares a model for mirroring, and reads a zone as mirroring needs it.

package import Mirroring
package import ObjectModel
package import RecordStore
import Records

/// The parts of a model that exports and imports use; made once per model and schema version.
package struct MirrorModel: Sendable {
  package let index: ModelIndex
  package let links: LinkResolver

  init(_ index: ModelIndex) {
    self.index = index
    links = LinkResolver(index)
  }

  /// Names of the entities of a configuration; nil: all.
  package func entityNames(inConfiguration name: String?) -> Set<String>? {
    guard let name else { return nil }
    return Set((index.entities(inConfiguration: name) ?? []).map(\.name))
  }
}

/// A zone of a snapshot; remembers what it read, because a page or an export asks for the same things again.
package final class ZoneSource: RecordSource {
  private let snapshot: any ShardSnapshot
  /// nil when the zone does not exist.
  private let zone: StoredZone?
  /// True if the caller may know of a zone.
  private let sees: (String) -> Bool
  private var rows: [String: StoredRecord?] = [:]
  private var presences: [String: RecordPresence] = [:]
  /// Counts the bytes of the records that are read.
  package var countsBytes = false
  package private(set) var readByteCount = 0
  private var incoming: [String: [RecordPointer]] = [:]

  private struct RecordBase: Hashable {
    let recordName: String
    let sequence: Int64
  }

  private var histories: [RecordBase: RecordHistory] = [:]
  private var companies: [String: DeletedCompany] = [:]
  private var pastAccess: (any RecordAccess)?
  private(set) lazy var pastReader = PastReader(snapshot)

  package init(_ zone: StoredZone?, in snapshot: any ShardSnapshot, sees: @escaping (String) -> Bool = { _ in true }) {
    self.sees = sees
    self.zone = zone.flatMap { $0.isDeleted ? nil : $0 }
    self.snapshot = snapshot
  }

  /// Read from the store once: a zone's first redirect is made after the rows that an export looks at.
  package private(set) lazy var hasRedirects: Bool = {
    // Dropped because the next read of the zone meets the same error and reports it.
    guard let zone, let known = try? snapshot.hasRedirects(in: zone.databaseKey) else { return false }
    return known
  }()

  package func redirect(of recordName: String) throws -> RecordRedirect? {
    guard let zone, let redirect = try snapshot.redirect(of: recordName, in: zone.key) else { return nil }
    return RecordRedirect(survivor: redirect.survivor, since: redirect.since, isPending: redirect.isPending)
  }

  package func source(ofMoved recordName: String) throws -> (any RecordSource)? {
    guard let zone, let row = try row(named: recordName), row.isDeleted, Tombstone.movedTo(row.record) != nil else {
      return nil
    }
    let present = try snapshot.presentZone(of: recordName, from: zone)
    return present.key == zone.key || !sees(present.zoneName) ? nil : ZoneSource(present, in: snapshot)
  }

  package func row(named recordName: String) throws -> StoredRecord? {
    if let known = rows[recordName] { return known }
    let row = try zone.flatMap { try snapshot.record(named: recordName, in: $0.key) }
    rows[recordName] = .some(row)
    if countsBytes { readByteCount += row?.record.fields.byteCount ?? 0 }
    return row
  }

  /// Whether there is a row of that name, without reading it.
  package func presence(of recordName: String) throws -> RecordPresence {
    guard let zone else { return .unused }
    if let known = presences[recordName] { return known }
    let presence = try snapshot.presence(of: recordName, in: zone.key)
    presences[recordName] = presence
    return presence
  }

  /// The stored bytes of the row of that name, without reading it; 0 when there is none.
  package func storedByteCount(of recordName: String) throws -> Int {
    try zone.map { try snapshot.recordByteCount(of: recordName, in: $0.key) } ?? 0
  }

  package func record(named recordName: String) throws -> SourceRecord? {
    try row(named: recordName).map {
      SourceRecord(
        record: $0.record, isDeleted: $0.isDeleted, sequence: $0.sequence, origin: $0.origin,
        sequenceOfOthers: $0.sequenceOfOthers)
    }
  }

  /// Limits the states that conflicts are judged by to those which a user could read.
  /// - Parameter access: nil: the user may read everything.
  package func restrictPast(to access: (any RecordAccess)?) { pastAccess = access }

  package func history(of recordName: String, since sequence: Int64) throws -> RecordHistory {
    let base = RecordBase(recordName: recordName, sequence: sequence)
    if let known = histories[base] { return known }
    let history = try readHistory(of: recordName, since: sequence)
    histories[base] = history
    return history
  }

  private func readHistory(of recordName: String, since sequence: Int64) throws -> RecordHistory {
    guard let zone else { return RecordHistory(ancestor: .unknown, states: []) }
    let present = try row(named: recordName)
    var history = RecordHistory(ancestor: .unknown, states: [])
    // What is left where there is too much of it.
    func cut() -> RecordHistory {
      if let present { history.states.append(RecordHistory.State(present)) }
      return RecordHistory(ancestor: .unknown, states: history.states)
    }
    guard pastReader.byteCount < Self.pastByteLimit else { return cut() }
    // The states in an ended zone are gone with it.
    let former = try snapshot.formerZones(of: present?.record, in: zone)
    var past = try KeptPast(
      of: recordName, in: former.compactMap(\.self) + [zone], after: sequence, by: pastReader)
    var isKnown = false
    var count = 0
    while let state = try past.next()?.state {
      let stored = state.stored
      if stored.isDeleted, !former.isEmpty, Tombstone.movedTo(stored.record) != nil { continue }
      count += 1
      guard count <= Self.historyLimit, pastReader.byteCount < Self.pastByteLimit else { return cut() }
      let isReadable = try stored.isDeleted || pastAccess?.mayRead(state, by: pastReader) ?? true
      if stored.sequence > sequence {
        if isReadable { history.states.append(RecordHistory.State(stored)) }
      } else {
        isKnown = true
        // For a user who could not read it there was nothing.
        history.ancestor = stored.isDeleted || !isReadable ? .nothing : .record(stored.record)
      }
    }
    // States before the horizon were never kept or are forgotten; before sequence 0 there was nothing.
    if !isKnown, try sequence == 0 || horizon(of: present, in: zone, wasMoved: !former.isEmpty) <= sequence {
      history.ancestor = .nothing
    }
    return history
  }

  private func horizon(of row: StoredRecord?, in zone: StoredZone, wasMoved: Bool) throws -> Int64 {
    if wasMoved { return try row.map { try snapshot.horizon(of: $0.record, in: zone) } ?? .max }
    return try snapshot.horizon(of: zone.key) ?? .max
  }

  /// States of one record that a conflict compares; with more states the ancestor counts as unknown.
  private static let historyLimit = 500
  /// Bytes of past states that the conflicts of one batch read, while nobody else can write. Beyond them ancestors
  /// count as unknown.
  static let pastByteLimit = 16 << 20

  /// The links and pointers that went with a record: deletions of one commit are neighbours in the feed with one stamp.
  package func company(ofDeleted recordName: String) throws -> DeletedCompany {
    if let known = companies[recordName] { return known }
    var company = DeletedCompany()
    if let zone, let tombstone = try row(named: recordName), tombstone.isDeleted {
      var last = tombstone.sequence
      var count = 0
      var hasNeighbours = true
      while hasNeighbours, count < Self.companyLimit, pastReader.byteCount < Self.pastByteLimit {
        let rows = try snapshot.changes(in: zone.key, after: last, limit: Self.companyPageCount)
        let neighbours = rows.filter { $0.record.modified == tombstone.record.modified }
        rows.forEach(pastReader.count)
        for row in neighbours { try add(row, to: &company, ofDeleted: recordName, in: zone) }
        count += rows.count
        last = rows.last?.sequence ?? last
        hasNeighbours = !neighbours.isEmpty
      }
    }
    companies[recordName] = company
    return company
  }

  private func add(
    _ row: StoredRecord, to company: inout DeletedCompany, ofDeleted recordName: String, in zone: StoredZone
  ) throws {
    guard
      let before = try pastReader.state(of: row.record.recordName, in: zone.key, at: row.sequence - 1)?.stored,
      !before.isDeleted
    else { return }
    if row.isDeleted {
      guard let link = LinkRecord(before.record), link.ends.first == recordName || link.ends.second == recordName
      else { return }
      company.links.append(before.record)
    } else {
      for element in before.record.fields
      where element.field.value == .string(recordName) && row.record.fields[element.name] == nil {
        company.pointers.append(RecordPointer(field: element.name, source: row.record.recordName))
      }
    }
  }

  private static let companyLimit = 1000
  private static let companyPageCount = 50

  package func pointers(to target: String) throws -> [RecordPointer] {
    if let known = incoming[target] { return known }
    let found = try zone.map { try snapshot.references(to: target, in: $0.key) } ?? []
    let pointers = found.filter { $0.field != ReservedName.parentReference }.map {
      RecordPointer(field: $0.field, source: $0.source)
    }
    incoming[target] = pointers
    return pointers
  }
}

extension RecordHistory.State {
  fileprivate init(_ stored: StoredRecord) { self.init(record: stored.record, isDeleted: stored.isDeleted) }
}

extension StoredMirror {
  /// The zone of new objects; nil where there is none (shared databases have no default zone, E3).
  package var defaultZoneName: String? {
    switch scope {
    case .private: ReservedName.privateMirrorZone
    case .public: ReservedName.defaultZone
    case .shared: nil
    }
  }

  /// The position after a transaction of this store.
  package func historyToken(_ number: Int64) -> String {
    SyncToken(.history, incarnation: incarnation, sequence: number).text
  }
}

extension ShardSnapshot {
  /// All zones of a database changed after `sequence`, ascending by sequence, the deleted ones included. It reads on
  /// past one page, because a page full of deleted zones would leave no place for living ones.
  package func allZones(in database: Int64, after sequence: Int64) throws -> [StoredZone] {
    var zones: [StoredZone] = []
    var last = sequence
    while true {
      let rows = try self.zones(in: database, after: last, limit: Limit.zonesPerDatabase)
      zones += rows
      guard rows.count == Limit.zonesPerDatabase, let end = rows.last?.sequence else { return zones }
      last = end
    }
  }

  /// All live zones of a database, ascending by name.
  package func liveZones(of database: Int64) throws -> [StoredZone] {
    var zones: [StoredZone] = []
    while case let page = try liveZones(in: database, afterName: zones.last?.zoneName, limit: Limit.zonesPerDatabase),
      !page.isEmpty
    {
      zones += page
      if page.count < Limit.zonesPerDatabase { break }
    }
    return zones
  }

  /// The zones that a store mirrors: in a private database all but the default one, which keeps no feed; in the public
  /// database its only one; for a guest those that are shared with its user.
  package func mirroredZones(of mirror: StoredMirror, after sequence: Int64) throws -> [StoredZone] {
    if mirror.isGuest {
      return try GuestZones(of: mirror, self).zones(in: mirror.databaseKey, self).filter { $0.sequence > sequence }
    }
    if mirror.scope == .shared { return [] }
    return try allZones(in: mirror.databaseKey, after: sequence).filter {
      ($0.zoneName == ReservedName.defaultZone) == (mirror.scope == .public)
    }
  }
}
