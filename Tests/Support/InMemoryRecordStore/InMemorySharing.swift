// The oracle's shares: lists, searched from end to end.

import RecordStore
import Records
import Sharing

extension InMemoryTransaction {
  func share(named name: String, in zone: Int64) throws -> StoredShare? { rows.shares[zone]?[name] }

  func share(ofRoot recordName: String, in zone: Int64) throws -> StoredShare? {
    rows.shares[zone]?.values.first { $0.state != nil && $0.rootRecordName == recordName }
  }

  func shares(in zone: Int64, afterName name: String?, limit: Int) throws -> [StoredShare] {
    let shares = (rows.shares[zone] ?? [:]).values.filter { share in
      share.state != nil && name.map { $0.precedes(share.name) } ?? true
    }
    return shares.sorted { $0.name.precedes($1.name) }.first(limit)
  }

  func share(withOneTimeGUID shortGUID: String) throws -> (zone: Int64, share: StoredShare)? {
    for (zone, shares) in rows.shares {
      for share in shares.values where share.state?.oneTimeGUIDs.contains(shortGUID) == true { return (zone, share) }
    }
    return nil
  }

  func members(_ userRecordName: String, inZone zoneName: String, of database: Int64) throws -> [ShareMember] {
    try members(userRecordName, of: database).filter { $0.zoneName == zoneName }
  }

  func members(_ userRecordName: String, of database: Int64) throws -> [ShareMember] {
    sortedMembers().filter { $0.databaseKey == database && $0.member.userRecordName == userRecordName }.map(\.member)
  }

  func audience(ofZone zoneName: String, of database: Int64) throws -> [String] {
    let members = rows.members.filter {
      $0.databaseKey == database && $0.member.zoneName == zoneName && $0.member.isActive
    }
    return Set(members.map(\.member.userRecordName)).sorted { $0.precedes($1) }
  }

  func members(after place: StoredMemberPlace?, limit: Int) throws -> [(databaseKey: Int64, member: ShareMember)] {
    let members = sortedMembers().filter { row in
      place.map { Self.precedes($0, StoredMemberPlace(row.member, in: row.databaseKey)) } ?? true
    }
    return members.first(limit).map { ($0.databaseKey, $0.member) }
  }

  private func sortedMembers() -> [InMemoryRows.MemberRow] {
    rows.members.sorted {
      Self.precedes(StoredMemberPlace($0.member, in: $0.databaseKey), StoredMemberPlace($1.member, in: $1.databaseKey))
    }
  }

  private static func precedes(_ one: StoredMemberPlace, _ other: StoredMemberPlace) -> Bool {
    if one.databaseKey != other.databaseKey { return one.databaseKey < other.databaseKey }
    if one.userRecordName != other.userRecordName { return one.userRecordName.precedes(other.userRecordName) }
    if one.zoneName != other.zoneName { return one.zoneName.precedes(other.zoneName) }
    return one.shareName.precedes(other.shareName)
  }

  func shareNews(after number: Int64, limit: Int) throws -> [StoredShareNews] {
    rows.shareNews.filter { $0.number > number }.first(limit)
  }

  func departure(of recordName: String, from root: String, in zone: Int64) throws -> Int64? {
    rows.departures[zone]?[recordName]?[root]
  }

  func put(_ share: StoredShare, in zone: Int64) throws {
    try write {
      guard let row = rows.zones[zone], !row.isDeleted else { throw ContradictingWrite("no zone \(zone)") }
      rows.shares[zone, default: [:]][share.name] = share
      rows.databases[row.databaseKey]?.hasShares = true
    }
  }

  func put(_ member: ShareMember, of database: Int64) throws {
    try write {
      guard rows.databases[database] != nil else { throw ContradictingWrite("no database \(database)") }
      let had = try audience(ofZone: member.zoneName, of: database).contains(member.userRecordName)
      rows.members.removeAll {
        StoredMemberPlace($0.member, in: $0.databaseKey) == StoredMemberPlace(member, in: database)
      }
      rows.members.append(InMemoryRows.MemberRow(databaseKey: database, member: member))
      let has = try audience(ofZone: member.zoneName, of: database).contains(member.userRecordName)
      if had != has { tell(member, isActive: has, of: database) }
    }
  }

  private func tell(_ member: ShareMember, isActive: Bool, of database: Int64) {
    tell(
      .access(userRecordName: member.userRecordName, isActive: isActive), inZone: member.zoneName, of: database,
      at: member.until ?? member.since)
  }

  private func tell(_ subject: StoredShareNews.Subject, inZone zoneName: String, of database: Int64, at sequence: Int64)
  {
    guard let id = rows.databases[database]?.id else { return }
    rows.lastKey += 1
    rows.shareNews.append(
      StoredShareNews(number: rows.lastKey, database: id, zoneName: zoneName, subject: subject, sequence: sequence))
  }

  func noteInvitations(toShare shareName: String, inZone zoneName: String, of database: Int64, at sequence: Int64)
    throws
  {
    try write {
      guard rows.databases[database] != nil else { throw ContradictingWrite("no database \(database)") }
      tell(.invitations(shareName: shareName), inZone: zoneName, of: database, at: sequence)
    }
  }

  /// Ends the access of all members of a deleted zone, and removes its shares.
  func endMembers(of zone: StoredZone) throws {
    for user in try audience(ofZone: zone.zoneName, of: zone.databaseKey) {
      for var member in try members(user, inZone: zone.zoneName, of: zone.databaseKey) where member.isActive {
        member.until = zone.sequence
        try put(member, of: zone.databaseKey)
      }
    }
    rows.shares[zone.key] = nil
    rows.departures[zone.key] = nil
  }

  func removeShareNews(through number: Int64) throws { try write { rows.shareNews.removeAll { $0.number <= number } } }

  func noteDeparture(of recordName: String, from root: String, in zone: Int64, at sequence: Int64?) throws {
    try write {
      guard rows.zones[zone]?.isDeleted == false else { throw ContradictingWrite("no zone \(zone)") }
      rows.departures[zone, default: [:]][recordName, default: [:]][root] = sequence
    }
  }
}
