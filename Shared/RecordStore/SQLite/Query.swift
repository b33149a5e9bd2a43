// The statements that stores and snapshots run, each under a name and prepared once a connection.

/// A statement. Its case's name is the statement's name in errors.
enum Query: Int, CaseIterable {
  case meta, setMeta, sealingKeys, noteSealingKey
  case symbolText, symbolID, makeSymbol
  case databaseByID, databaseByKey, databasesAfter, makeDatabase, updateDatabase, renewDatabase
  case zoneByName, zoneByKey, zonesAfter, liveZoneCount, makeZone, updateZone, removeZone
  case placements, insertPlacement, assignPlacement, unassignPlacements, settlePlacement, removePlacement, movePlacements, dropPlacements
  case setPlacementState, anyPlacement, fillingDatabases, fillPlacement, makeUnplaced, nextUnplaced, updateUnplaced, moveUnplaced, removeUnplaced, dropUnplaced
  case asset, insertAsset, useAsset, releaseAsset, orphanedAssets, deleteAsset, insertHistoryAsset, historyAssets, deleteHistoryAssets
  case references, sources, sourceCount, insertReference, deleteReference
  case recordByShortGUID, insertShortGUID, deleteShortGUID
  case subscriptionByName, subscriptionsOfUser, subscriptionsAfter, subscriptionCount, insertSubscription, deleteSubscription, updateEdition
  case doomedZones, doomZone, releaseZone, sweepRecords, sweepReferences, sweepShortGUIDs, sweepEntries, sweepRedirects
  case recordsByName, pastStates, firstReplacement, archiveRecord, oldestPast, forgetPast, sweepPast
  case recordByName, recordByRow, recordNames, changes, changesBackwards, recordsOfType, insertRecord, updateRecord, updateRecordAndType
  case liveZone, indexes, indexesAfter, allIndexes, makeIndex, updateIndex, removeIndex, zoneAfterName
  case entriesUp, entriesDown, countEntries, insertEntry, deleteEntry, dropEntries
  case mirrorByIdentifier, mirrorByKey, mirrorsAfter, countMirrors, mirrorsAwaitingExport, makeMirror, updateMirror, deleteMirror
  case transactionByID, transactionsAfter, firstTransactionAt, appendTransaction, purgeTransactions
  case keptTransactionNumber, settledTransaction, settleTransactions, settleTransaction, firstSettledAt, lastSettled, forgetTransactions, noteForgotten
  case formerMirror, oldestFormerMirror, surplusFormerMirror, insertFormerMirror, deleteFormerMirror, noteForgottenOfFormer, forgetFormerMirrors
  case deleteFormerMirrors
  case consumers, putConsumer, deleteConsumer, deleteConsumers
  case eventsAfter, eventsAfterOfKind, latestEvent, abandonedEvents, insertEvent, updateEvent, pruneEvents, deleteEvents
  case quarantinedByName, quarantinedAfter, quarantinedDue, quarantinedPayload, lastQuarantine, nextQuarantineDue, mirrorsWithQuarantine
  case insertQuarantined, updateQuarantined, deleteQuarantined, deleteQuarantine
  case retryQuarantined, retryQuarantinedCause, retryQuarantinedSchema, retryQuarantinedName, deleteHistoryAsset
  case conflictsAfter, conflictsOfName, openConflictsAfter, conflictByNumber, conflictPayload, openConflicts, oldestConflict, oldConflicts
  case surplusConflicts, conflictsOfDatabase, conflictsOfZone, conflictUse, evictedConflicts
  case insertConflict, settleConflict, deleteConflict, putConflictUse, deleteConflictUse
  case syncState, putSyncState, deleteSyncState, zoneHolds, putZoneHold, deleteZoneHold, deleteZoneHolds
  case unimportedAfter, unimportedDue, putUnimported, removeUnimported, deleteUnimported, retryUnimported, retryUnimportedName, renewMirror
  case redirect, redirectsTo, pendingRedirects, zonesWithPendingRedirects, redirectedDatabases, hasRedirects, sharedKeys
  case putRedirect, followRedirect, deleteRedirect, noteRedirects
  case shareByName, shareByRoot, sharesAfter, shareByOneTimeGUID, children, putShare, noteShares, deleteInvitations, insertInvitation
  case membersInZone, membersInDatabase, membersAfter, activeMembers, audience, putMember, newsAfter, insertNews, removeNews
  case departure, putDeparture, removeDeparture, sweepShares, sweepInvitations, sweepDepartures
  case outcome, insertOutcome, lastOutcome, oldOutcomes, forgetOutcomes
  case counts

  var text: String {
    switch self {
    case .meta: "SELECT value FROM meta WHERE key = ?1"
    case .setMeta: "INSERT OR REPLACE INTO meta(key, value) VALUES (?1, ?2)"
    case .sealingKeys: "SELECT id FROM sealing_key"
    case .noteSealingKey: "INSERT OR IGNORE INTO sealing_key(id) VALUES (?1)"

    case .symbolText: "SELECT text FROM symbol WHERE id = ?1"
    case .symbolID: "SELECT id FROM symbol WHERE text = ?1"
    case .makeSymbol: "INSERT INTO symbol(text) VALUES (?1)"

    case .databaseByID: Self.databaseColumns + " WHERE container = ?1 AND environment = ?2 AND owner = ?3"
    case .databaseByKey: Self.databaseColumns + " WHERE id = ?1"
    case .databasesAfter: Self.databaseColumns + " WHERE id > ?1 ORDER BY id LIMIT ?2"
    case .makeDatabase: "INSERT INTO database(id, container, environment, owner, incarnation, seq) VALUES (?1, ?2, ?3, ?4, ?5, ?6)"
    case .renewDatabase: "UPDATE database SET incarnation = ?2, generation = ?3, placed = 0 WHERE id = ?1"
    case .updateDatabase: "UPDATE database SET seq = ?2, bytes = ?3, events = ?4, conflicts = ?5 WHERE id = ?1"

    case .zoneByName: Self.zoneColumns + " WHERE database = ?1 AND name = ?2"
    case .zoneByKey: Self.zoneColumns + " WHERE id = ?1"
    case .zonesAfter: Self.zoneColumns + " WHERE database = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3"
    case .liveZoneCount: "SELECT count(*) FROM zone WHERE database = ?1 AND deleted = 0"
    case .makeZone: "INSERT INTO zone(id, database, name, incarnation, seq, deleted, live, horizon, reason, ended) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?5, ?8, ?9)"
    case .updateZone: "UPDATE zone SET seq = ?2, deleted = ?3, live = ?4, bytes = ?5, horizon = ?6, reason = ?7, ended = ?8 WHERE id = ?1"
    case .removeZone: "DELETE FROM zone WHERE id = ?1"

    case .doomedZones: "SELECT zone FROM doomed ORDER BY zone"
    case .doomZone: "INSERT INTO doomed(zone) VALUES (?1)"
    case .releaseZone: "DELETE FROM doomed WHERE zone = ?1"
    case .sweepRecords: "DELETE FROM record WHERE id IN (SELECT id FROM record WHERE zone = ?1 LIMIT ?2) RETURNING deleted, data"
    case .sweepReferences:
      "DELETE FROM reference WHERE (zone, target, field, source) IN (SELECT zone, target, field, source FROM reference WHERE zone = ?1 LIMIT ?2)"
    case .sweepShortGUIDs: "DELETE FROM shortGUID WHERE guid IN (SELECT guid FROM shortGUID WHERE zone = ?1 LIMIT ?2)"

    case .asset: "SELECT bytes, uses, orphaned FROM asset WHERE hash = ?1"
    case .insertAsset: "INSERT INTO asset(hash, bytes, uses, orphaned) VALUES (?1, ?2, 1, NULL)"
    case .useAsset: "UPDATE asset SET uses = uses + 1, orphaned = NULL WHERE hash = ?1"
    case .releaseAsset: "UPDATE asset SET uses = uses - 1, orphaned = CASE uses WHEN 1 THEN ?2 END WHERE hash = ?1 AND uses > 0"
    case .orphanedAssets: "SELECT hash FROM asset WHERE orphaned < ?1 ORDER BY orphaned LIMIT ?2"
    case .deleteAsset: "DELETE FROM asset WHERE hash = ?1"
    case .insertHistoryAsset: "INSERT INTO history_asset(history, hash) VALUES (?1, ?2)"
    case .historyAssets: "SELECT hash FROM history_asset WHERE history > ?1 AND history <= ?2"
    case .deleteHistoryAssets: "DELETE FROM history_asset WHERE history > ?1 AND history <= ?2"

    case .recordByName: Self.recordColumns + " FROM record WHERE zone = ?1 AND name = ?2"
    case .changes: Self.recordColumns + ", name FROM record WHERE zone = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3"
    case .changesBackwards: Self.recordColumns + ", name FROM record WHERE zone = ?1 AND seq > ?2 AND seq < ?4 ORDER BY seq DESC LIMIT ?3"
    case .recordsOfType: Self.recordColumns + ", name FROM record WHERE zone = ?1 AND name > ?2 AND type = ?3 AND deleted = 0 ORDER BY name LIMIT ?4"
    // The index covers the whole statement.
    case .recordNames: "SELECT id, name, type FROM record INDEXED BY record_name WHERE zone = ?1 AND name > ?2 ORDER BY name"
    case .recordByRow: Self.recordColumns + " FROM record WHERE id = ?1"
    case .insertRecord:
      "INSERT INTO record(zone, name, seq, type, deleted, origin, others, sum, refs, data) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)"
    // Without the type, which hardly ever changes: setting it would also rewrite the index on names.
    case .updateRecord: "UPDATE record SET seq = ?2, deleted = ?4, origin = ?5, others = ?6, sum = ?7, refs = ?8, data = ?9 WHERE id = ?1"
    case .updateRecordAndType:
      "UPDATE record SET seq = ?2, type = ?3, deleted = ?4, origin = ?5, others = ?6, sum = ?7, refs = ?8, data = ?9 WHERE id = ?1"

    case .recordsByName: Self.recordColumns + ", name FROM record WHERE zone = ?1 AND name > ?2 ORDER BY name LIMIT ?3"
    case .pastStates: Self.recordColumns + ", until, at FROM past WHERE zone = ?1 AND name = ?2 AND until > ?3 ORDER BY until LIMIT ?4"
    case .firstReplacement: "SELECT min(until) FROM past WHERE zone = ?1 AND at > ?2"
    case .archiveRecord:
      """
      INSERT INTO past(zone, name, seq, until, at, type, deleted, origin, others, sum, refs, data)
        SELECT zone, name, seq, ?2, ?3, type, deleted, origin, others, sum, refs, data FROM record WHERE id = ?1
      """
    case .oldestPast: "SELECT id, at FROM past ORDER BY id LIMIT ?1"
    case .forgetPast: "DELETE FROM past WHERE id <= ?1 RETURNING zone, until, deleted, data"
    case .sweepPast: "DELETE FROM past WHERE id IN (SELECT id FROM past WHERE zone = ?1 LIMIT ?2) RETURNING deleted, data"

    case .references: "SELECT f.field, r.name FROM reference f JOIN record r ON r.id = f.source WHERE f.zone = ?1 AND f.target = ?2 LIMIT ?3"
    case .sources:
      """
      SELECT DISTINCT r.name FROM reference f CROSS JOIN record r ON r.id = f.source
        WHERE f.zone = ?1 AND f.target = ?2 AND f.field BETWEEN ?3 AND ?4 LIMIT ?5
      """
    case .sourceCount: "SELECT count(DISTINCT source) FROM reference WHERE zone = ?1 AND target = ?2 AND field BETWEEN ?3 AND ?4"
    case .insertReference: "INSERT INTO reference(zone, target, field, source) VALUES (?1, ?2, ?3, ?4)"
    case .deleteReference: "DELETE FROM reference WHERE zone = ?1 AND target = ?2 AND field = ?3 AND source = ?4"

    case .recordByShortGUID: Self.recordColumns + ", name, zone FROM record WHERE id = (SELECT source FROM shortGUID WHERE guid = ?1)"
    case .insertShortGUID: "INSERT OR IGNORE INTO shortGUID(guid, zone, source) VALUES (?1, ?2, ?3)"
    case .deleteShortGUID: "DELETE FROM shortGUID WHERE guid = ?1 AND source = ?2"

    case .subscriptionByName: Self.subscriptionColumns + " WHERE database = ?1 AND user = ?2 AND scope = ?3 AND identifier = ?4"
    case .subscriptionsOfUser:
      Self.subscriptionColumns + " WHERE database = ?1 AND user = ?2 AND scope = ?3 ORDER BY identifier LIMIT ?4"
    case .subscriptionsAfter: Self.subscriptionColumns + " WHERE database = ?1 AND id > ?2 ORDER BY id LIMIT ?3"
    case .subscriptionCount: "SELECT count(*) FROM subscription WHERE database = ?1"
    case .insertSubscription: "INSERT INTO subscription(id, database, user, scope, identifier, sum, payload) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"
    case .deleteSubscription: "DELETE FROM subscription WHERE id = ?1 AND database = ?2"
    case .updateEdition: "UPDATE database SET subscriptions = ?2 WHERE id = ?1"

    case .liveZone, .indexes, .indexesAfter, .allIndexes, .makeIndex, .updateIndex, .removeIndex, .zoneAfterName, .entriesUp, .entriesDown, .countEntries, .insertEntry,
      .deleteEntry, .dropEntries, .sweepEntries:
      indexText
    case .placements, .insertPlacement, .assignPlacement, .unassignPlacements, .settlePlacement, .removePlacement, .movePlacements, .dropPlacements,
      .setPlacementState, .anyPlacement, .fillingDatabases, .fillPlacement, .makeUnplaced, .nextUnplaced, .updateUnplaced, .moveUnplaced, .removeUnplaced, .dropUnplaced:
      placementText
    default: historyText
    }
  }

  private var historyText: String {
    switch self {
    case .mirrorByIdentifier: Self.mirrorColumns + " WHERE database = ?1 AND identifier = ?2"
    case .mirrorByKey: Self.mirrorColumns + " WHERE id = ?1"
    case .mirrorsAfter: Self.mirrorColumns + " WHERE id > ?1 ORDER BY id LIMIT ?2"
    case .countMirrors: "SELECT COUNT(*) FROM mirror WHERE database = ?1 AND user = ?2"
    case .mirrorsAwaitingExport: "SELECT id FROM mirror WHERE exported < last AND id > ?1 ORDER BY id LIMIT ?2"
    case .makeMirror:
      """
      INSERT INTO mirror(id, database, identifier, incarnation, user, scope, model, configuration, device, created, last, exported, purged, lineage, forgotten,
        forgottenAt) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?11, ?11, ?12, ?13, ?14)
      """
    case .updateMirror:
      """
      UPDATE mirror SET user = ?2, scope = ?3, model = ?4, configuration = ?5, device = ?6, created = ?7, last = ?8, exported = ?9, purged = ?10,
        quarantined = ?11, slice = ?12, imported = ?13, lease = ?14 WHERE id = ?1
      """
    case .deleteMirror: "DELETE FROM mirror WHERE id = ?1"

    case .transactionByID: "SELECT id, appended, sum, txid, author, payload FROM history WHERE mirror = ?1 AND txid = ?2"
    case .transactionsAfter: "SELECT id, appended, sum, txid, author, payload FROM history WHERE id > ?1 AND id <= ?2 ORDER BY id LIMIT ?3"
    case .appendTransaction: "INSERT INTO history(id, mirror, appended, sum, txid, author, payload) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"
    case .purgeTransactions: "DELETE FROM history WHERE id > ?1 AND id <= ?2"
    case .firstTransactionAt: "SELECT id FROM history WHERE id > ?1 AND id <= ?2 AND appended >= ?3 ORDER BY id LIMIT 1"

    case .consumers: "SELECT name, number, seen FROM consumer WHERE mirror = ?1 ORDER BY name"
    case .putConsumer: "INSERT OR REPLACE INTO consumer(mirror, name, number, seen) VALUES (?1, ?2, ?3, ?4)"
    case .deleteConsumer: "DELETE FROM consumer WHERE mirror = ?1 AND name = ?2"
    case .deleteConsumers: "DELETE FROM consumer WHERE mirror = ?1"

    case .eventsAfter: Self.eventColumns + " WHERE mirror = ?1 AND number > ?2 ORDER BY number LIMIT ?3"
    case .latestEvent: Self.eventColumns + " WHERE mirror = ?1 AND kind = ?2 ORDER BY number DESC LIMIT 1"
    case .eventsAfterOfKind: Self.eventColumns + " WHERE mirror = ?1 AND number > ?2 AND kind = ?4 ORDER BY number LIMIT ?3"
    case .abandonedEvents:
      """
      SELECT number, kind, started, ended, succeeded, saved, deleted, identifier, error, mirror FROM event WHERE ended IS NULL AND id <= ?1
      ORDER BY id LIMIT ?2
      """
    case .insertEvent:
      "INSERT INTO event(number, mirror, kind, started, ended, succeeded, saved, deleted, identifier, error, id) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)"
    case .updateEvent:
      """
      UPDATE event SET number = ?11, kind = ?3, started = ?4, ended = ?5, succeeded = ?6, saved = ?7, deleted = ?8, identifier = ?9, error = ?10
      WHERE number = ?1 AND mirror = ?2
      """
    case .pruneEvents:
      """
      DELETE FROM event WHERE mirror = ?1 AND number <= (SELECT number FROM event WHERE mirror = ?1 ORDER BY number DESC LIMIT 1 OFFSET ?2)
        AND number NOT IN (SELECT max(number) FROM event WHERE mirror = ?1 GROUP BY kind)
      """
    case .deleteEvents: "DELETE FROM event WHERE mirror = ?1"

    case .outcome: "SELECT payload FROM outcome WHERE key = ?1"
    case .insertOutcome: "INSERT INTO outcome(id, key, payload) VALUES (?1, ?2, ?3)"
    case .lastOutcome: "SELECT max(id) FROM outcome WHERE id >= ?1 AND id < ?2"
    case .oldOutcomes: "SELECT max(id) FROM (SELECT id FROM outcome WHERE id < ?1 ORDER BY id LIMIT ?2)"
    case .forgetOutcomes: "DELETE FROM outcome WHERE id <= ?1"

    case .counts:
      """
      SELECT (SELECT count(*) FROM database), (SELECT count(*) FROM zone WHERE deleted = 0), (SELECT coalesce(sum(live), 0) FROM zone),
        (SELECT count(*) FROM mirror)
      """
    case .syncState, .putSyncState, .deleteSyncState, .zoneHolds, .putZoneHold, .deleteZoneHold, .deleteZoneHolds, .unimportedAfter, .unimportedDue,
      .putUnimported, .removeUnimported, .deleteUnimported, .retryUnimported, .retryUnimportedName, .renewMirror:
      recoveryText
    case .shareByName, .shareByRoot, .sharesAfter, .shareByOneTimeGUID, .children, .putShare, .noteShares, .deleteInvitations, .insertInvitation, .membersInZone,
      .membersInDatabase, .membersAfter, .activeMembers, .audience, .putMember, .newsAfter, .insertNews, .removeNews, .departure, .putDeparture, .removeDeparture,
      .sweepShares, .sweepInvitations, .sweepDepartures:
      sharingText
    case .keptTransactionNumber, .settledTransaction, .settleTransactions, .settleTransaction, .firstSettledAt, .lastSettled, .forgetTransactions, .noteForgotten,
      .formerMirror, .oldestFormerMirror, .surplusFormerMirror, .insertFormerMirror, .deleteFormerMirror, .noteForgottenOfFormer, .forgetFormerMirrors,
      .deleteFormerMirrors:
      settledText
    default: quarantineText
    }
  }

  private static let databaseColumns =
    "SELECT id, container, environment, owner, incarnation, seq, subscriptions, bytes, generation, placed, shared, events, conflicts, gapStart, gapEnd FROM database"
  static let zoneColumns = "SELECT id, database, name, incarnation, seq, deleted, live, bytes, horizon, reason, ended FROM zone"
  private static let subscriptionColumns = "SELECT id, database, user, scope, identifier, sum, payload FROM subscription"
  static let recordColumns = "SELECT id, seq, type, deleted, origin, others, sum, refs, data"
  private static let mirrorColumns =
    "SELECT id, database, identifier, incarnation, user, scope, model, configuration, device, created, last, exported, purged, quarantined, slice, imported, lease, lineage, forgotten, forgottenAt FROM mirror"
  private static let eventColumns = "SELECT number, kind, started, ended, succeeded, saved, deleted, identifier, error FROM event"
}
