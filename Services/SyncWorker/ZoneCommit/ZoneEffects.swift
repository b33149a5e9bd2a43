// The effects of a commit, published only once the commit is durable.

package import RecordStore
package import Records
package import ServiceBus
import Sharing

/// The effects of a commit's writes: pings, fired subscriptions, changed access, and duplicates left to merge.
package struct ZoneEffects: Sendable {
  /// Users whose access to a zone began, changed or ended.
  struct Access: Hashable, Sendable {
    let users: [String]
    let zoneName: String
    let database: DatabaseID
    let shard: Int
    /// Those whose access ended, if the database has subscriptions.
    var ended: [String] = []
  }

  package private(set) var changes: [ZoneChange] = []
  private(set) var fired: [Firing] = []
  private(set) var accesses: [Access] = []
  /// Shards with more duplicates than one commit merges.
  private(set) var unmerged: Set<Int> = []

  package init() {}

  /// Zones that ended with a reset, which has no commit of its own and removes the subscriptions, too.
  package init(removed zones: [StoredZone], of database: DatabaseID) {
    for zone in zones { add(zone, of: database, by: nil, hasSubscriptions: false) }
  }

  package mutating func add(_ other: ZoneEffects) {
    changes += other.changes
    fired += other.fired
    accesses += other.accesses
    unmerged.formUnion(other.unmerged)
  }

  /// Publishes the effects. Called when the commit is durable.
  package func publish(by context: some CommittingContext) {
    let receivers = context.commits.effects
    // Before the change, so that users whose access has just begun are told of it.
    for access in accesses {
      receivers.audiences.add(
        access.users, toZone: access.zoneName, of: access.database, shard: access.shard, ended: access.ended)
      receivers.shareNews.note(access.shard)
    }
    for change in changes { receivers.changes.publish(change) }
    if !fired.isEmpty { receivers.lateFirings.publish(fired) }
    for shard in unmerged { receivers.duplicates.note(shard) }
  }

  /// Publishes the changes alone.
  package func publish(changesBy publisher: any ChangePublisher) { for change in changes { publisher.publish(change) } }

  // MARK: Made by commits

  /// Notes the present state of a zone.
  /// - Parameter author: the author whose device made all changes; nil if others took part.
  mutating func add(_ zone: StoredZone, of database: DatabaseID, by author: WriteAuthor?, hasSubscriptions: Bool) {
    changes.append(
      ZoneChange(
        zone, of: database, originStore: author?.device, originUser: author?.userRecordName,
        hasSubscriptions: hasSubscriptions))
  }

  mutating func add(_ firings: [Firing]) { fired += firings }

  mutating func add(_ access: Access) { accesses.append(access) }

  /// Notes whose access has ended by now. To be called after the last write.
  mutating func noteEndedAccesses(of database: Int64, in transaction: any ShardTransaction) throws {
    for index in accesses.indices {
      let zoneName = accesses[index].zoneName
      // One look-up tells all who have left, so that the end of a zone asks for none of its participants.
      let active = Set(try transaction.audience(ofZone: zoneName, of: database))
      accesses[index].ended = try accesses[index].users.filter { user in
        try !active.contains(user) || !ZoneAccess(transaction.members(user, inZone: zoneName, of: database)).mayRead
      }
    }
  }

  mutating func addUnmerged(on shard: Int) { unmerged.insert(shard) }
}

extension ZoneChange {
  /// The news that a zone changed, up to its sequence.
  init(_ zone: StoredZone, of database: DatabaseID, originStore: String?, originUser: String?, hasSubscriptions: Bool) {
    self.init(
      database: database, zoneName: zone.zoneName, sequence: zone.sequence, syncToken: zone.syncToken.text,
      originStore: originStore, originUser: originUser,
      audience: database.isPublic ? [] : [database.owner], hasSubscriptions: hasSubscriptions)
  }
}
