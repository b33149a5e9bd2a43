// Zones as a caller sees them: the one place where the record plane decides that there is such a zone for him.

import RecordStore
import Records
import Sharing

/// A zone that is there for a caller.
struct ZoneView: Sendable {
  let row: StoredZone
  /// What a participant may do; nil: it is the caller's own, or ruled by the schema.
  let access: ZoneAccess?
}

/// Finds zones of a database for a caller.
struct ZoneFinder: Sendable {
  let database: DatabaseID
  /// Who addresses the database as shared with him; nil: its owner, or whoever the schema lets.
  let participant: String?
  let audit: AccessAudit

  /// The live zone of that name; nil also where the caller has no access: the answer is the same as if there were none.
  func find(_ zone: Zone.ID, in snapshot: any ShardSnapshot) throws -> ZoneView? {
    guard let row = try snapshot.database(database), let found = try snapshot.zone(named: zone.zoneName, in: row.key), !found.isDeleted else { return nil }
    guard let participant else { return ZoneView(row: found, access: nil) }
    let members = row.hasShares ? try snapshot.members(participant, inZone: zone.zoneName, of: row.key) : []
    let access = ZoneAccess(members)
    guard access.mayRead else {
      audit.denied(zone, to: participant, hadAccess: !members.isEmpty)
      return nil
    }
    return ZoneView(row: found, access: access)
  }

  /// As `find`, with a missing custom zone refused; the default zone is there even before its first record.
  func require(_ zone: Zone.ID, in snapshot: any ShardSnapshot) throws -> ZoneView? {
    let found = try find(zone, in: snapshot)
    if found == nil, !zone.isDefault || participant != nil { throw RecordPlaneCall.missing(zone.zoneName) }
    return found
  }

  /// All live zones that there are for the caller, in no order.
  func zones(of database: StoredDatabase, in snapshot: any ShardSnapshot) throws -> [ZoneView] {
    guard let participant else { return try RecordPlaneCall.zones(of: database, in: snapshot).map { ZoneView(row: $0, access: nil) } }
    guard database.hasShares else { return [] }
    let members = Dictionary(grouping: try snapshot.members(participant, of: database.key), by: \.zoneName)
    return try members.sorted { $0.key < $1.key }.compactMap { name, members in
      let access = ZoneAccess(members)
      guard access.mayRead, let row = try snapshot.zone(named: name, in: database.key), !row.isDeleted else { return nil }
      return ZoneView(row: row, access: access)
    }
  }
}

/// Which records of a zone a caller sees, on both planes: of a zone that is shared as a whole all, else what hangs below the records that are shared with
/// him, and those shares.
final class VisibleRecords {
  /// How a row looks to a caller.
  enum Sight: Hashable {
    case visible
    /// It went out of his sight: it was deleted, or left what is shared with him.
    case gone(at: Int64)
    /// He never saw it, as far as he takes part now.
    case hidden
  }

  private let snapshot: any ShardSnapshot
  private let zone: Int64
  private let access: ZoneAccess?
  /// nil: everything.
  private let roots: Set<String>?
  private let shareNames: Set<String>
  /// The root above each name that was asked for.
  private var known: [String: String?] = [:]
  /// What a batch is to make of records, by name.
  var planned: [String: Record] = [:] { didSet { known.removeAll(keepingCapacity: true) } }

  /// Chains of parents that are longer lead nowhere.
  static let depthLimit = 500

  convenience init(_ view: ZoneView, in snapshot: any ShardSnapshot) { self.init(view.access, to: view.row.key, in: snapshot) }

  /// - Parameters:
  ///   - access: nil: to everything.
  ///   - zone: the zone's key.
  init(_ access: ZoneAccess?, to zone: Int64, in snapshot: any ShardSnapshot) {
    self.snapshot = snapshot
    self.zone = zone
    self.access = access
    roots = access?.roots.map(Set.init)
    shareNames = roots == nil ? [] : Set((access?.members ?? []).map(\.shareName))
  }

  var seesEverything: Bool { roots == nil }

  func isVisible(_ record: Record) throws -> Bool {
    guard roots != nil else { return true }
    if record.recordType == ReservedName.shareRecordType { return shareNames.contains(record.recordName) }
    return try root(above: record) != nil
  }

  /// As `isVisible`, for who can't fail; what can't be read is not seen.
  func surelyIncludes(_ record: Record) -> Bool {
    // Dropped because the same row is met again by whoever reads it for itself.
    (try? isVisible(record)) ?? false
  }

  /// What a feed has to tell of a row. A deletion is told to who took part when it happened, and a record that left his hierarchies is one for him,
  /// whatever becomes of it afterwards.
  func sight(of stored: StoredRecord) throws -> Sight {
    if try !stored.isDeleted && isVisible(stored.record) { return .visible }
    guard let access else { return .gone(at: stored.sequence) }
    var departures: [Int64] = []
    for member in access.members {
      guard let root = member.rootRecordName else { return stored.sequence > member.since ? .gone(at: stored.sequence) : .hidden }
      guard let departure = try snapshot.departure(of: stored.record.recordName, from: root, in: zone) else { continue }
      if departure > member.since { departures.append(departure) }
    }
    return departures.max().map { .gone(at: $0) } ?? .hidden
  }

  func mayWrite(_ record: Record) throws -> Bool {
    guard let access else { return true }
    return access.mayWrite(root: roots == nil ? nil : try root(above: record))
  }

  /// How many records there are for the caller; of hierarchies about as many as are worth counting.
  func recordCount() throws -> Int {
    guard let roots else { return try snapshot.recordCount(in: zone) }
    var (next, seen, count) = (roots.sorted(), roots, 0)
    while count < Self.countLimit, let name = next.popLast() {
      if try snapshot.record(named: name, in: zone)?.isDeleted == false { count += 1 }
      for pointer in try snapshot.references(to: name, in: zone, limit: Self.countLimit)
      where pointer.field == ReservedName.parentReference && seen.insert(pointer.source).inserted {
        next.append(pointer.source)
      }
    }
    return count
  }

  private static let countLimit = 20_000

  /// The record on top of what the record belongs to, of those that are shared with the caller; itself, perhaps. Tombstones hold a chain together: who
  /// deletes a record does not thereby take what hangs below it out of the share.
  func root(above record: Record) throws -> String? {
    guard let roots else { return nil }
    var passed: [String] = []
    var name = record.recordName
    var parent = record.parent
    var found: String?
    while true {
      if roots.contains(name) {
        found = name
        break
      }
      if let answer = known[name], name != record.recordName {
        found = answer
        break
      }
      passed.append(name)
      guard let next = parent, passed.count < Self.depthLimit, !passed.contains(next) else { break }
      name = next
      if let record = planned[next] { parent = record.parent } else { parent = try snapshot.record(named: next, in: zone)?.record.parent }
    }
    for name in passed { known[name] = .some(found) }
    return found
  }
}
