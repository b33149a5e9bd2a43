// records/resolve and records/accept in the shard that short GUIDs lead to (wire-protocol 7.4).

import JSON
import RecordStore
import Records
import ServiceBus
import WebServices

/// The worker's part: what a short GUID's record is, told to those who may know.
///
/// No record is shared until shares can be saved, so there is nothing to accept, and only the owner learns what his own short GUID leads to;
/// to everybody else it is one that was never given out.
struct ShareResolution: Sendable {
  let context: PlaneContext
  let request: ResolveShortGUIDs

  /// - Throws: what is wrong with the shard; what is not found is null.
  func answer(from store: any ShardStore) async throws(RecordError) -> [UInt8] {
    let request = request
    let found: [Found?]
    do {
      found = try await store.read { snapshot in try request.items.map { try Self.find($0, for: request, in: snapshot) } }
    } catch {
      throw RecordError(storing: error, log: context.log)
    }
    var output = JSONWriter(reservingByteCount: 512 * (request.items.count + 1))
    output.beginArray()
    for (item, found) in zip(request.items, found) {
      if let found { write(found, as: item, to: &output) } else { output.null() }
    }
    output.endArray()
    return output.bytes
  }

  private struct Found: Sendable {
    let zone: Zone.ID
    let stored: StoredRecord
  }

  private static func find(_ item: ResolveShortGUIDs.Item, for request: ResolveShortGUIDs, in snapshot: any ShardSnapshot) throws -> Found? {
    guard request.purpose == .resolve, let user = request.caller.userRecordName, let found = try snapshot.record(withShortGUID: item.shortGUID),
      let zone = try snapshot.zone(key: found.zone), let database = try snapshot.database(key: zone.databaseKey),
      database.id == DatabaseID(container: request.container, environment: request.environment, owner: user)
    else { return nil }
    return Found(zone: Zone.ID(zoneName: zone.zoneName, ownerName: user), stored: found.record)
  }

  private func write(_ found: Found, as item: ResolveShortGUIDs.Item, to output: inout JSONWriter) {
    let record = found.stored.record
    output.beginObject()
    output.member("containerIdentifier", request.container.rawValue)
    output.member("environment", request.environment.rawValue)
    output.member("databaseScope", "PRIVATE")
    output.key("zoneID")
    found.zone.write(to: &output)
    output.member("rootRecordName", record.recordName)
    // A record that the answer has no room for is looked up by its name.
    if item.fetchesRootRecord, output.bytes.count <= RecordPlaneCall.pageByteCount {
      output.key("rootRecord")
      context.writer(for: found.zone, baseURL: request.baseURL, shard: request.shard).write(
        record, tag: found.stored.tag, as: RecordPresentation(desiredKeys: DesiredKeys(item.desiredKeys), numbersAsStrings: false), to: &output)
    }
    output.key("ownerIdentity")
    output.beginObject()
    output.member("userRecordName", found.zone.ownerName)
    output.endObject()
    output.member("participantType", "OWNER")
    output.member("participantStatus", "ACCEPTED")
    output.member("participantPermission", "READ_WRITE")
    output.key("potentialMatchList")
    output.beginArray()
    output.endArray()
    output.endObject()
  }
}

extension Worker {
  /// - Throws: `BusError`: nothing is wrong with a short GUID that leads nowhere.
  func resolve(_ message: ResolveShortGUIDs) async throws -> [UInt8] {
    let parts = try openParts()
    guard let plane = parts.planes[.record] as? RecordPlane else { throw BusError(.notFound, "this worker has no record plane") }
    do {
      let store = try await parts.host.store(ofShard: message.shard)
      do throws(RecordError) {
        return try await ShareResolution(context: plane.context, request: message).answer(from: store)
      } catch {
        guard error == .shardMoved else { throw error }
        await parts.host.lost(store)
        throw BusError(.notMine, "shard \(store.shard) is no longer held here")
      }
    } catch let error as RecordError {
      throw BusError(error.code == .tryAgainLater ? .overloaded : .internalError, error.reason)
    }
  }
}
