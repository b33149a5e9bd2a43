// The one way shares are written: state, members and their news in the commit that writes the share's record.

import RecordStore
import Records
import ServiceKit
import Sharing
import WebServices

/// Writes shares of one zone within one store transaction.
struct ShareWriter {
  let writer: ZoneWriter

  var zone: StoredZone { writer.zone }
  private var transaction: any ShardTransaction { writer.transaction }

  /// Stores a share as it was decided. The record's sequence is where accesses begin and end.
  /// - Parameters:
  ///   - share: with the state that is to be.
  ///   - record: its record as it was stored or, for a share that ends, its tombstone.
  func settle(_ share: StoredShare, _ memberships: [MembershipChange], with record: StoredRecord) throws {
    try transaction.put(share, in: zone.key)
    writer.commit.note(accessOf: memberships.map(\.userRecordName), to: zone.zoneName)
    for change in memberships {
      let earlier = try transaction.members(change.userRecordName, inZone: zone.zoneName, of: zone.databaseKey).first { $0.shareName == share.name }
      switch change.kind {
      case .begins(let role, let permission):
        if let earlier, !earlier.isActive { try transaction.put(earlier.former, of: zone.databaseKey) }
        try transaction.put(
          ShareMember(
            zoneName: zone.zoneName, userRecordName: change.userRecordName, shareName: share.name, rootRecordName: share.rootRecordName, role: role,
            permission: permission, since: record.sequence),
          of: zone.databaseKey)
      case .changes(let role, let permission):
        guard var member = earlier else { throw StoreError.corrupt("a participant of a share is no member of its zone") }
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

  /// Saves a share's record and the state that was decided for it.
  /// - Returns: the record with its new tag.
  func save(_ record: Record, replacing existing: StoredRecord?, _ share: StoredShare, _ decision: ShareDecision) throws -> StoredRecord {
    let stored = try writer.save(record, replacing: existing)
    var share = share
    share.state = decision.state
    try settle(share, decision.memberships, with: stored)
    return stored
  }

  /// Changes a share without changing its record but for the tag, as accepting and leaving do.
  /// - Returns: the record with its new tag; nil where nothing changed, or there is no such record.
  func apply(_ decision: ShareDecision, to share: StoredShare, stamp: Stamp) throws -> StoredRecord? {
    guard decision.isChanged, let existing = try transaction.record(named: share.name, in: zone.key), !existing.isDeleted else { return nil }
    var record = existing.record
    record.modified = stamp
    return try save(record, replacing: existing, share, decision)
  }

  /// Ends a share for everybody but its owner. The records stay, and the URL is kept for when they are shared again.
  /// - Returns: the tombstone of its record; nil where there is none.
  func stop(_ share: StoredShare, stamp: Stamp) throws -> StoredRecord? {
    guard let existing = try transaction.record(named: share.name, in: zone.key), !existing.isDeleted else { return nil }
    let tombstone = try writer.delete(existing, modified: stamp)
    var ended = share
    ended.state = nil
    try settle(ended, share.state?.stopping.memberships ?? [], with: tombstone)
    return tombstone
  }

  /// Gives the record on top of a shared hierarchy the short GUID that leads to it, and another tag, so that feeds tell that it is shared, or no more.
  func touchRoot(_ name: String, shortGUID: String, stamp: Stamp) throws -> StoredRecord? {
    guard let root = try transaction.record(named: name, in: zone.key), !root.isDeleted else { return nil }
    var record = root.record
    record.shortGUID = record.shortGUID ?? shortGUID
    record.modified = stamp
    return try writer.save(record, replacing: root)
  }
}

extension ShareMember {
  /// A membership that ended, kept beside the one that begins anew: whoever did not look in between is told of that end, too. No share has that name.
  fileprivate var former: ShareMember {
    ShareMember(
      zoneName: zoneName, userRecordName: userRecordName, shareName: shareName + Self.formerMark, rootRecordName: rootRecordName, role: role, permission: permission,
      since: since, until: until)
  }

  private static let formerMark = "\u{1f}"
  /// Whether it is the membership before the one that began anew.
  var isFormer: Bool { shareName.hasSuffix(Self.formerMark) }
}

extension ShareState.Making {
  /// - Parameter shard: where the share is.
  init(at time: Int64, shard: Int, _ random: any RandomSource) {
    self.init(time: time, participantID: { random.uuid() }, shortGUID: { ShortGUID(shard: shard, random: random.bytes).text })
  }
}
