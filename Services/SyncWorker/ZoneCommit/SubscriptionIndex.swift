// Arranges a database's subscriptions so that a save compares with few of them. Pure: decides, and touches nothing.

import JSON
import RecordStore
import Records
import WebServices

/// The subscriptions of one database: queries by record type, with equal queries compared once for all their
/// subscribers.
struct SubscriptionIndex: Sendable {
  /// A subscription with its stored row.
  struct Entry: Hashable, Sendable {
    let stored: StoredSubscription
    let subscription: Subscription
  }

  /// The key of a group: the query's JSON text, as equal texts are equal bytes there.
  private struct Question: Hashable {
    let json: [UInt8]
    /// nil: in every zone.
    let zoneName: String?
  }

  private struct Group: Sendable {
    let judge: QueryJudge
    let zoneName: String?
    var entries: [Entry]
  }

  /// By key.
  private var entries: [Int64: Entry] = [:]
  private var queries: [String: [Group]] = [:]
  private var zones: [String: [Entry]] = [:]
  /// By the zone that they name, of every kind.
  private var bound: [String: [Entry]] = [:]
  private var databases: [Entry] = []
  private var sharedDatabases: [Entry] = []
  /// Subscriptions that the present schema can't read.
  let unreadable: [StoredSubscription]

  var isEmpty: Bool { entries.isEmpty }

  /// - Parameters:
  ///   - rows: ascending by key.
  ///   - earlier: an index made with the same schema, whose parsed subscriptions are reused.
  init(_ rows: [StoredSubscription], owner: String, schema: SchemaIndex, earlier: SubscriptionIndex?) {
    var unreadable: [StoredSubscription] = []
    var positions: [Question: Int] = [:]
    for row in rows {
      let entry: Entry
      if let known = earlier?.entries[row.key], known.stored == row {
        entry = known
      } else if let subscription = Self.read(row, owner: owner, schema: schema) {
        entry = Entry(stored: row, subscription: subscription)
      } else {
        unreadable.append(row)
        continue
      }
      entries[row.key] = entry
      if let zone = entry.subscription.zone { bound[zone.zoneName, default: []].append(entry) }
      switch entry.subscription.subject {
      // Zones of a shared database are in other shards: their owners' workers tell of them.
      case .database: if row.scope == .shared { sharedDatabases.append(entry) } else { databases.append(entry) }
      case .zone(let zone): zones[zone.zoneName, default: []].append(entry)
      case .query(let query, let json, let zone, _):
        let question = Question(json: json, zoneName: zone?.zoneName)
        if let position = positions[question] {
          queries[query.recordType]?[position].entries.append(entry)
        } else {
          positions[question] = queries[query.recordType]?.count ?? 0
          queries[query.recordType, default: []].append(
            Group(judge: QueryJudge(query), zoneName: zone?.zoneName, entries: [entry]))
        }
      }
    }
    self.unreadable = unreadable
    participants = Set(rows.lazy.filter { $0.scope == .shared && $0.userRecordName != owner }.map(\.userRecordName))
      .sorted()
    areAllShared = !rows.isEmpty && rows.allSatisfy { $0.scope == .shared }
  }

  private static func read(_ row: StoredSubscription, owner: String, schema: SchemaIndex) -> Subscription? {
    // Dropped because the caller learns which rows they are: a field's type may have changed since the query was made.
    guard let json = try? JSONValue(parsing: row.payload, maximumDepth: Limit.jsonDepth) else { return nil }
    return try? Subscription(json, owner: owner, schema: schema, makeIdentifier: { row.identifier })
  }

  /// The event that a record's change is to query subscriptions; nil when no query is about its type.
  /// - Parameters:
  ///   - before: nil for a new record.
  ///   - after: nil for a deleted one.
  func event(changing before: Record?, to after: Record?) -> (event: Subscription.Event, record: Record)? {
    guard let record = after ?? before, queries[record.recordType] != nil else { return nil }
    return (after == nil ? .delete : before == nil ? .create : .update, record)
  }

  /// The query subscriptions that a change fires: for a new or changed record that matches afterwards, for a deleted
  /// record that matched. A record that begins to match is an update; one that ceases to match fires nothing.
  /// - Throws: errors of `budget`.
  func queries(
    firedBy event: Subscription.Event, of record: Record, inZone zoneName: String, spending budget: inout CostBudget
  ) throws -> [Entry] {
    var look = RecordLook(record)
    var fired: [Entry] = []
    for group in queries[record.recordType] ?? [] where group.zoneName == nil || group.zoneName == zoneName {
      try budget.spend(group.entries.count)
      guard group.entries.contains(where: { $0.fires(on: event) }), try group.judge.passes(&look, spending: &budget)
      else { continue }
      fired += group.entries.filter { $0.fires(on: event) }
    }
    return fired
  }

  /// Participants with subscriptions in this database, ascending.
  let participants: [String]
  /// True when every subscription is to a shared database: the owner's to others' databases, participants' to this one.
  let areAllShared: Bool

  /// Subscriptions to any change in a zone.
  func subscribers(ofZone zoneName: String) -> [Entry] { zones[zoneName] ?? [] }
  /// Subscriptions to any change in the database.
  var subscribersOfDatabase: [Entry] { databases }
  /// The owner's subscriptions to the zones that others share with the owner.
  var subscribersOfSharedDatabase: [Entry] { sharedDatabases }

  /// Subscriptions that end with a zone, ascending by key.
  func bound(toZone zoneName: String) -> [Entry] { bound[zoneName] ?? [] }
}

extension SubscriptionIndex.Entry {
  fileprivate func fires(on event: Subscription.Event) -> Bool {
    if case .query(_, _, _, let events) = subscription.subject { events.contains(event) } else { false }
  }
}
