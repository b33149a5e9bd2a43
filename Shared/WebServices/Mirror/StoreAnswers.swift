// The smaller answers of the mirror API's store calls, one function each.

import History
public import JSON
public import Mirroring
public import ObjectModel
public import Records

/// A mirroring event as clients see it (V1).
public struct MirrorEvent: Sendable {
  public let identifier: String
  /// `setup`, `import` or `export`.
  public let type: String
  public let storeIdentifier: String
  /// Milliseconds since 1970.
  public let startDate: Int64
  public let endDate: Int64?
  public let succeeded: Bool
  /// The error dictionary as JSON.
  public let errorJSON: [UInt8]?
  public let savedCount: Int
  public let deletedCount: Int

  public init(
    identifier: String, type: String, storeIdentifier: String, startDate: Int64, endDate: Int64?, succeeded: Bool,
    errorJSON: [UInt8]?, savedCount: Int,
    deletedCount: Int
  ) {
    self.identifier = identifier
    self.type = type
    self.storeIdentifier = storeIdentifier
    self.startDate = startDate
    self.endDate = endDate
    self.succeeded = succeeded
    self.errorJSON = errorJSON
    self.savedCount = savedCount
    self.deletedCount = deletedCount
  }

  /// The event as it was when it began: without an end, counts and an error.
  public var begun: MirrorEvent {
    MirrorEvent(
      identifier: identifier, type: type, storeIdentifier: storeIdentifier, startDate: startDate, endDate: nil,
      succeeded: false, errorJSON: nil, savedCount: 0, deletedCount: 0)
  }

  public var json: [UInt8] {
    var writer = JSONWriter()
    write(to: &writer)
    return writer.bytes
  }

  public func write(to writer: inout JSONWriter) {
    writer.beginObject()
    writer.member("identifier", identifier)
    writer.member("type", type)
    writer.member("storeIdentifier", storeIdentifier)
    writer.member("startDate", MirrorDate.text(startDate))
    writer.nullable("endDate", endDate.map(MirrorDate.text))
    writer.member("succeeded", succeeded)
    writer.key("error")
    if let errorJSON { writer.raw(errorJSON) } else { writer.null() }
    writer.key("counts")
    writer.beginObject()
    writer.member("saved", savedCount)
    writer.member("deleted", deletedCount)
    writer.endObject()
    writer.endObject()
  }
}

/// The bodies of answers that are no lists of changes.
public enum StoreAnswer {
  /// `PUT stores/{id}`
  /// - Parameters:
  ///   - lease: the lease's token and its end (milliseconds since 1970), if the client asked for one.
  ///   - accountChange: why the client's store is not the caller's (P2).
  public static func setup(
    storeIdentifier: String, historyToken: String, lease: (token: String, until: Int64)? = nil,
    accountChange: ResetReason? = nil
  ) -> [UInt8] {
    object { writer in
      writer.member("storeIdentifier", storeIdentifier)
      writer.member("historyToken", historyToken)
      writer.nullable("importToken", nil)
      if let lease {
        writer.member("leaseToken", lease.token)
        writer.member("leaseUntil", MirrorDate.text(lease.until))
      }
      guard let accountChange else { return }
      writer.key("accountChange")
      writer.beginObject()
      writer.member("reason", accountChange.name)
      // Objects made without an account go to the user who signs in; objects of another account do not.
      writer.member(
        "action", accountChange == .accountLogin ? ZonePolicy.keepAndReupload.action : ZonePolicy.delete.action)
      if accountChange != .accountLogin { writer.member("cocoaErrorCode", CocoaErrorCode.accountChanged.rawValue) }
      writer.endObject()
    }
  }

  /// The refusal of a model that the environment does not know, with the missing fields as far as they can be told.
  public static func schemaGap(_ gap: [SchemaFieldName], uuid: String) -> [UInt8] {
    object { writer in
      writer.member("uuid", uuid)
      let error = RecordError(.conflict, "The environment does not know this model: push it first")
      error.writeMirrorMembers(to: &writer)
      writer.key("schemaGap")
      writer.beginArray()
      for field in gap {
        writer.beginObject()
        writer.member("recordType", field.recordType)
        writer.nullable("field", field.field)
        writer.endObject()
      }
      writer.endArray()
    }
  }

  /// The refusal of a save that would make duplicates of unique objects.
  /// - Parameter conflicts: at least one; `winner` is the object to use instead, nil if the caller may not know it.
  public static func uniquenessRefusal(
    _ conflicts: [(objectID: String, entity: String, reason: String, winner: String?)], uuid: String
  ) -> [UInt8] {
    object { writer in
      writer.member("uuid", uuid)
      let error = RecordError(
        .uniqueFieldError, conflicts.map { "\($0.entity) \($0.objectID): \($0.reason)" }.joined(separator: "; "))
      error.writeMirrorMembers(to: &writer)
      writer.key("conflicts")
      writer.beginArray()
      for conflict in conflicts {
        writer.beginObject()
        writer.member("objectID", conflict.objectID)
        writer.member("entity", conflict.entity)
        writer.nullable("winner", conflict.winner)
        writer.endObject()
      }
      writer.endArray()
    }
  }

  /// `POST transactions`
  /// - Parameter syncToken: with `wait=export`, a token that covers the export, for other stores' `caughtUp`.
  public static func saved(
    _ transactions: [(transactionID: String, number: Int64)], historyToken: String, event: MirrorEvent?,
    syncToken: String? = nil
  ) -> [UInt8] {
    object { writer in
      writer.member("historyToken", historyToken)
      writer.key("transactions")
      writer.beginArray()
      for transaction in transactions {
        writer.beginObject()
        writer.member("transactionID", transaction.transactionID)
        writer.member("transactionNumber", transaction.number)
        writer.endObject()
      }
      writer.endArray()
      if let event {
        writer.key("event")
        event.write(to: &writer)
      }
      if let syncToken { writer.member("syncToken", syncToken) }
    }
  }

  public static func purged(_ count: Int) -> [UInt8] {
    object { $0.member("deletedTransactions", count) }
  }

  /// `POST reset`
  /// - Parameter through: the position at which the client's new copy is complete, also for `status?caughtUp=`.
  public static func reset(_ reason: ResetReason, through: String) -> [UInt8] {
    object { writer in
      writer.nullable("importToken", nil)
      writer.key("reset")
      writer.beginObject()
      writer.member("reason", reason.name)
      writer.member("through", through)
      writer.endObject()
    }
  }

  /// `POST move`
  /// - Parameter moved: objects that the request moved into the zone, without links.
  public static func moved(_ moved: [String], to zone: Zone.ID) -> [UInt8] {
    object { writer in writeMoved(moved, to: zone, &writer) }
  }

  static func writeMoved(_ moved: [String], to zone: Zone.ID, _ writer: inout JSONWriter) {
    writer.key("zoneID")
    zone.write(to: &writer)
    writer.key("moved")
    writer.beginArray()
    for objectID in moved { writer.string(objectID) }
    writer.endArray()
  }

  /// `POST purge`
  /// - Parameter copies: the copied objects and their copies; nil if the request asked for none.
  public static func purgedZone(_ recordCount: Int, copies: [(objectID: String, copyID: String)]? = nil) -> [UInt8] {
    object { writer in
      writer.member("purged", recordCount)
      guard let copies else { return }
      writer.key("copies")
      writer.beginArray()
      for (objectID, copyID) in copies {
        writer.beginObject()
        writer.member("objectID", objectID)
        writer.member("copyID", copyID)
        writer.endObject()
      }
      writer.endArray()
    }
  }

  /// `POST end` of a zone
  public static func endedZone(_ recordCount: Int) -> [UInt8] { object { $0.member("deleted", recordCount) } }

  /// `POST zones/{zoneName}/resume`
  public static func resumed(_ zone: Zone.ID, _ decision: ZonePolicy) -> [UInt8] {
    object { writer in
      writer.key("zoneID")
      zone.write(to: &writer)
      writer.member("action", decision.action)
      writer.member("recovery", decision.recovery.rawValue)
    }
  }

  public static let empty: [UInt8] = object { _ in }

  /// - Parameter last: the number of the last event, for the next `after`.
  public static func events(_ events: [MirrorEvent], last: Int64, moreComing: Bool) -> [UInt8] {
    object { writer in
      writer.key("events")
      writer.beginArray()
      for event in events { event.write(to: &writer) }
      writer.endArray()
      writer.member("lastEvent", String(last))
      writer.member("moreComing", moreComing)
    }
  }

  /// The answer with `resultType=count`.
  public static func eventCount(_ count: Int, last: Int64) -> [UInt8] {
    object { writer in
      writer.member("count", count)
      writer.member("lastEvent", String(last))
    }
  }

  /// - Parameter canModify: whether the store can be modified; each object has its own answer for changes and deletion.
  public static func permissions(canModify: Bool, objects: [(objectID: String, isAllowed: Bool)]) -> [UInt8] {
    object { writer in
      writer.member("canModify", canModify)
      writer.key("objects")
      writer.beginArray()
      for item in objects {
        writer.beginObject()
        writer.member("objectID", item.objectID)
        writer.member("canUpdate", item.isAllowed)
        writer.member("canDelete", item.isAllowed)
        writer.endObject()
      }
      writer.endArray()
    }
  }

  static func object(_ body: (inout JSONWriter) -> Void) -> [UInt8] {
    var writer = JSONWriter()
    writer.beginObject()
    body(&writer)
    writer.endObject()
    return writer.bytes
  }
}
