// Tells a participant's device which of its saved objects are lost for good: the home's journal is the feed.

import JSON
import Mirroring
import ObjectPlane
import RecordStore
import Records
import ServiceBus
import WebServices
import ZoneCommit

/// Deletions of objects that a shared store saved and lost.
struct SharedLosses: Sendable {
  struct Loss: Sendable {
    let objectID: String
    let entity: String
    let zone: Zone.ID
  }

  var gone: [Loss] = []
  /// The client's position in the journal; nil before the first entry.
  var position: SyncToken?
  var moreComing = false
  /// False when an owner did not answer who may have one of the objects.
  var isComplete = true
}

extension SharedHome {
  /// Journal entries examined for one page.
  private static let lossLimit = 200

  private struct JournalPage: Sendable {
    var entries: [StoredConflict] = []
    /// Objects with saved changes that still wait.
    var pending: Set<String> = []
    /// Of the user's database.
    var incarnation: UInt64 = 0
  }

  /// Finds objects with journal entries after a position that the user no longer sees: the device that has them learns
  /// of their end only here. An object with waiting changes is left out: giving those up writes another entry.
  /// - Parameter position: of an import token; nil: from the beginning.
  func losses(after position: SyncToken?, limit: Int, in store: any ShardStore) async throws(RecordError)
    -> SharedLosses
  {
    let mirror = mirror
    var losses = SharedLosses(position: position)
    let found: JournalPage
    do {
      found = try await store.read { snapshot -> JournalPage in
        guard let database = try snapshot.database(key: mirror.databaseKey),
          let current = try snapshot.mirror(key: mirror.key)
        else { return JournalPage() }
        let known = position?.positions.first { $0.incarnation == database.incarnation }?.sequence ?? 0
        let filter = ConflictFilter(userRecordName: mirror.userRecordName)
        let page = try snapshot.conflicts(
          in: database.key, afterNumber: known, filter, limit: min(limit, Self.lossLimit))
        if page.isEmpty { return JournalPage() }
        return JournalPage(
          entries: page, pending: try SharedPending(of: current, in: snapshot).objects,
          incarnation: database.incarnation)
      }
    } catch {
      throw RecordError(storing: error, log: context.log)
    }
    guard let last = found.entries.last else { return losses }
    var seen: Set<String> = []
    let own = found.entries.filter {
      $0.deviceID == mirror.deviceID && SharedZoneName.zone($0.zoneName) != nil && seen.insert($0.recordName).inserted
    }
    let (places, away) = try await located(own.map(\.recordName))
    guard away.isEmpty || own.allSatisfy({ places.objects[$0.recordName] != nil }) else {
      losses.isComplete = false
      return losses
    }
    for entry in own where !places.isThere(entry.recordName) && !found.pending.contains(entry.recordName) {
      guard let zone = SharedZoneName.zone(entry.zoneName) else { continue }
      losses.gone.append(SharedLosses.Loss(objectID: entry.recordName, entity: entry.entity, zone: zone))
    }
    losses.position = SyncToken(.importBatch, incarnation: found.incarnation, sequence: last.number)
    losses.moreComing = found.entries.count == min(limit, Self.lossLimit)
    return losses
  }
}

extension SharedLosses.Loss {
  /// The loss in the form of an import's deletion.
  var json: [UInt8] {
    var writer = JSONWriter()
    writer.beginObject()
    writer.member("changeType", "delete")
    writer.member("entity", entity)
    writer.member("objectID", objectID)
    writer.key("zoneID")
    zone.write(to: &writer)
    writer.endObject()
    return writer.bytes
  }
}
