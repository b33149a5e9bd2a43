// A script's steps with shares.

import RecordStore
import Records
import Sharing

extension Script {
  private static let users = ["bob", "eve", "zoë"]

  static func runSharing(_ step: ScriptStep, in transaction: any ShardTransaction) throws -> String {
    guard case .share(let owner, let zone, let number, let user, let choice) = step,
      let place = try place(owner, zone, in: transaction)
    else { return "none" }
    let name = "share \(number)"
    var share =
      try transaction.share(named: name, in: place.zone)
      ?? StoredShare(
        name: name, rootRecordName: number == 0 ? nil : names[number], shortGUID: "0\(place.zone)-\(number)",
        state: ShareState(rootRecordName: number == 0 ? nil : names[number], participants: []))
    let sequence = try transaction.nextSequence(in: place.database)
    guard let zoneRow = try transaction.zone(key: place.zone) else { return "none" }
    var members = share.state?.participants ?? []
    members.removeAll { $0.participantID == users[user] }
    switch choice {
    case 0:
      for member in try transaction.members(after: nil, limit: 1000)
      where member.databaseKey == place.database && member.member.zoneName == zoneRow.zoneName {
        guard member.member.shareName == name, member.member.isActive else { continue }
        var ended = member.member
        ended.until = sequence
        try transaction.put(ended, of: place.database)
      }
      share.state = nil
    case 1:
      share.state = ShareState(rootRecordName: share.rootRecordName, participants: members)
      if var member = try transaction.members(users[user], inZone: zoneRow.zoneName, of: place.database).first(where: {
        $0.shareName == name && $0.isActive
      }) {
        member.until = sequence
        try transaction.put(member, of: place.database)
      }
    case 2:
      try transaction.removeShareNews(through: try transaction.shareNews(after: 0, limit: 2).last?.number ?? 0)
      try transaction.noteDeparture(
        of: names[user], from: names[number], in: place.zone, at: number == 1 ? nil : sequence)
      return "\(try transaction.shareNews(after: 0, limit: 99))"
    default:
      members.append(
        Participant(
          participantID: users[user], identity: UserIdentity(userRecordName: users[user]), role: .privateUser,
          permission: .readOnly, acceptance: .accepted,
          dateAdded: sequence, oneTimeGUID: choice == 3 ? "0\(place.zone)-\(number)-\(user)" : nil))
      share.state = ShareState(rootRecordName: share.rootRecordName, participants: members)
    }
    try transaction.put(share, in: place.zone)
    if choice > 2 {
      try transaction.put(
        ShareMember(
          zoneName: zoneRow.zoneName, userRecordName: users[user], shareName: name,
          rootRecordName: share.rootRecordName, role: .privateUser,
          permission: .readOnly, since: sequence),
        of: place.database)
    }
    return "\(try transaction.audience(ofZone: zoneRow.zoneName, of: place.database))"
  }

  static func dumpSharing(in zone: StoredZone, _ snapshot: any ShardSnapshot, limit: Int) throws -> [String] {
    var lines = [
      """
      \(try snapshot.shares(in: zone.key, afterName: "share 0", limit: limit)) \
      \(try snapshot.audience(ofZone: zone.zoneName, of: zone.databaseKey))
      """
    ]
    for number in 0..<3 {
      lines.append("\(String(describing: try snapshot.share(named: "share \(number)", in: zone.key)))")
      lines.append("\(String(describing: try snapshot.share(ofRoot: names[number], in: zone.key)))")
      for user in users.indices {
        lines.append("\(String(describing: try snapshot.share(withOneTimeGUID: "0\(zone.key)-\(number)-\(user)")))")
        lines.append(
          "\(String(describing: try snapshot.departure(of: names[user], from: names[number], in: zone.key)))")
        lines.append(
          """
          \(try snapshot.members(users[user], inZone: zone.zoneName, of: zone.databaseKey)) \
          \(try snapshot.members(users[user], of: zone.databaseKey))
          """
        )
      }
    }
    var place: StoredMemberPlace?
    while case let members = try snapshot.members(after: place, limit: limit), let last = members.last {
      lines += members.map { "\($0)" }
      place = StoredMemberPlace(last.member, in: last.databaseKey)
    }
    return lines + (try snapshot.shareNews(after: 0, limit: 999)).map { "\($0)" }
  }
}
