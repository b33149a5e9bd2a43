// The reads and writes that a body can make in one shard.

public import Indexing
public import Records

/// Reads one consistent state. `limit` bounds each list, and its comment states its order. A list with a `byteLimit`
/// may end earlier, with the row by which its contents pass that limit. Names are ordered by their UTF-8.
public protocol ShardSnapshot: RecoverySnapshot, SharingSnapshot {
  /// Checks whether the read may go on. A long evaluation of the results, which no statement interrupts, calls it about
  /// every millisecond.
  /// - Throws: when the read has to end, because its time is over or others wait for its thread. The body then runs
  ///   again, or its caller gets an error.
  func checkWanted() throws
  /// Says what the read is about to look up. An engine that reaches its rows across a network fetches all of it in the
  /// round trip of the next look-up, as far as it knows the zones from earlier reads. What the read sees is the same
  /// without it. A writer's bodies announce their look-ups before they run (`ShardStore.enqueue`); what they expect
  /// while they run is fetched at once.
  func expect(_ lookups: [ExpectedLookup]) throws
  func database(_ id: DatabaseID) throws -> StoredDatabase?
  func database(key: Int64) throws -> StoredDatabase?
  /// Databases with keys after `key`, ascending.
  func databases(afterKey key: Int64, limit: Int) throws -> [StoredDatabase]

  func zone(named zoneName: String, in database: Int64) throws -> StoredZone?
  func zone(key: Int64) throws -> StoredZone?
  /// Zones with a change after `sequence`, deleted ones included, ascending by sequence.
  func zones(in database: Int64, after sequence: Int64, limit: Int) throws -> [StoredZone]
  /// Zones that are not deleted, ascending by name. Neither this nor their number costs more where many zones ended.
  func liveZones(in database: Int64, afterName zoneName: String?, limit: Int) throws -> [StoredZone]
  /// The number of zones that are not deleted.
  func liveZoneCount(in database: Int64) throws -> Int

  /// The record or its tombstone; nil when the name was never used.
  func record(named recordName: String, in zone: Int64) throws -> StoredRecord?
  /// What a name stands for. Reads nothing of a record's fields.
  func presence(of recordName: String, in zone: Int64) throws -> RecordPresence
  /// The bytes of a record's or tombstone's fields as they are stored; 0 for a name that was never used. Reads nothing
  /// of them, and is announced as a presence.
  func recordByteCount(of recordName: String, in zone: Int64) throws -> Int
  /// Appends the row of a record or its tombstone.
  /// - Returns: false, with nothing appended, when the name was never used.
  func readRecord(named recordName: String, into rows: inout RecordRows) throws -> Bool
  /// Appends the rows of records and tombstones of a zone changed after `sequence`, ascending by sequence. Each appears
  /// once, in its latest state.
  /// - Returns: false when a limit ended the rows, so that more may follow.
  @discardableResult
  func readChanges(after sequence: Int64, limit: Int, byteLimit: Int, into rows: inout RecordRows) throws -> Bool
  /// Appends the rows of records and tombstones of a zone changed after `sequence` and before `end`, descending by
  /// sequence.
  /// - Returns: as `readChanges`.
  @discardableResult
  func readChangesBackwards(
    after sequence: Int64, before end: Int64, limit: Int, byteLimit: Int, into rows: inout RecordRows
  ) throws -> Bool
  /// Live records of a type with names after `recordName`, ascending by record name in `RecordNameOrder`. It steps over
  /// records of other types one by one, which an index of the type avoids.
  func records(
    ofType recordType: String, in zone: Int64, afterName recordName: String?, limit: Int, byteLimit: Int
  ) throws -> RowPage<StoredRecord>
  /// Records and tombstones with names after `recordName`, ascending by record name in `RecordNameOrder`.
  func records(in zone: Int64, afterName recordName: String?, limit: Int, byteLimit: Int) throws
    -> RowPage<StoredRecord>
  /// The sequence from which on every state of the zone's records is known; nil for a zone that does not exist or has
  /// ended.
  func horizon(of zone: Int64) throws -> Int64?
  /// The kept states of a record that were replaced after `sequence`, ascending: at least one, and further ones up to
  /// about `byteLimit` bytes.
  func pastStates(of recordName: String, in zone: Int64, after sequence: Int64, limit: Int, byteLimit: Int) throws
    -> [PastState]
  /// The first kept state of a record that was replaced later than `time` (milliseconds since 1970).
  func pastState(of recordName: String, in zone: Int64, replacedAfter time: Int64) throws -> PastState?
  /// The sequence of the first change that replaced a kept state later than `time` (milliseconds since 1970). Reads
  /// every past state of the zone.
  func firstReplacement(in zone: Int64, after time: Int64) throws -> Int64?
  /// The time at which the oldest past state of the shard was replaced, in milliseconds since 1970; nil when there is
  /// none.
  func oldestReplacement() throws -> Int64?
  /// Pointers to `target`, including those of tombstones to their parents, ascending by (field, source, action's wire
  /// name). If there are more than `limit`, any `limit` of them.
  func references(to target: String, in zone: Int64, limit: Int) throws -> [IncomingReference]
  /// The names of live records that an action other than `none` binds to `target`, each once, ascending. If there are
  /// more than `limit`, any `limit` of them. Costs nothing while no record of the shard ever had such a reference.
  func sources(boundTo target: String, by action: Reference.Action, in zone: Int64, limit: Int) throws -> [String]
  /// The number of records that an action other than `none` binds to `target`.
  func sourceCount(boundTo target: String, by action: Reference.Action, in zone: Int64) throws -> Int
  /// The live record with that `shortGUID`, in whatever database, and its zone's key.
  func record(withShortGUID shortGUID: String) throws -> (zone: Int64, record: StoredRecord)?
  /// The number of the zone's live records.
  func recordCount(in zone: Int64) throws -> Int

  /// The indexes in use in a database, ascending by key. Excludes those that are being dropped.
  func indexes(in database: Int64) throws -> [StoredIndex]
  /// Indexes of all databases with keys after `key`, ascending.
  func indexes(afterKey key: Int64, limit: Int) throws -> [StoredIndex]
  /// Live records by the entries of an index, in the scan's direction. A record with several keys in the range appears
  /// once for each.
  func indexedRecords(_ scan: IndexScan, limit: Int, byteLimit: Int) throws -> RowPage<IndexedRecord>
  /// The names of live records by the entries of an index in a range, without their contents. A record with several
  /// keys in the range appears once for each.
  func indexedNames(of index: Int64, in zone: Int64, range: IndexRange, limit: Int) throws -> [String]
  /// The number of an index's entries in a range, at most `limit`.
  func entryCount(of index: Int64, in zone: Int64, range: IndexRange, limit: Int) throws -> Int

  /// Keys of an index that several records share, after `key`, ascending.
  func sharedKeys(of index: Int64, in zone: Int64, after key: [UInt8], limit: Int) throws -> [[UInt8]]

  /// True when a zone of the database has redirects. Can stay true after the database lost the zones that had them.
  /// Reads no table.
  func hasRedirects(in database: Int64) throws -> Bool
  /// The redirect of a duplicate's name; nil for other names.
  func redirect(of recordName: String, in zone: Int64) throws -> StoredRedirect?
  /// The redirects that lead to a record, ascending by the duplicate's name.
  func redirects(to recordName: String, in zone: Int64, limit: Int) throws -> [StoredRedirect]
  /// The redirects whose duplicates still exist, ascending by the duplicate's name, after `recordName`.
  func pendingRedirects(in zone: Int64, afterName recordName: String?, limit: Int) throws -> [StoredRedirect]
  /// The zones of a database (nil for all) with redirects whose duplicates still exist, with keys after `key`,
  /// ascending.
  func zonesWithPendingRedirects(in database: Int64?, afterKey key: Int64, limit: Int) throws -> [StoredZone]

  func subscription(_ identifier: String, of userRecordName: String, scope: DatabaseScope, in database: Int64) throws
    -> StoredSubscription?
  /// A user's subscriptions, ascending by identifier.
  func subscriptions(of userRecordName: String, scope: DatabaseScope, in database: Int64, limit: Int) throws
    -> [StoredSubscription]
  /// All users' subscriptions to the database, with keys after `key`, ascending.
  func subscriptions(in database: Int64, afterKey key: Int64, limit: Int) throws -> [StoredSubscription]
  func subscriptionCount(in database: Int64) throws -> Int

  /// The zones in which an object has or had a record, without the default ones, ascending by key; and the zone in
  /// which it is to get its record (`place`), which can be any. Placements in a zone that ended stay, and belong to its
  /// successor once the zone is made again. A database that never had a mirrored store has no placements. With the
  /// first store, the placements in the existing zones become known.
  func placements(of objectID: String, in database: Int64) throws -> [StoredPlacement]

  /// The shard's row about an asset; nil when it has none of that hash.
  func asset(withHash hash: [UInt8]) throws -> StoredAsset?

  func mirror(_ identifier: String, in database: Int64) throws -> StoredMirror?
  func mirror(key: Int64) throws -> StoredMirror?
  /// Stores with keys after `key`, ascending.
  func mirrors(afterKey key: Int64, limit: Int) throws -> [StoredMirror]
  /// The number of a user's stores in a database.
  func mirrorCount(of userRecordName: String, in database: Int64) throws -> Int
  /// Keys of stores with transactions that are not exported yet, ascending, after `key`.
  func mirrorsAwaitingExport(afterKey key: Int64, limit: Int) throws -> [Int64]

  func transaction(withID transactionID: String, of mirror: Int64) throws -> StoredTransaction?
  /// The number of a transaction in the store's history. Does not read the payload.
  func keptTransactionNumber(of transactionID: String, in mirror: Int64) throws -> Int64?
  /// A transaction whose history is gone, of this store or of removed stores with its identifier and user.
  func settledTransaction(withID transactionID: String, of mirror: Int64) throws -> SettledTransaction?
  /// Transactions after `number`, ascending, with at most `byteLimit` bytes of payload together, but at least one.
  /// - Throws: `StoreError.corrupt` when the first one is unreadable. A later unreadable one ends the list.
  func transactions(of mirror: Int64, after number: Int64, limit: Int, byteLimit: Int) throws -> [StoredTransaction]
  /// Events after `number`, ascending. Numbers belong to the database, and an event gets another number when it ends.
  func events(of mirror: Int64, after number: Int64, kind: StoredEvent.Kind?, limit: Int) throws -> [StoredEvent]

  /// The consumers that read a store's history at their own pace, ascending by name.
  func consumers(of mirror: Int64) throws -> [StoredConsumer]
  /// The number of the first transaction appended at `time` (milliseconds since 1970) or later; nil when there is none.
  /// Steps over all earlier ones without reading their payloads.
  func firstTransaction(of mirror: Int64, appendedAtOrAfter time: Int64) throws -> Int64?

  /// The newest event of a kind; nil when there is none.
  func latestEvent(of mirror: Int64, kind: StoredEvent.Kind) throws -> StoredEvent?

  /// The row about an object's changes that exports hold back; nil when there are none.
  func quarantined(_ name: String, of mirror: Int64) throws -> StoredQuarantine?
  /// The rows about all held back changes of a store, ascending by key.
  func quarantined(of mirror: Int64, afterKey key: Int64, limit: Int) throws -> [StoredQuarantine]
  /// The rows to be retried at `time` (milliseconds since 1970) or earlier, ascending by that time and key.
  func quarantined(of mirror: Int64, dueBy time: Int64, limit: Int) throws -> [StoredQuarantine]
  /// The encoded changes of a row; nil when the row is gone.
  func quarantinedChanges(_ key: Int64) throws -> [UInt8]?
  /// Keys of stores with held back changes, ascending, after `key`.
  func mirrorsWithQuarantine(afterKey key: Int64, limit: Int) throws -> [Int64]
  /// The time of the shard's next retry in milliseconds since 1970; nil when nothing is held back.
  func nextQuarantineDue() throws -> Int64?

  /// The journal of conflicts of a database, ascending by number.
  func conflicts(in database: Int64, afterNumber number: Int64, _ filter: ConflictFilter, limit: Int) throws
    -> [StoredConflict]
  /// An entry by its number, which is unique within the database.
  func conflict(_ number: Int64, in database: Int64) throws -> StoredConflict?
  /// The lost values in the encoding of `appendConflict`; nil when the entry is gone.
  func conflictContent(_ number: Int64, in database: Int64) throws -> [UInt8]?
  /// The number of a database's entries that wait for a decision, of one user or (nil) of all.
  func openConflictCount(in database: Int64, of userRecordName: String?) throws -> Int
  /// The size of one user's part of a database's journal.
  func conflictUse(in database: Int64, of userRecordName: String) throws -> ConflictUse
  /// The number of the shard's entries that were removed because there were too many.
  func evictedConflictCount() throws -> Int
  /// The time of the shard's oldest entry that waits for no decision, in milliseconds since 1970; nil when there is
  /// none.
  func oldestConflict() throws -> Int64?

  /// The answer to an earlier request with this idempotency key; nil when there was none.
  func outcome(of idempotencyKey: String) throws -> [UInt8]?
  /// The numbers of live records and of databases, zones and stores, for `status`.
  func counts() throws -> ShardCounts
  /// Bytes of the shard's tables and indexes where they are kept, without a log. Asks about each file of the shard.
  func byteCount() throws -> Int64
}

/// The writes of one body, which sees its own writes. A body that throws leaves nothing behind. Unknown keys throw
/// `ContradictingWrite`.
public protocol ShardTransaction: ShardSnapshot, RecoveryTransaction, SharingTransaction {
  /// True when `put` would find an asset's content.
  func hasContent(of asset: Asset) throws -> Bool

  /// The database. A new one gets a random incarnation.
  func makeDatabase(_ id: DatabaseID) throws -> StoredDatabase
  /// Gives the database another incarnation, which invalidates all its tokens, and stores a generation (`restart`).
  func renew(_ database: Int64, generation: Int64) throws
  /// Takes the database's next sequence number, which is greater than all before it.
  func nextSequence(in database: Int64) throws -> Int64

  /// Makes a zone at a new sequence number. A deleted zone is made again with another key and incarnation and without
  /// its records. Returns an existing zone unchanged.
  func makeZone(named zoneName: String, in database: Int64) throws -> StoredZone
  /// Deletes a zone with all its records, at a new sequence number. The row stays for the database feed. It keeps the
  /// reason, also when the zone is made again. Deleting a deleted zone changes nothing.
  func deleteZone(_ zone: Int64, as end: ZoneEnd) throws

  /// Stores a record or tombstone under its name and sequence in place of the earlier row, and raises the zone's
  /// sequence.
  ///
  /// Stores the record's outgoing pointers as well; of a tombstone only `___parent`, because its children stay below
  /// it.
  ///
  /// If the store keeps past states, the replaced row becomes one. Otherwise the zone's horizon rises past it.
  ///
  /// The shard adopts the content of each asset that nothing in it used before, and counts the uses.
  /// - Parameter isNew: whether the caller has just seen that no row of that name exists.
  /// - Throws: `ContradictingWrite` for a deleted zone, a sequence number that was not given out or that another record
  ///   has, or an existing name despite `isNew`; `MissingAsset` when an asset's content was never uploaded, or too long
  ///   ago.
  func put(_ record: StoredRecord, in zone: Int64, references: [OutgoingReference], isNew: Bool) throws

  /// Assigns an object to the zone in which it is to get its record. `put` notes the actual zones of objects
  /// (`StoredZone.places`) in a database that has or had a mirrored store, or in which something was placed.
  func place(_ objectID: String, in zone: Int64) throws
  /// Ends an object's assignment. If the zone has the object's record by now, the placement stays.
  func settlePlacement(of objectID: String, in database: Int64) throws

  /// Forgets past states that were replaced before `cutoff` (milliseconds since 1970), the oldest first, at most
  /// `limit`, and raises their zones' horizons. Returns their number.
  func forgetPast(replacedBefore cutoff: Int64, limit: Int) throws -> Int

  /// Stores a subscription, in place of the one with the same identifier, user and scope, and gives the database
  /// another `subscriptionEdition`.
  func putSubscription(
    _ identifier: String, of userRecordName: String, scope: DatabaseScope, payload: [UInt8], in database: Int64
  ) throws -> StoredSubscription
  /// Deletes a subscription and gives the database another `subscriptionEdition`. Does nothing for an unknown key.
  func deleteSubscription(_ key: Int64, in database: Int64) throws
  /// Takes an index into use. Commits maintain it from this one on, and existing records are added after it, a slice at
  /// a time. Returns an index that is in use as it is.
  func makeIndex(_ index: FieldIndex, in database: Int64) throws -> StoredIndex
  /// Takes an index out of use. Its entries are removed after this commit, a slice at a time. Does nothing for an index
  /// that is not in use.
  func dropIndex(_ index: Int64) throws

  /// Stores a redirect, in place of the one of the same duplicate. Avoids chains: a redirect to a duplicate leads to
  /// that one's survivor, and redirects to this duplicate lead to the new survivor.
  /// - Throws: `ContradictingWrite` for a redirect that would lead to itself.
  func put(_ redirect: StoredRedirect, in zone: Int64) throws
  /// Removes a redirect. Does nothing when it does not exist.
  func removeRedirect(of recordName: String, in zone: Int64) throws
  /// Adds to the progress of a zone's pending redirects from before `time` (milliseconds since 1970).
  func note(_ progress: StoredRedirect.Progress, ofPendingRedirectsBefore time: Int64, in zone: Int64) throws

  func makeMirror(
    _ identifier: String, in database: Int64, userRecordName: String, scope: DatabaseScope, modelHash: String,
    configuration: String?,
    deviceName: String?, createdAt: Int64
  ) throws -> StoredMirror
  /// Stores the variable columns of the row.
  func update(_ mirror: StoredMirror) throws
  /// Deletes the store with its history, consumers, events, held back changes and import state. A store made again for
  /// the same user recognizes this one's transactions (`settledTransaction`), and its numbers go on.
  func deleteMirror(_ mirror: Int64) throws
  /// Appends a transaction and raises the store's `lastTransactionNumber` to its number, which must be the next one.
  /// Its `transactionID` must be unused (`transactionNumber`).
  /// - Parameter assets: the assets that its payload names. Each counts as used once until the transaction is purged.
  /// - Throws: `ContradictingWrite`; `MissingAsset` as in `put`.
  func append(_ transaction: StoredTransaction, assets: [Asset], to mirror: Int64) throws
  /// Removes the payloads of transactions up to `number`. The last `SettledTransaction.keptCount` are recognized when
  /// they are sent again (`settledTransaction`). Returns the number of transactions.
  func purgeTransactions(of mirror: Int64, through number: Int64) throws -> Int
  /// Forgets settled transactions that were appended before `cutoff` (milliseconds since 1970), the oldest first, at
  /// most `limit`. Returns their number.
  func forgetTransactions(of mirror: Int64, appendedBefore cutoff: Int64, limit: Int) throws -> Int
  /// Forgets the transactions of stores that were removed before `cutoff` (milliseconds since 1970), at most `limit`.
  /// Returns the number of rows; 0 when none is left.
  func forgetFormerMirrors(removedBefore cutoff: Int64, limit: Int) throws -> Int
  /// Forgets the transactions of all removed stores of a database.
  func forgetFormerMirrors(of database: Int64) throws

  /// Stores a consumer, in place of the one of that name.
  func put(_ consumer: StoredConsumer, of mirror: Int64) throws
  /// Deletes a consumer. Does nothing when it does not exist.
  func deleteConsumer(named name: String, of mirror: Int64) throws

  /// Stores a new event (`number` 0), or an updated one under a new number, so that a reader that has passed the old
  /// number reads the event again. Returns the number. Removes old events, but keeps at least the newest
  /// `StoredEvent.keptCount` of a mirror and the newest of each kind.
  func put(_ event: StoredEvent, of mirror: Int64) throws -> Int64
  /// Events that an earlier owner of the shard began and that never ended, ascending by number, each with its mirror's
  /// key.
  func abandonedEvents(limit: Int) throws -> [(mirror: Int64, event: StoredEvent)]

  /// Holds an object's changes back, in place of those held back before. The store assigns `key`; an existing row keeps
  /// its own.
  /// - Parameter assets: the assets that the changes name. Each counts as used once as long as the changes are held
  ///   back.
  func putQuarantined(_ object: StoredQuarantine, changes: [UInt8], assets: [Asset]) throws
  /// Removes an object's row. Does nothing when it does not exist.
  func removeQuarantined(_ name: String, of mirror: Int64) throws
  /// Sets the time at which objects are retried (milliseconds since 1970). Returns their number.
  func retryQuarantined(_ selection: QuarantineSelection, of mirror: Int64, at time: Int64) throws -> Int

  /// Writes a conflict into its database's journal and returns its number. If its user's part exceeds
  /// `StoredConflict.keptCount` or `keptByteCount`, older entries of that user are removed and counted.
  /// - Parameter assets: the assets that the content names. Each counts as used once as long as the entry exists.
  func appendConflict(_ conflict: StoredConflict, content: [UInt8], assets: [Asset]) throws -> Int64
  /// Sets the state of an entry.
  /// - Parameter time: milliseconds since 1970.
  func settleConflict(_ number: Int64, in database: Int64, as state: Int, at time: Int64) throws
  /// Forgets entries from before `cutoff` (milliseconds since 1970) that wait for no decision, the oldest first, at
  /// most `limit` and about 8 MiB. Returns their number.
  func forgetConflicts(before cutoff: Int64, limit: Int) throws -> Int
  /// Deletes entries of a zone's name from a database's journal, the oldest first, at most `limit` and about 8 MiB.
  /// - Returns: true when none is left.
  func deleteConflicts(of database: Int64, inZone zoneName: String, limit: Int) throws -> Bool
  /// Deletes entries of a database's journal, the oldest first, at most `limit` and about 8 MiB, and what is counted of
  /// removed ones once no entry is left. Returns their number.
  func deleteConflicts(of database: Int64, limit: Int) throws -> Int

  /// Stores an answer under its idempotency key, which must be unused.
  /// - Parameter at: milliseconds since 1970.
  func putOutcome(_ payload: [UInt8], of idempotencyKey: String, at: Int64) throws
  /// Forgets outcomes from before `cutoff` (milliseconds since 1970), the oldest first, at most `limit`. Returns their
  /// number.
  func forgetOutcomes(before cutoff: Int64, limit: Int) throws -> Int
}

extension ShardTransaction {
  /// Deletes a zone for the reason `.deleted`.
  public func deleteZone(_ zone: Int64) throws { try deleteZone(zone, as: .deleted) }

  /// Resets a database: deletes its zones, stores, conflicts and subscriptions, and invalidates its tokens. Indexes
  /// stay.
  /// - Returns: the deleted zones' rows after the deletion.
  public func restart(_ database: Int64, generation: Int64) throws -> [StoredZone] {
    var deleted: [StoredZone] = []
    var last: Int64 = 0
    while case let zones = try self.zones(in: database, after: last, limit: 500), !zones.isEmpty {
      for zone in zones where !zone.isDeleted {
        try deleteZone(zone.key)
        if let row = try self.zone(key: zone.key) { deleted.append(row) }
      }
      // The deleted zones appear again behind the others, and are skipped.
      last = zones.last?.sequence ?? last
    }
    try deleteMirrors(of: database)
    try forgetFormerMirrors(of: database)
    while try deleteConflicts(of: database, limit: 500) > 0 {}
    while case let subscriptions = try self.subscriptions(in: database, afterKey: 0, limit: 500), !subscriptions.isEmpty
    {
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

  public func append(_ transaction: StoredTransaction, to mirror: Int64) throws {
    try append(transaction, assets: [], to: mirror)
  }
}

extension ShardSnapshot {
  /// All pointers to `target`.
  public func references(to target: String, in zone: Int64) throws -> [IncomingReference] {
    try references(to: target, in: zone, limit: .max)
  }

  /// Transactions after `number`, whatever their size.
  public func transactions(of mirror: Int64, after number: Int64, limit: Int) throws -> [StoredTransaction] {
    try transactions(of: mirror, after: number, limit: limit, byteLimit: .max)
  }
}
