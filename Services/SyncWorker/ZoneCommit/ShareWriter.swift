// The only writer of shares: state, members and news change in the commit that writes the share's record.

package import RecordStore
package import Records
package import ServiceKit
package import Sharing
import WebServices

/// Writes shares of one zone within one store transaction.
package struct ShareWriter {
  package let writer: ZoneWriter

  package init(writer: ZoneWriter) {
    self.writer = writer
  }

  var zone: StoredZone { writer.zone }
  private var transaction: any ShardTransaction { writer.transaction }

  /// Stores a decided share. The sequence of its record is where accesses begin and end.
  /// - Parameters:
  ///   - share: with its new state.
  ///   - record: its stored record, or the tombstone of a share that ends.
  package func settle(_ share: StoredShare, _ memberships: [MembershipChange], with record: StoredRecord) throws {
    let waiting = try transaction.share(named: share.name, in: zone.key)?.state?.waiting ?? []
    try transaction.put(share, in: zone.key)
    if waiting.map(\.participantID) != share.state?.waiting.map(\.participantID) ?? [] {
      try transaction.noteInvitations(
        toShare: share.name, inZone: zone.zoneName, of: zone.databaseKey, at: record.sequence)
    }
    writer.commit.note(accessOf: memberships.map(\.userRecordName), to: zone.zoneName)
    let database = writer.commit.database.id
    try transaction.expect(memberships.map { .members($0.userRecordName, zone: zone.zoneName, database: database) })
    for change in memberships {
      let earlier = try transaction.members(change.userRecordName, inZone: zone.zoneName, of: zone.databaseKey).first {
        $0.shareName == share.name
      }
      switch change.kind {
      case .begins(let role, let permission):
        if let earlier, !earlier.isActive { try transaction.put(earlier.former, of: zone.databaseKey) }
        try transaction.put(
          ShareMember(
            zoneName: zone.zoneName, userRecordName: change.userRecordName, shareName: share.name,
            rootRecordName: share.rootRecordName, role: role,
            permission: permission, since: record.sequence),
          of: zone.databaseKey)
      case .changes(let role, let permission):
        guard var member = earlier else {
          throw StoreError.corrupt("a participant of a share is not a member of its zone")
        }
        member.role = role
        member.permission = permission
        try transaction.put(member, of: zone.databaseKey)
      case .ends:
        guard var member = earlier, member.isActive else { continue }
        member.until = record.sequence
        try transaction.put(member, of: zone.databaseKey)
      }
    }
  }

  /// Saves a share's record together with its decided state.
  /// - Returns: the record with its new tag.
  package func save(
    _ record: Record, replacing existing: StoredRecord?, _ share: StoredShare, _ decision: ShareDecision
  ) throws -> StoredRecord {
    let stored = try writer.save(record, replacing: existing)
    var share = share
    share.state = decision.state
    try settle(share, decision.memberships, with: stored)
    return stored
  }

  /// Changes a share's state; its record gets a new tag and modification stamp only, as for accepting and leaving.
  /// - Returns: the record with its new tag; nil when nothing changed or the record is missing.
  package func apply(_ decision: ShareDecision, to share: StoredShare, stamp: Stamp) throws -> StoredRecord? {
    guard decision.isChanged, let existing = try transaction.record(named: share.name, in: zone.key),
      !existing.isDeleted
    else { return nil }
    var record = existing.record
    record.modified = stamp
    return try save(record, replacing: existing, share, decision)
  }

  /// Ends a share for all participants. The records stay, and the URL is kept for a later share of them.
  /// - Returns: the tombstone of its record; nil when there is no record.
  func stop(_ share: StoredShare, stamp: Stamp) throws -> StoredRecord? {
    guard let existing = try transaction.record(named: share.name, in: zone.key), !existing.isDeleted else {
      return nil
    }
    let tombstone = try writer.delete(existing, modified: stamp)
    var ended = share
    ended.state = nil
    try settle(ended, share.state?.stopping.memberships ?? [], with: tombstone)
    return tombstone
  }

  /// Gives the root of a shared hierarchy its short GUID and a new tag, so that feeds tell of the share's begin or end.
  package func touchRoot(_ name: String, shortGUID: String, stamp: Stamp) throws -> StoredRecord? {
    guard let root = try transaction.record(named: name, in: zone.key), !root.isDeleted else { return nil }
    var record = root.record
    record.shortGUID = record.shortGUID ?? shortGUID
    record.modified = stamp
    return try writer.save(record, replacing: root)
  }
}

extension ShareMember {
  /// The ended membership, kept beside its successor: a client that did not look in between learns of the end. No share
  /// has its name.
  fileprivate var former: ShareMember {
    ShareMember(
      zoneName: zoneName, userRecordName: userRecordName, shareName: shareName + Self.formerMark,
      rootRecordName: rootRecordName, role: role, permission: permission,
      since: since, until: until)
  }

  private static let formerMark = "\u{1f}"
  /// True for the ended predecessor of a membership.
  package var isFormer: Bool { shareName.hasSuffix(Self.formerMark) }
}

extension ShareState.Making {
  /// - Parameter shard: the share's shard.
  package init(at time: Int64, shard: Int, _ random: any RandomSource) {
    self.init(
      time: time, participantID: { random.uuid() }, shortGUID: { ShortGUID(shard: shard, random: random.bytes).text })
  }
}
