// Zones as a caller sees them: the one place where the record plane decides whether a zone exists for a caller.

package import RecordStore
package import Records
package import Sharing

/// A zone that exists for a caller.
package struct ZoneView: Sendable {
  package let row: StoredZone
  /// A participant's access; nil: the zone is the caller's own, or the schema rules it.
  package let access: ZoneAccess?
}

/// Finds zones of a database for a caller.
package struct ZoneFinder: Sendable {
  package let database: DatabaseID
  /// The user who addresses the database as shared; nil: its owner, or a caller whom the schema admits.
  package let participant: String?
  package let audit: AccessAudit

  package init(database: DatabaseID, participant: String?, audit: AccessAudit) {
    self.database = database
    self.participant = participant
    self.audit = audit
  }

  /// The live zone with that name; nil also when the caller has no access, so that both look alike.
  package func find(_ zone: Zone.ID, in snapshot: any ShardSnapshot) throws -> ZoneView? {
    guard let row = try snapshot.database(database), let found = try snapshot.zone(named: zone.zoneName, in: row.key),
      !found.isDeleted
    else { return nil }
    guard let participant else { return ZoneView(row: found, access: nil) }
    let members = row.hasShares ? try snapshot.members(participant, inZone: zone.zoneName, of: row.key) : []
    let access = ZoneAccess(members)
    guard access.mayRead else {
      audit.denied(zone, to: participant, hadAccess: !members.isEmpty)
      return nil
    }
    return ZoneView(row: found, access: access)
  }

  /// As `find`, but a missing custom zone throws; the default zone exists even before its first record.
  package func require(_ zone: Zone.ID, in snapshot: any ShardSnapshot) throws -> ZoneView? {
    let found = try find(zone, in: snapshot)
    if found == nil, !zone.isDefault || participant != nil { throw RecordError.noZone(named: zone.zoneName) }
    return found
  }

  /// All live zones that exist for the caller, in no order.
  package func zones(of database: StoredDatabase, in snapshot: any ShardSnapshot) throws -> [ZoneView] {
    guard let participant else {
      return try snapshot.liveZones(of: database.key).map { ZoneView(row: $0, access: nil) }
    }
    guard database.hasShares else { return [] }
    let members = Dictionary(grouping: try snapshot.members(participant, of: database.key), by: \.zoneName)
    return try members.sorted { $0.key < $1.key }.compactMap { name, members in
      let access = ZoneAccess(members)
      guard access.mayRead, let row = try snapshot.zone(named: name, in: database.key), !row.isDeleted else {
        return nil
      }
      return ZoneView(row: row, access: access)
    }
  }
}

/// The records of a zone that a caller sees, on both planes: all of them in a zone that is shared as a whole, otherwise
/// the hierarchies that are shared with the caller, and their shares.
package final class VisibleRecords {
  /// A caller's view of a row.
  package enum Sight: Hashable {
    case visible
    /// The row left the caller's sight: it was deleted, or moved out of the shared hierarchies.
    case gone(at: Int64)
    /// The caller never saw it during the present membership.
    case hidden
  }

  /// The parent of a record during a part of the past.
  struct FormerRecord {
    let parent: String?
    /// The sequence of the state, and of the next one.
    let (since, until): (Int64, Int64)
  }

  private let snapshot: any ShardSnapshot
  /// The zone's key.
  let zone: Int64
  /// nil: full access.
  let access: ZoneAccess?
  /// nil: everything.
  private let roots: Set<String>?
  private let shareNames: Set<String>
  /// The root found above each name that was looked up.
  private var known: [String: String?] = [:]
  /// By name, the state that was looked at last.
  var formerRecords: [String: FormerRecord] = [:]
  /// The state of records after the batch, by name.
  package var planned: [String: Record] = [:] { didSet { known.removeAll(keepingCapacity: true) } }

  /// Bounds the ways up in a request that writes; nil for reads, which a page and its time bound.
  package var walk: HierarchyWalk?

  /// Longer chains of parents count as leading nowhere.
  package static let depthLimit = 500

  package convenience init(_ view: ZoneView, in snapshot: any ShardSnapshot) {
    self.init(view.access, to: view.row.key, in: snapshot)
  }

  /// - Parameters:
  ///   - access: nil: full access.
  ///   - zone: the zone's key.
  package init(_ access: ZoneAccess?, to zone: Int64, in snapshot: any ShardSnapshot) {
    self.snapshot = snapshot
    self.zone = zone
    self.access = access
    roots = access?.roots.map(Set.init)
    shareNames = roots == nil ? [] : Set((access?.members ?? []).map(\.shareName))
  }

  package var seesEverything: Bool { roots == nil }

  package func isVisible(_ record: Record) throws -> Bool {
    guard roots != nil else { return true }
    if record.recordType == ReservedName.shareRecordType { return shareNames.contains(record.recordName) }
    return try root(above: record) != nil
  }

  /// As `isVisible`, for callers that can't throw; an unreadable record is not visible.
  func surelyIncludes(_ record: Record) -> Bool {
    // Dropped because the code that reads the row itself meets the error again.
    (try? isVisible(record)) ?? false
  }

  /// The view of a row that a feed tells. A deletion concerns members of its time; a record that left a member's
  /// hierarchies counts as deleted for that member, whatever becomes of it afterwards.
  package func sight(of stored: StoredRecord) throws -> Sight {
    if try !stored.isDeleted && isVisible(stored.record) { return .visible }
    guard let access else { return .gone(at: stored.sequence) }
    var departures: [Int64] = []
    for member in access.members {
      guard let root = member.rootRecordName else {
        return stored.sequence > member.since ? .gone(at: stored.sequence) : .hidden
      }
      guard let departure = try snapshot.departure(of: stored.record.recordName, from: root, in: zone) else { continue }
      if departure > member.since { departures.append(departure) }
    }
    return departures.max().map { .gone(at: $0) } ?? .hidden
  }

  /// Shared hierarchies may be nested: write access through any of them is enough.
  package func mayWrite(_ record: Record) throws -> Bool { try mayWrite(record.recordName, below: record.parent) }

  /// As `mayWrite` of the record with that name and parent.
  package func mayWrite(_ recordName: String, below parent: String?) throws -> Bool {
    guard let access else { return true }
    if roots == nil { return access.mayWrite(root: nil) }
    var passed: Set<String> = []
    var next: (name: String, parent: String?)? = (recordName, parent)
    while let (name, parent) = next, let root = try root(above: name, parent), passed.insert(root).inserted {
      if access.mayWrite(root: root) { return true }
      let above = root == name ? parent : try self.parent(of: root)
      next = try above.map { ($0, try self.parent(of: $0)) }
    }
    return false
  }

  /// The number of records that the caller sees; in hierarchies the count ends at `countLimit`.
  package func recordCount() throws -> Int {
    guard let roots else { return try snapshot.recordCount(in: zone) }
    var (next, seen, count) = (roots.sorted(), roots, 0)
    while count < Self.countLimit, let name = next.popLast() {
      if try snapshot.place(of: name, in: zone)?.isDeleted == false { count += 1 }
      for child in try snapshot.children(of: name, in: zone, limit: Self.countLimit) where seen.insert(child).inserted {
        next.append(child)
      }
    }
    return count
  }

  private static let countLimit = 20_000

  private func parent(of name: String) throws -> String? {
    if let record = planned[name] { return record.parent }
    return try snapshot.place(of: name, in: zone)?.parent
  }

  func root(above record: Record) throws -> String? { try root(above: record.recordName, record.parent) }

  /// The nearest shared root at or above a record. Tombstones keep a chain intact: deleting a record does not unshare
  /// the records below it.
  private func root(above recordName: String, _ parent: String?) throws -> String? {
    guard let roots else { return nil }
    var passed: [String] = []
    var (name, parent) = (recordName, parent)
    var found: String?
    while true {
      if roots.contains(name) {
        found = name
        break
      }
      if let answer = known[name], name != recordName {
        found = answer
        break
      }
      passed.append(name)
      try walk?.pass(name)
      guard let next = parent, passed.count < Self.depthLimit, !passed.contains(next) else { break }
      name = next
      parent = try self.parent(of: next)
    }
    for name in passed { known[name] = .some(found) }
    return found
  }
}

extension RecordError {
  /// The error for a zone that does not exist for the caller.
  package static func noZone(named name: String) -> RecordError {
    RecordError(.zoneNotFound, "Zone '\(name.prefix(Limit.nameByteCount))' does not exist")
  }
}

extension StoredZone {
  /// The zone's feed up to its last change.
  package var syncToken: SyncToken { SyncToken(.zone, incarnation: incarnation, sequence: sequence) }

  /// The token clients are shown; the default zone keeps no feed for them.
  package var shownSyncToken: String? { zoneName == ReservedName.defaultZone ? nil : syncToken.text }
}

extension StoredRecord {
  package var tag: RecordChangeTag { RecordChangeTag(sequence: sequence) }
}
