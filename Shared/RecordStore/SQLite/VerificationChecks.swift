// The rules that hold between the tables of a shard, as queries that find violations.

import Crypto
import Records

extension ShardVerification {
  /// The name, query and problem text of each rule. The queries select the keys of violating rows.
  static func checks(_ dialect: Dialect) -> [(name: String, text: String, problem: String)] {
    [
      (
        "verifyNames", "SELECT min(id) FROM record GROUP BY zone, name HAVING count(*) > 1",
        "a record's name exists twice"
      ),
      (
        "verifyZoneSequences",
        "SELECT z.id FROM zone z WHERE z.seq < (SELECT max(seq) FROM record r WHERE r.zone = z.id)",
        "a zone's sequence is behind its records'"
      ),
      (
        "verifyDatabaseSequences",
        "SELECT d.id FROM database d WHERE d.seq < (SELECT max(seq) FROM zone z WHERE z.database = d.id)",
        "a database's sequence is behind its zones'"
      ),
      (
        "verifyLiveCounts",
        """
        SELECT z.id FROM zone z WHERE z.live <>
          (SELECT count(*) FROM record r WHERE r.zone = z.id AND r.deleted = 0 AND r.zone NOT IN (SELECT zone FROM \
        doomed))
        """,
        "a zone's count of live records is wrong"
      ),
      (
        "verifyDatabaseBytes",
        """
        SELECT d.id FROM database d WHERE d.bytes <> \
        (SELECT coalesce(sum(bytes), 0) FROM zone z WHERE z.database = d.id)
        """,
        "a database's count of bytes differs from its zones'"
      ),
      (
        "verifyHistoryOfAssets",
        """
        SELECT history FROM history_asset WHERE history NOT IN (SELECT id FROM history) AND history NOT IN (SELECT -id \
        FROM quarantine)
          AND history NOT IN (SELECT -id - \(JournalRowID.offset) FROM journal)
        """,
        "a transaction that uses an asset is missing"
      ),
      (
        "verifyQuarantine",
        "SELECT m.id FROM mirror m WHERE m.quarantined <> (SELECT count(*) FROM quarantine q WHERE q.mirror = m.id)",
        "a mirror's count of held back objects is wrong"
      ),
      (
        "verifyQuarantineMirrors", "SELECT id FROM quarantine WHERE mirror NOT IN (SELECT id FROM mirror)",
        "a held back object's mirror is missing"
      ),
      (
        "verifyRecoveryMirrors",
        """
        SELECT mirror FROM (SELECT mirror FROM syncstate UNION SELECT mirror FROM zonehold UNION SELECT mirror \
        FROM unimported) AS states
          WHERE mirror NOT IN (SELECT id FROM mirror)
        """,
        "the state of imports is kept for a store that is missing"
      ),
      (
        "verifyRecordZones",
        "SELECT id FROM record WHERE zone NOT IN (SELECT id FROM zone UNION SELECT zone FROM doomed)",
        "a record's zone is missing"
      ),
      (
        "verifyPastZones", "SELECT id FROM past WHERE zone NOT IN (SELECT id FROM zone UNION SELECT zone FROM doomed)",
        "a past state's zone is missing"
      ),
      (
        "verifyPastOrder",
        """
        SELECT p.id FROM past p WHERE p.seq >= p.until OR p.zone NOT IN (SELECT zone FROM doomed) AND NOT EXISTS
          (SELECT 1 FROM record r WHERE r.zone = p.zone AND r.name = p.name AND r.seq >= p.until)
        """,
        "a past state is not before its record"
      ),
      (
        "verifyShortGUIDs",
        """
        SELECT source FROM shortGUID WHERE source NOT IN (SELECT id FROM record WHERE deleted = 0) \
        AND zone NOT IN (SELECT zone FROM doomed)
        """,
        "a short GUID's record is missing"
      ),
      (
        "verifyPlacements",
        """
        SELECT r.id FROM record r JOIN zone z ON z.id = r.zone JOIN symbol s ON s.id = r.type \
        JOIN database d ON d.id = z.database
          WHERE d.placed <> \(PlacementState.untracked.rawValue) AND z.deleted = 0 \
        AND \(PlacementQuery.isLookedInLater("z")) AND \(PlacementQuery.isObject("s"))
            AND NOT EXISTS \
        (SELECT 1 FROM placement p WHERE p.database = z.database AND p.name = r.name AND p.zone = z.id)
            AND NOT EXISTS (SELECT 1 FROM unplaced u WHERE u.database = z.database AND u.zone = z.id \
        AND (u.after IS NULL OR u.after < r.name))
        """,
        "an object's record is in a zone where its database does not look for it"
      ),
      (
        "verifyPlacementZones",
        """
        SELECT p.zone FROM placement p LEFT JOIN zone z ON z.id = p.zone LEFT JOIN database d ON d.id = p.database
          WHERE z.id IS NULL OR z.database <> p.database
            OR coalesce(d.placed, 0) IN (\(PlacementState.untracked.rawValue), \(PlacementState.empty.rawValue))
        """,
        "an object's placement is in a missing zone, or of a database without placements"
      ),
      (
        "verifyPlacementStates",
        """
        SELECT d.id FROM database d WHERE (d.placed = \(PlacementState.untracked.rawValue) AND EXISTS (SELECT 1 \
        FROM mirror m WHERE m.database = d.id))
          OR (d.placed <> \(PlacementState.filling.rawValue) AND EXISTS (SELECT 1 FROM unplaced u WHERE u.database = \
        d.id))
        """,
        "a database with a store has no placements, or has all of them and is marked as incomplete"
      ),
      (
        "verifyZoneDatabases", "SELECT id FROM zone WHERE database NOT IN (SELECT id FROM database)",
        "a zone's database is missing"
      ),
      (
        "verifyMirrors",
        """
        SELECT m.id FROM mirror m WHERE m.database NOT IN (SELECT id FROM database)
          OR m.last < coalesce((SELECT max(h.id) & \(HistoryRowID.lastNumber) FROM history h WHERE h.mirror = m.id), 0)
        """,
        "a mirror's database is missing, or it is behind its history"
      ),
      (
        "verifySubscriptions",
        """
        SELECT s.id FROM subscription s LEFT JOIN database d ON d.id = s.database WHERE coalesce(d.subscriptions, 0) = 0
        """,
        "a subscription's database is missing, or does not know that it has any"
      ),
      (
        "verifyEntryIndexes",
        """
        SELECT DISTINCT fieldindex FROM entry WHERE fieldindex NOT IN (SELECT id FROM fieldindex) \
        AND zone NOT IN (SELECT zone FROM doomed)
        """,
        "an index that does not exist has entries"
      ),
      (
        "verifyRedirectZones",
        "SELECT zone FROM redirect WHERE zone NOT IN (SELECT id FROM zone UNION SELECT zone FROM doomed)",
        "a redirect's zone is missing"
      ),
      (
        "verifyRedirectChains",
        """
        SELECT r.zone FROM redirect r WHERE r.loser = r.survivor OR EXISTS (SELECT 1 FROM redirect s \
        WHERE s.zone = r.zone AND s.loser = r.survivor)
        """,
        "a redirect leads to another redirect"
      ),
      (
        "verifyShareZones",
        """
        SELECT s.id FROM share s LEFT JOIN zone z ON z.id = s.zone LEFT JOIN database d ON d.id = z.database
          WHERE s.zone NOT IN (SELECT zone FROM doomed) AND coalesce(d.shared, 0) = 0
        """,
        "a share's zone is missing, or its database does not know that it has any"
      ),
      (
        "verifyInvitationShares",
        """
        SELECT share FROM invitation WHERE share NOT IN (SELECT id FROM share) AND zone NOT IN (SELECT zone FROM doomed)
        """,
        "an invitation's share is missing"
      ),
      (
        "verifyMemberZones",
        """
        SELECT m.database FROM member m WHERE m.since > coalesce(m.until, m.since) OR m.until IS NULL AND NOT EXISTS
          (SELECT 1 FROM zone z JOIN share s ON s.zone = z.id WHERE z.database = m.database AND z.name = m.zone AND \
        z.deleted = 0 AND s.name = m.share
            AND s.active = 1)
        """,
        "a user has access to a zone that is not shared, or their access ended before it began"
      ),
      (
        "verifyShareNews",
        """
        SELECT id FROM sharenews WHERE database NOT IN (SELECT id FROM database) OR seq > (SELECT seq FROM database d \
        WHERE d.id = sharenews.database)
        """,
        "news of a share has no database, or is ahead of it"
      ),
      (
        "verifyIndexDatabases", "SELECT id FROM fieldindex WHERE database NOT IN (SELECT id FROM database)",
        "an index's database is missing"
      ),
      (
        "verifyConflictBytes",
        """
        SELECT j.id FROM journal j WHERE j.bytes <> length(j.payload) - CASE substr(j.payload, 1, 1) \
        WHEN \(dialect.bytes("C1")) THEN \(KeyRing.overhead) ELSE 0 END
          + (SELECT coalesce(sum(a.bytes), 0) FROM history_asset h JOIN asset a ON a.hash = h.hash \
        WHERE h.history = -j.id - \(JournalRowID.offset))
        """,
        "a conflict's count of bytes is wrong"
      ),
      (
        "verifyConflictUse",
        """
        SELECT u.database FROM journal_use u WHERE (u.count, u.bytes) <>
          (SELECT count(*), coalesce(sum(j.bytes), 0) FROM journal j \
        WHERE j.database = u.database AND j."user" = u."user")
        UNION SELECT j.database FROM journal j WHERE NOT EXISTS (SELECT 1 FROM journal_use u \
        WHERE u.database = j.database AND u."user" = j."user")
        """,
        "a database's count of conflicts is wrong"
      ),
      (
        "verifyNumbers",
        """
        SELECT d.id FROM database d WHERE d.conflicts < coalesce((SELECT max(j.number) FROM journal j \
        WHERE j.database = d.id), 0)
          OR EXISTS (SELECT 1 FROM mirror m WHERE m.database = d.id AND d.events < (SELECT max(e.number) FROM event e \
        WHERE e.mirror = m.id))
        """,
        "a database's numbers are behind those of its events or conflicts"
      ),
      (
        "verifyConflictDatabases", "SELECT id FROM journal WHERE database NOT IN (SELECT id FROM database)",
        "a conflict's database is missing"
      ),
      (
        "verifyHistoryMirrors", "SELECT id FROM history WHERE mirror NOT IN (SELECT id FROM mirror)",
        "a transaction's mirror is missing"
      ),
      // Times that ascend and hold for the transactions behind the one before hold for all up to their number.
      (
        "verifyHistoryTimes",
        """
        SELECT t.mirror FROM (SELECT mirror, latest, number, lag(number, 1, 0) OVER ascending AS start,
            lag(latest, 1, latest) OVER ascending AS earlier
          FROM history_time WINDOW ascending AS (PARTITION BY mirror ORDER BY number)) t
        WHERE t.earlier > t.latest OR t.mirror NOT IN (SELECT id FROM mirror)
          OR EXISTS (SELECT 1 FROM history h WHERE h.id > (t.mirror << \(HistoryRowID.numberBits)) + t.start
            AND h.id <= (t.mirror << \(HistoryRowID.numberBits)) + t.number AND h.appended > t.latest)
        """,
        "a time in a store's history is before the time of a transaction up to it, or its mirror is missing"
      ),
      (
        "verifySettledTransactions",
        """
        SELECT s.id FROM settled s WHERE s.id >> \(HistoryRowID.numberBits) <> s.mirror OR NOT EXISTS
          (SELECT 1 FROM (SELECT CASE lineage WHEN 0 THEN id ELSE lineage END AS lineage, forgotten, purged \
        FROM mirror UNION ALL \
        SELECT id, forgotten, last FROM former) o
            WHERE o.lineage = s.mirror AND s.id & \(HistoryRowID.lastNumber) > o.forgotten \
        AND s.id & \(HistoryRowID.lastNumber) <= o.purged)
        """,
        "a settled transaction is of no store, or of one that does not know it"
      ),
      (
        "verifySettledCounts",
        """
        SELECT o.lineage FROM (SELECT CASE lineage WHEN 0 THEN id ELSE lineage END AS lineage, forgotten, purged \
        FROM mirror UNION ALL \
        SELECT id, forgotten, last FROM former) o
          WHERE o.purged - o.forgotten <> (SELECT count(*) FROM settled s WHERE s.mirror = o.lineage)
        """,
        "a store's known transactions are not those that it received and purged"
      ),
      (
        "verifyConsumerMirrors", "SELECT mirror FROM consumer WHERE mirror NOT IN (SELECT id FROM mirror)",
        "a consumer's mirror is missing"
      ),
      (
        "verifyEventMirrors", "SELECT id FROM event WHERE mirror NOT IN (SELECT id FROM mirror)",
        "an event's mirror is missing"
      ),
    ]
  }
}
