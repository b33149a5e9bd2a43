// Shares in a shard's file. Few databases have such rows, and no call reads them unless the database's row says that it
// has some.

import Crypto
import Records
import SQLite
import Sharing

extension SQLiteSnapshot {
  func share(named name: String, in zone: Int64) throws -> StoredShare? {
    guard mayHave(name), try !isDoomed(zone) else { return nil }
    return try boundShare(name, in: zone).first { try share($0).share }
  }

  func boundShare(_ name: String, in zone: Int64) throws -> StoreStatement {
    let select = try statement(ShareQuery.byName)
    try select.bind(1, zone)
    try select.bind(2, name)
    return select
  }

  func share(ofRoot recordName: String, in zone: Int64) throws -> StoredShare? {
    guard mayHave(recordName), try !isDoomed(zone) else { return nil }
    return try boundShare(ofRoot: recordName, in: zone).first { try share($0).share }
  }

  func boundShare(ofRoot recordName: String, in zone: Int64) throws -> StoreStatement {
    let select = try statement(ShareQuery.byRoot)
    try select.bind(1, zone)
    try select.bind(2, recordName)
    return select
  }

  func shares(in zone: Int64, afterName name: String?, limit: Int) throws -> [StoredShare] {
    guard limit > 0, try !isDoomed(zone) else { return [] }
    let select = try statement(ShareQuery.after)
    try select.bind(1, zone)
    // No record name is empty.
    try select.bind(2, name ?? "")
    try select.bind(3, limit)
    return try select.all { try share($0).share }
  }

  func place(of recordName: String, in zone: Int64) throws -> HierarchyPlace? {
    if try isDoomed(zone) { return nil }
    let field = try symbolNumber(ReservedName.parentReference)
    let select = try statement(StoredRecordQuery.place)
    try select.bind(1, zone)
    try select.bind(2, recordName: recordName)
    return try select.first { row in
      guard let references = StoredReferences.decode(row.blob(1)) else {
        throw StoreError.corrupt(
          "shard \(shard): the references of record '\(recordName)' are damaged; restore it from a backup")
      }
      return HierarchyPlace(parent: references.first { $0.field == field }?.target, isDeleted: row.bool(0))
    }
  }

  func children(of recordName: String, in zone: Int64, limit: Int) throws -> [String] {
    guard limit > 0, try !isDoomed(zone), let field = try symbolNumber(ReservedName.parentReference) else { return [] }
    let select = try statement(ReferenceQuery.children)
    try select.bind(1, zone)
    try select.bind(2, recordName: recordName)
    try select.bind(3, field)
    try select.bind(4, limit)
    // Sorted here, because names are stored in two forms.
    return try select.all { try self.recordName($0, 0) }.sorted { $0.precedes($1) }
  }

  func share(withOneTimeGUID shortGUID: String) throws -> (zone: Int64, share: StoredShare)? {
    guard mayHave(shortGUID) else { return nil }
    let select = try statement(ShareQuery.byOneTimeGUID)
    try select.bind(1, shortGUID)
    guard let found = try select.first({ try share($0) }), try !isDoomed(found.zone), try !isOther(zone: found.zone)
    else { return nil }
    return found
  }

  /// - Throws: `StoreError.corrupt` for a damaged row.
  func share(_ row: StoreStatement) throws -> (zone: Int64, share: StoredShare) {
    let (key, zone) = (row.int64(0), row.int64(1))
    let (name, root, guid, payload) = (row.text(2), row.optionalText(3), row.text(4), row.optionalBlob(6))
    guard row.int64(5) == ShareRow.checksum(zone: zone, name: name, root: root, guid: guid, state: payload) else {
      throw damagedShare(key)
    }
    do {
      let state = try payload.map { try ShareState(decoding: try session.opened($0, for: .share)) }
      return (zone, StoredShare(name: name, rootRecordName: root, shortGUID: guid, state: state))
    } catch is StoredFormatError {
      throw damagedShare(key)
    }
  }

  private func damagedShare(_ key: Int64) -> StoreError {
    .corrupt("shard \(shard): share \(key) is damaged; restore it from a backup")
  }

  // MARK: Members

  func members(_ userRecordName: String, inZone zoneName: String, of database: Int64) throws -> [ShareMember] {
    try boundMembers(userRecordName, inZone: zoneName, of: database).all { try member($0).member }
  }

  func boundMembers(_ userRecordName: String, inZone zoneName: String, of database: Int64) throws -> StoreStatement {
    let select = try statement(MemberQuery.inZone)
    try select.bind(1, database)
    try select.bind(2, userRecordName)
    try select.bind(3, zoneName)
    return select
  }

  func members(_ userRecordName: String, of database: Int64) throws -> [ShareMember] {
    let select = try statement(MemberQuery.inDatabase)
    try select.bind(1, database)
    try select.bind(2, userRecordName)
    return try select.all { try member($0).member }
  }

  func audience(ofZone zoneName: String, of database: Int64) throws -> [String] {
    let select = try statement(MemberQuery.audience)
    try select.bind(1, database)
    try select.bind(2, zoneName)
    return try select.all { $0.text(0) }
  }

  func members(after place: StoredMemberPlace?, limit: Int) throws -> [(databaseKey: Int64, member: ShareMember)] {
    guard limit > 0 else { return [] }
    return try own(
      after: place, limit, placeOf: { StoredMemberPlace($0.member, in: $0.databaseKey) },
      isOther: { others.contains($0.databaseKey) }
    ) { place in
      let select = try statement(MemberQuery.after)
      try select.bind(1, place?.databaseKey ?? 0)
      try select.bind(2, place?.userRecordName ?? "")
      try select.bind(3, place?.zoneName ?? "")
      try select.bind(4, place?.shareName ?? "")
      try select.bind(5, limit)
      return try select.all { try member($0) }
    }
  }

  func member(_ row: StoreStatement) throws -> (databaseKey: Int64, member: ShareMember) {
    guard let role = ParticipantRole(rawValue: row.int(5)), let permission = SharePermission(rawValue: row.int(6))
    else {
      throw StoreError.corrupt("shard \(shard): a member of database \(row.int64(0)) has no such role or permission")
    }
    return (
      row.int64(0),
      ShareMember(
        zoneName: row.text(2), userRecordName: row.text(1), shareName: row.text(3), rootRecordName: row.optionalText(4),
        role: role, permission: permission,
        since: row.int64(7), until: row.optionalInt64(8))
    )
  }

  func shareNews(after number: Int64, limit: Int) throws -> [StoredShareNews] {
    guard limit > 0 else { return [] }
    return try own(
      after: number, limit, placeOf: \.number, isOther: { session.part?.contains($0.database) == false }
    ) { number in
      let select = try statement(MemberQuery.newsAfter)
      try select.bind(1, number)
      try select.bind(2, limit)
      return try select.all(news)
    }
  }

  private func news(_ row: StoreStatement) throws -> StoredShareNews {
    guard let container = ContainerID(rawValue: row.text(1)), let environment = Environment(rawValue: row.text(2))
    else {
      throw StoreError.corrupt("shard \(shard): news \(row.int64(0)) is of no container or environment")
    }
    return StoredShareNews(
      number: row.int64(0), database: DatabaseID(container: container, environment: environment, owner: row.text(3)),
      zoneName: row.text(4), subject: StoredShareNews.Subject(name: row.text(5), kind: row.int64(6)),
      sequence: row.int64(7))
  }

  func departure(of recordName: String, from root: String, in zone: Int64) throws -> Int64? {
    if try isDoomed(zone) { return nil }
    let select = try statement(ShareQuery.departure)
    try select.bind(1, zone)
    try select.bind(2, recordName: recordName)
    try select.bind(3, root)
    return try select.first { $0.int64(0) }
  }
}

extension SQLiteTransaction {
  func put(_ share: StoredShare, in zone: Int64) throws {
    try write {
      guard let row = try self.zone(key: zone), !row.isDeleted else { throw ContradictingWrite("no zone \(zone)") }
      // The state contains names and addresses of people, so it is sealed if there is a key.
      let payload = try share.state.map { try sealedIfThereIsAKey(try $0.encoded(), for: .share) }
      let put = try writing(ShareQuery.put)
      try put.bind(1, zone)
      try put.bind(2, share.name)
      try put.bind(3, share.rootRecordName)
      try put.bind(4, share.state != nil)
      try put.bind(5, share.shortGUID)
      try put.bind(
        6,
        ShareRow.checksum(
          zone: zone, name: share.name, root: share.rootRecordName, guid: share.shortGUID, state: payload))
      try put.bind(7, payload)
      try put.run()
      let forget = try writing(ShareQuery.deleteInvitations)
      try forget.bind(1, zone)
      try forget.bind(2, share.name)
      try forget.run()
      for guid in share.state?.oneTimeGUIDs ?? [] {
        let insert = try writing(ShareQuery.insertInvitation)
        try insert.bind(1, guid)
        try insert.bind(2, zone)
        try insert.bind(3, share.name)
        try insert.run()
      }
      try noteShares(of: row.databaseKey)
    }
  }

  private func noteShares(of key: Int64) throws {
    guard var database = try database(key: key), !database.hasShares, let cached = cache.databases[key] else { return }
    database.hasShares = true
    let note = try writing(ShareQuery.noteDatabase)
    try note.bind(1, key)
    try note.run()
    cache.databases.set(CachedRow(row: database, isDirty: cached.isDirty), for: key)
  }

  func put(_ member: ShareMember, of database: Int64) throws {
    try write {
      guard try self.database(key: database) != nil else { throw ContradictingWrite("no database \(database)") }
      let active = try members(member.userRecordName, inZone: member.zoneName, of: database).filter(\.isActive)
      try store(member, of: database)
      let isActive = member.isActive || active.contains { $0.shareName != member.shareName }
      if isActive == active.isEmpty { try tell(member, isActive: isActive, of: database) }
    }
  }

  private func store(_ member: ShareMember, of database: Int64) throws {
    try forgetFetchedMembers(member.userRecordName, inZone: member.zoneName, of: database)
    let put = try writing(MemberQuery.put)
    try put.bind(1, database)
    try put.bind(2, member.userRecordName)
    try put.bind(3, member.zoneName)
    try put.bind(4, member.shareName)
    try put.bind(5, member.rootRecordName)
    try put.bind(6, member.role.rawValue)
    try put.bind(7, member.permission.rawValue)
    try put.bind(8, member.since)
    try put.bind(9, member.until)
    try put.run()
  }

  private func tell(_ member: ShareMember, isActive: Bool, of database: Int64) throws {
    try tell(
      .access(userRecordName: member.userRecordName, isActive: isActive), inZone: member.zoneName, of: database,
      at: member.until ?? member.since)
  }

  private func tell(_ subject: StoredShareNews.Subject, inZone zoneName: String, of database: Int64, at sequence: Int64)
    throws
  {
    let insert = try writing(MemberQuery.insertNews)
    try insert.bind(1, nextKey())
    try insert.bind(2, database)
    try insert.bind(3, zoneName)
    try insert.bind(4, subject.stored.name)
    try insert.bind(5, subject.stored.kind)
    try insert.bind(6, sequence)
    try insert.run()
  }

  func noteInvitations(toShare shareName: String, inZone zoneName: String, of database: Int64, at sequence: Int64)
    throws
  {
    try write {
      guard try self.database(key: database) != nil else { throw ContradictingWrite("no database \(database)") }
      try tell(.invitations(shareName: shareName), inZone: zoneName, of: database, at: sequence)
    }
  }

  /// Ends the access of all members of a deleted zone.
  func endMembers(of zone: StoredZone) throws {
    guard try database(key: zone.databaseKey)?.hasShares == true else { return }
    let select = try statement(MemberQuery.active)
    try select.bind(1, zone.databaseKey)
    try select.bind(2, zone.zoneName)
    var told: String?
    for var member in try select.all({ try self.member($0).member }) {
      member.until = zone.sequence
      try store(member, of: zone.databaseKey)
      if told != member.userRecordName { try tell(member, isActive: false, of: zone.databaseKey) }
      told = member.userRecordName
    }
  }

  func removeShareNews(through number: Int64) throws {
    try write {
      let remove = try writing(MemberQuery.removeNews)
      try remove.bind(1, number)
      try remove.run()
    }
  }

  func noteDeparture(of recordName: String, from root: String, in zone: Int64, at sequence: Int64?) throws {
    try write {
      guard try self.zone(key: zone)?.isDeleted == false else { throw ContradictingWrite("no zone \(zone)") }
      let note = try writing(sequence == nil ? ShareQuery.removeDeparture : .putDeparture)
      try note.bind(1, zone)
      try note.bind(2, recordName: recordName)
      try note.bind(3, root)
      if let sequence { try note.bind(4, sequence) }
      try note.run()
    }
  }
}

/// The columns of `share`.
enum ShareRow {
  /// CRC-32 over the content of the row. Each text has its length in front (−1 for NULL).
  static func checksum(zone: Int64, name: String, root: String?, guid: String, state: [UInt8]?) -> Int64 {
    var sum = withUnsafeBytes(of: zone.littleEndian) { Checksum.update(0, $0) }
    for text in [name, root, guid] {
      sum = withUnsafeBytes(of: Int64(text?.utf8.count ?? -1).littleEndian) { Checksum.update(sum, $0) }
      guard var text else { continue }
      sum = text.withUTF8 { Checksum.update(sum, UnsafeRawBufferPointer($0)) }
    }
    return Int64((state ?? []).withUnsafeBytes { Checksum.update(sum, $0) })
  }
}

/// The columns `user` and `active` of news.
extension StoredShareNews.Subject {
  private static let invitationKind: Int64 = 2

  fileprivate init(name: String, kind: Int64) {
    self =
      kind == Self.invitationKind ? .invitations(shareName: name) : .access(userRecordName: name, isActive: kind != 0)
  }

  fileprivate var stored: (name: String, kind: Int64) {
    switch self {
    case .access(let userRecordName, let isActive): (userRecordName, isActive ? 1 : 0)
    case .invitations(let shareName): (shareName, Self.invitationKind)
    }
  }
}
