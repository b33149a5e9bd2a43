// The smaller answers of the mirror API's store calls, one function each.

import History
public import JSON
import Mirroring
public import ObjectModel
import Records

/// A mirroring event as clients see it (semantics section 11).
public struct MirrorEvent: Sendable {
  public let identifier: String
  /// `setup`, `import`, `export`.
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
    identifier: String, type: String, storeIdentifier: String, startDate: Int64, endDate: Int64?, succeeded: Bool, errorJSON: [UInt8]?, savedCount: Int,
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

/// The objects of an answer that are not lists of changes.
public enum StoreAnswer {
  /// `PUT stores/{id}`
  public static func setup(storeIdentifier: String, historyToken: String) -> [UInt8] {
    object { writer in
      writer.member("storeIdentifier", storeIdentifier)
      writer.member("historyToken", historyToken)
      writer.nullable("importToken", nil)
    }
  }

  /// The refusal of a model the environment doesn't know, with what is missing for it as far as that can be told.
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

  /// `POST transactions`
  /// - Parameter syncToken: with `wait=export`, what covers everything that was exported: for the `caughtUp` of other stores.
  public static func saved(
    _ transactions: [(transactionID: String, number: Int64)], historyToken: String, event: MirrorEvent?, syncToken: String? = nil
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

  public static func reset() -> [UInt8] {
    object { $0.nullable("importToken", nil) }
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

  /// With `resultType=count`.
  public static func eventCount(_ count: Int, last: Int64) -> [UInt8] {
    object { writer in
      writer.member("count", count)
      writer.member("lastEvent", String(last))
    }
  }

  /// - Parameter canModify: of the store; each object is told whether it can be changed and deleted.
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
