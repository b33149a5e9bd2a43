// Reads the people who wait in shares from their shard, for the share service's index.

import RecordStore
import Records
import ServiceBus
import Sharing

extension WaitingInvitations {
  /// Those of the share that news are about, as it is now; nil for other news.
  init?(_ news: StoredShareNews, in snapshot: any ShardSnapshot) throws {
    guard case .invitations(let shareName) = news.subject else { return nil }
    var share: StoredShare?
    if let database = try snapshot.database(news.database),
      let zone = try snapshot.zone(named: news.zoneName, in: database.key), !zone.isDeleted
    {
      share = try snapshot.share(named: shareName, in: zone.key)
    }
    self.init(news.database, news.zoneName, shareName, share?.state)
  }

  private init(_ database: DatabaseID, _ zoneName: String, _ shareName: String, _ state: ShareState?) {
    let invitations = (state?.waiting ?? []).map { participant in
      var (email, phone): (String?, String?)
      switch participant.identity.lookupInfo {
      case .email(let address): email = address
      case .phone(let number): phone = number
      case .recordName, nil: break
      }
      return Invitation(
        participantID: participant.participantID, emailAddress: email, phoneNumber: phone,
        added: participant.dateAdded)
    }
    self.init(database: database, zoneName: zoneName, shareName: shareName, invitations: invitations)
  }

  private static let pageCount = 100

  /// All shares of a shard in which somebody waits.
  static func all(in snapshot: any ShardSnapshot) throws -> [WaitingInvitations] {
    var found: [WaitingInvitations] = []
    try forEach(in: { try snapshot.databases(afterKey: $0?.key ?? 0, limit: pageCount) }) { database in
      guard database.hasShares else { return }
      try forEach(in: {
        try snapshot.liveZones(in: database.key, afterName: $0?.zoneName, limit: pageCount)
      }) { zone in
        try forEach(in: { try snapshot.shares(in: zone.key, afterName: $0?.name, limit: pageCount) }) { share in
          let waiting = WaitingInvitations(database.id, zone.zoneName, share.name, share.state)
          if !waiting.invitations.isEmpty { found.append(waiting) }
        }
      }
    }
    return found
  }

  /// - Parameter page: reads the page behind an element, with at most `pageCount`; nil: the first.
  private static func forEach<Element>(
    in page: (Element?) throws -> [Element], _ body: (Element) throws -> Void
  ) throws {
    var last: Element?
    while case let elements = try page(last), let end = elements.last {
      for element in elements { try body(element) }
      last = end
    }
  }

  /// Parts of a size that one message holds.
  static func parts(of shares: [WaitingInvitations]) -> [[WaitingInvitations]] {
    var parts: [[WaitingInvitations]] = []
    var count = NoteInvitations.countLimit
    for share in shares {
      if count >= NoteInvitations.countLimit {
        parts.append([])
        count = 0
      }
      parts[parts.count - 1].append(share)
      count += max(1, share.invitations.count)
    }
    return parts
  }
}
