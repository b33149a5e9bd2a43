// What a body can read and write of one shard.

public import Indexing
public import Records

/// Reads of one consistent state. Lists are bounded by `limit` and in the order their comments give; names are ordered by their UTF-8.
public protocol ShardSnapshot: RecoverySnapshot, SharingSnapshot {
  /// For long evaluations of what was read, which no statement interrupts: to be called every millisecond or so.
  /// - Throws: when the read has to end, because it has taken its time or others wait for its thread. The body runs again then, or its caller is refused.
  func checkWanted() throws
  func database(_ id: DatabaseID) throws -> StoredDatabase?
  func database(key: Int64) throws -> StoredDatabase?
  /// Databases with keys after `key`, ascending: for listings.
  func databases(afterKey key: Int64, limit: Int) throws -> [StoredDatabase]

  func zone(named zoneName: String, in database: Int64) throws -> StoredZone?
  func zone(key: Int64) throws -> StoredZone?
  /// Zones with a change after `sequence`, deleted ones included, ascending by sequence.
  func zones(in database: Int64, after sequence: Int64, limit: Int) throws -> [StoredZone]
  /// How many there are, without those that are deleted.
  func liveZoneCount(in database: Int64) throws -> Int

  /// The record, or its tombstone.
  func record(named recordName: String, in zone: Int64) throws -> StoredRecord?
  /// Records and tombstones changed after `sequence`, ascending by sequence, each once with its latest state.
  func changes(in zone: Int64, after sequence: Int64, limit: Int) throws -> [StoredRecord]
  /// The same back from the end: those changed after `sequence` and before `end`, descending by sequence.
  func changesBackwards(in zone: Int64, after sequence: Int64, before end: Int64, limit: Int) throws -> [StoredRecord]
  /// Live records of a type with names after `recordName`, ascending by record name in `RecordNameOrder`. Passes over records of
  /// other types one by one: an index of the type does not.
  func records(ofType recordType: String, in zone: Int64, afterName recordName: String?, limit: Int) throws -> [StoredRecord]
  /// Records and tombstones with names after `recordName`, ascending by record name in `RecordNameOrder`.
  func records(in zone: Int64, afterName recordName: String?, limit: Int) throws -> [StoredRecord]
  /// The sequence from which on every state of the zone's records is known; nil for a zone that does not exist, or no longer.
  func horizon(of zone: Int64) throws -> Int64?
  /// States of a record that were replaced after `sequence`, ascending, as far as they are kept.
  func pastStates(of recordName: String, in zone: Int64, after sequence: Int64, limit: Int) throws -> [PastState]
  /// The sequence of the first change by which a kept state was replaced later than `time` (milliseconds since 1970). Looks at every past
  /// state of the zone.
  func firstReplacement(in zone: Int64, after time: Int64) throws -> Int64?
  /// When the first of the shard's past states was replaced: milliseconds since 1970; nil when there is none.
  func oldestReplacement() throws -> Int64?
  /// Pointers to `target`, tombstones' to their parents among them, ascending by (field, source, action's wire name); of more than
  /// `limit` any so many.
  func references(to target: String, in zone: Int64, limit: Int) throws -> [IncomingReference]
  /// The names of live records that an action other than `none` binds to `target`, each once, ascending; of more than `limit` any so many.
  /// Costs nothing while no record of the shard ever had such a reference.
  func sources(boundTo target: String, by action: Reference.Action, in zone: Int64, limit: Int) throws -> [String]
  /// How many there are.
  func sourceCount(boundTo target: String, by action: Reference.Action, in zone: Int64) throws -> Int
  /// The live record with that `shortGUID`, whatever database it is in, and its zone's key.
  func record(withShortGUID shortGUID: String) throws -> (zone: Int64, record: StoredRecord)?
  /// How many live records the zone has.
  func recordCount(in zone: Int64) throws -> Int

  /// The indexes in use in a database, ascending by key; without those that are being dropped.
  func indexes(in database: Int64) throws -> [StoredIndex]
  /// Indexes of all databases with keys after `key`, ascending: for listings.
  func indexes(afterKey key: Int64, limit: Int) throws -> [StoredIndex]
  /// Live records by the entries of an index, in the scan's direction; a record with several keys in the range comes once for each.
  func indexedRecords(_ scan: IndexScan, limit: Int) throws -> [IndexedRecord]
  /// How many entries an index has in a range, at most `limit`.
  func entryCount(of index: Int64, in zone: Int64, range: IndexRange, limit: Int) throws -> Int

  /// Keys of an index that more than one record has, after `key`, ascending.
  func sharedKeys(of index: Int64, in zone: Int64, after key: [UInt8], limit: Int) throws -> [[UInt8]]

  /// Whether a zone of the database has redirects; of one that lost its zones with them it may still be said. Costs the writer nothing.
  func hasRedirects(in database: Int64) throws -> Bool
  /// What a duplicate's name stands for.
  func redirect(of recordName: String, in zone: Int64) throws -> StoredRedirect?
  /// The duplicates that stand for a record, ascending by name.
  func redirects(to recordName: String, in zone: Int64, limit: Int) throws -> [StoredRedirect]
  /// Those whose duplicates are not removed yet, ascending by the duplicate's name, after `recordName`.
  func pendingRedirects(in zone: Int64, afterName recordName: String?, limit: Int) throws -> [StoredRedirect]
  /// Zones of a database (nil: of all) that have such, with keys after `key`, ascending.
  func zonesWithPendingRedirects(in database: Int64?, afterKey key: Int64, limit: Int) throws -> [StoredZone]

  func subscription(_ identifier: String, of userRecordName: String, scope: DatabaseScope, in database: Int64) throws -> StoredSubscription?
  /// A user's, ascending by identifier.
  func subscriptions(of userRecordName: String, scope: DatabaseScope, in database: Int64, limit: Int) throws -> [StoredSubscription]
  /// Everybody's to the database, with keys after `key`, ascending.
  func subscriptions(in database: Int64, afterKey key: Int64, limit: Int) throws -> [StoredSubscription]
  func subscriptionCount(in database: Int64) throws -> Int

  /// The zones in which an object has or had a record, ascending by key, without the default ones; and the one in which it is to get its
  /// record (`place`), whichever that is. Those of a zone that ended stay, and are those of its successor once it is made again. None in
  /// a database that never had a mirrored store; with its first one those of the zones that there are then are known.
  func placements(of objectID: String, in database: Int64) throws -> [StoredPlacement]

  /// What the shard knows of a file; nil when it has none of that hash.
  func asset(withHash hash: [UInt8]) throws -> StoredAsset?

  func mirror(_ identifier: String, in database: Int64) throws -> StoredMirror?
  func mirror(key: Int64) throws -> StoredMirror?
  /// Stores with keys after `key`, ascending: for listings.
  func mirrors(afterKey key: Int64, limit: Int) throws -> [StoredMirror]
  /// How many stores of a database are a user's.
  func mirrorCount(of userRecordName: String, in database: Int64) throws -> Int
  /// Keys of stores with transactions that are not exported, ascending, after `key`.
  func mirrorsAwaitingExport(afterKey key: Int64, limit: Int) throws -> [Int64]

  func transaction(withID transactionID: String, of mirror: Int64) throws -> StoredTransaction?
  /// The number of a transaction that is in the store's history, without reading what it says.
  func keptTransactionNumber(of transactionID: String, in mirror: Int64) throws -> Int64?
  /// A transaction of the store, or of removed ones of its identifier and user, whose history is gone.
  func settledTransaction(withID transactionID: String, of mirror: Int64) throws -> SettledTransaction?
  /// Ascending by number: as many as have `byteLimit` bytes of payload together, and at least one.
  /// - Throws: `StoreError.corrupt` when the first can't be read; those before a later one are given.
  func transactions(of mirror: Int64, after number: Int64, limit: Int, byteLimit: Int) throws -> [StoredTransaction]
  /// Ascending by number, which is the database's: an event that was begun before others and ended after them comes after them.
  func events(of mirror: Int64, after number: Int64, kind: StoredEvent.Kind?, limit: Int) throws -> [StoredEvent]

  /// Who reads a store's history at a pace of their own, ascending by name.
  func consumers(of mirror: Int64) throws -> [StoredConsumer]
  /// The number of the first transaction appended at `time` (milliseconds since 1970) or later, nil when there is none. Passes over all
  /// that are before it, without reading what they say.
  func firstTransaction(of mirror: Int64, appendedAtOrAfter time: Int64) throws -> Int64?

  /// The newest event of a kind.
  func latestEvent(of mirror: Int64, kind: StoredEvent.Kind) throws -> StoredEvent?

  /// What an export holds back of an object.
  func quarantined(_ name: String, of mirror: Int64) throws -> StoredQuarantine?
  /// Everything held back for a store, ascending by key.
  func quarantined(of mirror: Int64, afterKey key: Int64, limit: Int) throws -> [StoredQuarantine]
  /// What is to be tried again by then (milliseconds since 1970), ascending by that time and key.
  func quarantined(of mirror: Int64, dueBy time: Int64, limit: Int) throws -> [StoredQuarantine]
  /// The changes held back in a row; nil when it is gone.
  func quarantinedChanges(_ key: Int64) throws -> [UInt8]?
  /// Keys of stores for which something is held back, ascending, after `key`.
  func mirrorsWithQuarantine(afterKey key: Int64, limit: Int) throws -> [Int64]
  /// When the first of the shard's is to be tried again; nil when nothing is held back.
  func nextQuarantineDue() throws -> Int64?

  /// A database's journal of conflicts, ascending by number.
  func conflicts(in database: Int64, afterNumber number: Int64, _ filter: ConflictFilter, limit: Int) throws -> [StoredConflict]
  /// Numbers are the database's.
  func conflict(_ number: Int64, in database: Int64) throws -> StoredConflict?
  /// What was lost, as whoever wrote it down encoded it; nil when the entry is gone.
  func conflictContent(_ number: Int64, in database: Int64) throws -> [UInt8]?
  /// How many of a database's wait for a decision; nil: of all users.
  func openConflictCount(in database: Int64, of userRecordName: String?) throws -> Int
  /// What a database keeps of one user's losses.
  func conflictUse(in database: Int64, of userRecordName: String) throws -> ConflictUse
  /// How many of the shard's entries went because there were too many.
  func evictedConflictCount() throws -> Int
  /// When the oldest of the shard's was written down that waits for no decision: milliseconds since 1970; nil when there is none.
  func oldestConflict() throws -> Int64?

  /// What an earlier request with this idempotency key was answered.
  func outcome(of idempotencyKey: String) throws -> [UInt8]?
  /// Live records and databases, zones, stores: for `status`.
  func counts() throws -> ShardCounts
}

/// Writes of one body; sees its own writes. A body that throws leaves nothing behind. Unknown keys throw `ContradictingWrite`.
public protocol ShardTransaction: ShardSnapshot, RecoveryTransaction, SharingTransaction {
  /// Whether `put` would find an asset's content.
  func hasContent(of asset: Asset) throws -> Bool

  /// The database, made with a random incarnation if it is new.
  func makeDatabase(_ id: DatabaseID) throws -> StoredDatabase
  /// Gives the database another incarnation, so that no token of its past is good any more, and remembers a generation (`restart`).
  func renew(_ database: Int64, generation: Int64) throws
  /// Gives out the database's next sequence number (> all before it).
  func nextSequence(in database: Int64) throws -> Int64

  /// Makes a zone (or makes a deleted one again, with another key and incarnation and none of its records), at a new sequence number.
  /// An existing one is returned unchanged.
  func makeZone(named zoneName: String, in database: Int64) throws -> StoredZone
  /// Deletes a zone with all its records, at a new sequence number; the row stays for the database feed, with the reason, which a zone that
  /// is made again keeps. Deleting a deleted zone changes nothing.
  func deleteZone(_ zone: Int64, as end: ZoneEnd) throws

  /// Stores a record or tombstone under its name and sequence, replacing what was there, with the pointers out of it (of a
  /// tombstone only `___parent`: what hangs from it hangs there), and raises the zone's sequence. `isNew`: the caller has just seen that
  /// no row of that name exists.
  ///
  /// Where the store keeps past states, the one that is replaced becomes such a state; else the zone's horizon is raised past it.
  ///
  /// The shard takes a link of its own to each asset that no live record, past state or transaction used before, and counts the uses.
  /// - Throws: `ContradictingWrite` for a deleted zone, a sequence number that was not given out or that another record has, or a
  ///   name that `isNew` denies; `MissingAsset` for one whose content was never uploaded, or too long ago.
  func put(_ record: StoredRecord, in zone: Int64, references: [OutgoingReference], isNew: Bool) throws

  /// Notes that an object is to get its record in a zone, and in no other. `put` notes where an object's record is (`StoredZone.places`) in
  /// a database that has or had a mirrored store, or where something was placed.
  func place(_ objectID: String, in zone: Int64) throws
  /// Forgets where an object was to get its record, unless there is one now: then it is where it is.
  func settlePlacement(of objectID: String, in database: Int64) throws

  /// Forgets past states that were replaced before `cutoff` (milliseconds since 1970), the oldest first, at most `limit`, and raises their
  /// zones' horizons; returns how many.
  func forgetPast(replacedBefore cutoff: Int64, limit: Int) throws -> Int

  /// Stores a subscription in the place of the one with the same identifier, user and scope, if there is one, and gives the database
  /// another `subscriptionEdition`.
  func putSubscription(
    _ identifier: String, of userRecordName: String, scope: DatabaseScope, payload: [UInt8], in database: Int64
  ) throws -> StoredSubscription
  /// Gives the database another `subscriptionEdition`. Deleting what is not there changes nothing.
  func deleteSubscription(_ key: Int64, in database: Int64) throws
  /// Takes an index into use: commits keep it up from now on, and records that are there already are filled in behind this one, a slice
  /// at a time. One in use is returned as it is.
  func makeIndex(_ index: FieldIndex, in database: Int64) throws -> StoredIndex
  /// Takes an index out of use; its entries go behind this commit, a slice at a time. Does nothing for one that is not in use.
  func dropIndex(_ index: Int64) throws

  /// Stores a redirect in the place of the one of the same duplicate, if there is one. One to a duplicate leads to what that stands for, and
  /// those that led to this one's duplicate lead on with it: there are no chains.
  /// - Throws: `ContradictingWrite` for one that would lead to itself.
  func put(_ redirect: StoredRedirect, in zone: Int64) throws
  /// Removing one that is not there changes nothing.
  func removeRedirect(of recordName: String, in zone: Int64) throws
  /// Adds to the progress of a zone's pending redirects that are from before `time` (milliseconds since 1970).
  func note(_ progress: StoredRedirect.Progress, ofPendingRedirectsBefore time: Int64, in zone: Int64) throws

  func makeMirror(
    _ identifier: String, in database: Int64, userRecordName: String, scope: DatabaseScope, modelHash: String, configuration: String?,
    deviceName: String?, createdAt: Int64
  ) throws -> StoredMirror
  /// Stores everything of the row that can vary.
  func update(_ mirror: StoredMirror) throws
  /// Forgets the store with its history, its consumers and events, what is held back for it, and how far its imports have come. One that is
  /// made again for the same user knows the transactions of this one (`settledTransaction`), and its numbers go on.
  func deleteMirror(_ mirror: Int64) throws
  /// Appends a transaction and raises the store's `lastTransactionNumber` to its number, which must be the next one; its
  /// `transactionID` must be unused (`transactionNumber`).
  /// - Parameter assets: those that its payload names, each of which counts as used once until the transaction is purged.
  /// - Throws: `ContradictingWrite`; `MissingAsset` as `put`.
  func append(_ transaction: StoredTransaction, assets: [Asset], to mirror: Int64) throws
  /// Forgets what transactions say; they are known when they are sent again (`settledTransaction`), the last `SettledTransaction.keptCount`.
  func purgeTransactions(of mirror: Int64, through number: Int64) throws -> Int
  /// Forgets settled transactions that were appended before `cutoff` (milliseconds since 1970), the oldest first, at most `limit`; returns
  /// how many.
  func forgetTransactions(of mirror: Int64, appendedBefore cutoff: Int64, limit: Int) throws -> Int
  /// Forgets the transactions of stores that were removed before `cutoff`, at most `limit`; returns how many rows went: 0 when none is left.
  func forgetFormerMirrors(removedBefore cutoff: Int64, limit: Int) throws -> Int
  /// Forgets the transactions of all stores of a database that were removed.
  func forgetFormerMirrors(of database: Int64) throws

  /// Stores a consumer in the place of the one of that name, if there is one.
  func put(_ consumer: StoredConsumer, of mirror: Int64) throws
  /// Forgetting one that is not there changes nothing.
  func deleteConsumer(named name: String, of mirror: Int64) throws

  /// Stores a new event (`number` 0), or an earlier one as it is now under a number of its own, so that whoever has read on to another
  /// event's number reads this one again; returns its number. Old events go: at least the newest `StoredEvent.keptCount` of a mirror stay,
  /// and the newest of each kind.
  func put(_ event: StoredEvent, of mirror: Int64) throws -> Int64
  /// Events that an earlier owner of the shard began and nobody ended, ascending by number, each with its mirror's key.
  func abandonedEvents(limit: Int) throws -> [(mirror: Int64, event: StoredEvent)]

  /// Holds an object's changes back, in the place of what is held back of it. `key` is given by the store; one that exists keeps its own.
  /// - Parameter assets: those that the changes name, each of which counts as used once for as long as they are held back.
  func putQuarantined(_ object: StoredQuarantine, changes: [UInt8], assets: [Asset]) throws
  /// Does nothing for an object of which nothing is held back.
  func removeQuarantined(_ name: String, of mirror: Int64) throws
  /// Sets when objects are to be tried again; returns how many there are.
  func retryQuarantined(_ selection: QuarantineSelection, of mirror: Int64, at time: Int64) throws -> Int

  /// Writes a conflict into its database's journal; returns its number. When its user has more there than `StoredConflict.keptCount` or
  /// `keptByteCount`, others of his go, and are counted.
  /// - Parameter assets: those that the content names, each of which counts as used once for as long as the entry is there.
  func appendConflict(_ conflict: StoredConflict, content: [UInt8], assets: [Asset]) throws -> Int64
  /// Says what became of an entry; `time`: milliseconds since 1970.
  func settleConflict(_ number: Int64, in database: Int64, as state: Int, at time: Int64) throws
  /// Forgets entries from before `cutoff` (milliseconds since 1970) that wait for no decision, the oldest first, at most `limit` and about 8 MiB;
  /// returns how many.
  func forgetConflicts(before cutoff: Int64, limit: Int) throws -> Int
  /// Forgets the whole journal of a database, or what it has of a zone.
  func deleteConflicts(of database: Int64, inZone zoneName: String?) throws

  /// Remembers an answer under its idempotency key, which must be unused; `at`: milliseconds since 1970.
  func putOutcome(_ payload: [UInt8], of idempotencyKey: String, at: Int64) throws
  /// Forgets outcomes older than `cutoff` (milliseconds since 1970), the oldest first, at most `limit`; returns how many.
  func forgetOutcomes(before cutoff: Int64, limit: Int) throws -> Int
}

extension ShardTransaction {
  /// As a client does.
  public func deleteZone(_ zone: Int64) throws { try deleteZone(zone, as: .deleted) }

  /// Lets a database begin anew: no zone, no store, no conflict and no subscription of its past is left, and no token is good. Indexes stay.
  /// - Returns: the zones that were deleted, as they are now.
  public func restart(_ database: Int64, generation: Int64) throws -> [StoredZone] {
    var deleted: [StoredZone] = []
    var last: Int64 = 0
    while case let zones = try self.zones(in: database, after: last, limit: 500), !zones.isEmpty {
      for zone in zones where !zone.isDeleted {
        try deleteZone(zone.key)
        if let row = try self.zone(key: zone.key) { deleted.append(row) }
      }
      // Those that were deleted come again behind the others, and are passed over.
      last = zones.last?.sequence ?? last
    }
    try deleteMirrors(of: database)
    try forgetFormerMirrors(of: database)
    try deleteConflicts(of: database, inZone: nil)
    while case let subscriptions = try self.subscriptions(in: database, afterKey: 0, limit: 500), !subscriptions.isEmpty {
      for subscription in subscriptions { try deleteSubscription(subscription.key, in: database) }
    }
    try renew(database, generation: generation)
    return deleted
  }

  private func deleteMirrors(of database: Int64) throws {
    var last: Int64 = 0
    while case let mirrors = try self.mirrors(afterKey: last, limit: 500), !mirrors.isEmpty {
      for mirror in mirrors where mirror.databaseKey == database { try deleteMirror(mirror.key) }
      last = mirrors.last?.key ?? last
    }
  }

  /// Appends a transaction that names no assets.
  public func append(_ transaction: StoredTransaction, to mirror: Int64) throws { try append(transaction, assets: [], to: mirror) }
}

extension ShardSnapshot {
  /// All of them.
  public func references(to target: String, in zone: Int64) throws -> [IncomingReference] { try references(to: target, in: zone, limit: .max) }

  /// The same, however many bytes they have.
  public func transactions(of mirror: Int64, after number: Int64, limit: Int) throws -> [StoredTransaction] {
    try transactions(of: mirror, after: number, limit: limit, byteLimit: .max)
  }
}
