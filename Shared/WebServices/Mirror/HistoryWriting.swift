// Persistent history (`GET history`) as JSON.

public import History
import JSON
import Records

/// Collects the transactions of a history answer.
public struct HistoryWriter {
  private var writer: JSONWriter
  private let values: MirrorValueWriter
  private let storeIdentifier: String

  public init(values: MirrorValueWriter, storeIdentifier: String) {
    self.values = values
    self.storeIdentifier = storeIdentifier
    writer = JSONWriter(reservingByteCount: 16 * 1024)
    writer.beginObject()
    writer.key("transactions")
    writer.beginArray()
  }

  /// Bytes written so far.
  public var byteCount: Int { writer.bytes.count }

  /// A transaction as JSON, to be added if there is room for it.
  /// - Parameter token: the position after this transaction.
  public func encoded(_ transaction: HistoryTransaction, number: Int64, token: String) -> [UInt8] {
    StoreAnswer.object { writer in
      writer.member("transactionID", transaction.transactionID)
      writer.member("transactionNumber", number)
      writer.member("timestamp", MirrorDate.text(transaction.timestamp))
      writer.optional("author", transaction.author)
      writer.optional("contextName", transaction.contextName)
      writer.optional("bundleID", transaction.bundleID)
      writer.optional("processID", transaction.processID)
      writer.member("storeID", storeIdentifier)
      writer.member("token", token)
      writer.key("changes")
      writer.beginArray()
      for change in transaction.changes { write(change, to: &writer) }
      writer.endArray()
    }
  }

  public mutating func add(_ encoded: [UInt8]) { writer.raw(encoded) }

  private func write(_ change: HistoryChange, to writer: inout JSONWriter) {
    writer.beginObject()
    writer.member("changeType", change.changeType.wireName)
    writer.member("entity", change.entity)
    writer.member("objectID", change.objectID)
    if change.changeType == .delete {
      writer.key("tombstone")
      values.write(change.tombstone, to: &writer)
    } else {
      writer.key("attributes")
      values.write(change.attributes, to: &writer)
      writer.key("relationships")
      writer.beginObject()
      for relationship in change.relationships { Self.write(relationship, to: &writer) }
      writer.endObject()
    }
    if change.changeType == .update { writer.strings("updatedProperties", change.updatedProperties) }
    writer.endObject()
  }

  private static func write(_ relationship: NamedValue<RelationshipValue>, to writer: inout JSONWriter) {
    switch relationship.value {
    case .toOne(let target): writer.nullable(relationship.name, target)
    case .toMany(let targets): writer.strings(relationship.name, targets)
    case .toManyDelta(let added, let removed):
      writer.key(relationship.name)
      writer.beginObject()
      writer.strings("add", added)
      writer.strings("remove", removed)
      writer.endObject()
    }
  }

  public consuming func finish(historyToken: String, moreComing: Bool) -> [UInt8] {
    writer.endArray()
    writer.member("historyToken", historyToken)
    writer.member("moreComing", moreComing)
    writer.endObject()
    return writer.bytes
  }
}
