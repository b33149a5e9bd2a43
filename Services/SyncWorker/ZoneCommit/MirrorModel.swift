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
  private var incoming: [String: [RecordPointer]] = [:]

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
    return row
  }

  package func record(named recordName: String) throws -> SourceRecord? {
    try row(named: recordName).map {
      SourceRecord(
        record: $0.record, isDeleted: $0.isDeleted, sequence: $0.sequence, origin: $0.origin,
        sequenceOfOthers: $0.sequenceOfOthers)
    }
  }

  package func history(of recordName: String, since sequence: Int64) throws -> RecordHistory {
    guard let zone else { return RecordHistory(ancestor: .unknown, states: []) }
    let former = try snapshot.formerZones(of: row(named: recordName)?.record, in: zone)
    if !former.isEmpty { return try history(of: recordName, since: sequence, in: former, and: zone) }
    let states =
      try snapshot.pastStates(
        of: recordName, in: zone.key, after: sequence, limit: Self.historyLimit, byteLimit: .max
      ).map(\.stored)
      + [row(named: recordName)].compactMap { $0 }
    let later = states.filter { $0.sequence > sequence }.map {
      RecordHistory.State(record: $0.record, isDeleted: $0.isDeleted)
    }
    // States before the horizon were never kept or are forgotten; before sequence 0 there was nothing.
    let isKnown =
      try sequence == 0 || snapshot.horizon(of: zone.key).map { $0 <= sequence } ?? false
      || states.first.map { $0.sequence <= sequence } ?? false
    guard states.count <= Self.historyLimit, isKnown else { return RecordHistory(ancestor: .unknown, states: later) }
    let ancestor =
      states.last { $0.sequence <= sequence }.map { $0.isDeleted ? RecordHistory.Ancestor.nothing : .record($0.record) }
      ?? .nothing
    return RecordHistory(ancestor: ancestor, states: later)
  }

  /// As `history(of:since:)`, for a record that was moved: the states in an ended zone are gone with it.
  private func history(of recordName: String, since sequence: Int64, in former: [StoredZone?], and zone: StoredZone)
    throws -> RecordHistory
  {
    let zones = former.compactMap(\.self) + [zone]
    let states = try zones.flatMap {
      try snapshot.stayedStates(of: recordName, in: $0, after: sequence, limit: Self.historyLimit)
    }.sorted { $0.sequence < $1.sequence }
    let later = states.filter { $0.sequence > sequence }.map {
      RecordHistory.State(record: $0.record, isDeleted: $0.isDeleted)
    }
    let ancestor = states.last { $0.sequence <= sequence }
    let isKnown =
      try sequence == 0 || ancestor != nil
      || row(named: recordName).map { try snapshot.horizon(of: $0.record, in: zone) <= sequence } ?? false
    guard isKnown, states.count <= Self.historyLimit else { return RecordHistory(ancestor: .unknown, states: later) }
    return RecordHistory(
      ancestor: ancestor.map { $0.isDeleted ? .nothing : .record($0.record) } ?? .nothing, states: later)
  }

  /// States of one record that a conflict compares; with more states the ancestor counts as unknown.
  private static let historyLimit = 500

  /// The links and pointers that went with a record: deletions of one commit are neighbours in the feed with one stamp.
  package func company(ofDeleted recordName: String) throws -> DeletedCompany {
    var company = DeletedCompany()
    guard let zone, let tombstone = try row(named: recordName), tombstone.isDeleted else { return company }
    for row in try snapshot.changes(in: zone.key, after: tombstone.sequence, limit: Self.companyLimit)
    where row.record.modified == tombstone.record.modified {
      guard let before = try snapshot.state(of: row.record.recordName, in: zone.key, at: row.sequence - 1),
        !before.isDeleted
      else { continue }
      if row.isDeleted {
        guard let link = LinkRecord(before.record), link.ends.first == recordName || link.ends.second == recordName
        else { continue }
        company.links.append(before.record)
      } else {
        for element in before.record.fields
        where element.field.value == .string(recordName) && row.record.fields[element.name] == nil {
          company.pointers.append(RecordPointer(field: element.name, source: row.record.recordName))
        }
      }
    }
    return company
  }

  private static let companyLimit = 1000

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

  /// All live zones of a database.
  package func liveZones(of database: Int64) throws -> [StoredZone] {
    try allZones(in: database, after: 0).filter { !$0.isDeleted }
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
