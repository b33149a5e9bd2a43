// Persistent history (`GET history`) as JSON, in the six forms that can be asked for (H3).

import History
import JSON
import Records

/// Collects the transactions of a history answer.
public struct HistoryWriter {
  private var writer: JSONWriter
  private let values: MirrorValueWriter
  private let storeIdentifier: String
  private let resultType: HistoryResultType
  private var transactionCount = 0
  private var changeCount = 0
  /// Objects that the answer lists already.
  private var objectIDs: Set<String> = []

  public init(
    values: MirrorValueWriter, storeIdentifier: String, resultType: HistoryResultType = .transactionsAndChanges
  ) {
    self.values = values
    self.storeIdentifier = storeIdentifier
    self.resultType = resultType
    writer = JSONWriter(reservingByteCount: 16 * 1024)
    writer.beginObject()
    guard let name = resultType.listName else { return }
    writer.key(name)
    writer.beginArray()
  }

  /// The number of bytes written so far.
  public var byteCount: Int { writer.bytes.count }

  /// A transaction's part of the answer, possibly empty, which the caller adds if there is room for it.
  /// - Parameter token: the position after this transaction.
  public func encoded(_ found: FoundTransaction, number: Int64, token: String) -> [UInt8] {
    switch resultType {
    case .statusOnly, .count: []
    case .objectIDs: Array(newObjectIDs(found).map { Self.text($0) }.joined(separator: Self.comma))
    case .transactionsOnly, .transactionsAndChanges: transaction(found, number: number, token: token)
    case .changesOnly:
      Array(
        zip(found.transaction.changes, found.places).map { self.change($0, number: number, place: $1) }.joined(
          separator: Self.comma))
    }
  }

  /// - Parameter encoded: the result of `encoded` for this transaction.
  public mutating func add(_ found: FoundTransaction, _ encoded: [UInt8]) {
    transactionCount += 1
    changeCount += found.transaction.changes.count
    if resultType == .objectIDs { objectIDs.formUnion(found.transaction.changes.map(\.objectID)) }
    // Raw values joined by commas continue a list as one value does.
    if !encoded.isEmpty { writer.raw(encoded) }
  }

  private static let comma = [UInt8(ascii: ",")]

  private func newObjectIDs(_ found: FoundTransaction) -> [String] {
    var known = objectIDs
    return found.transaction.changes.map(\.objectID).filter { known.insert($0).inserted }
  }

  private static func text(_ string: String) -> [UInt8] {
    var writer = JSONWriter()
    writer.string(string)
    return writer.bytes
  }

  private func transaction(_ found: FoundTransaction, number: Int64, token: String) -> [UInt8] {
    let transaction = found.transaction
    return StoreAnswer.object { writer in
      writer.member("transactionID", transaction.transactionID)
      writer.member("transactionNumber", number)
      writer.member("timestamp", MirrorDate.text(transaction.timestamp))
      writer.optional("author", transaction.author)
      writer.optional("contextName", transaction.contextName)
      writer.optional("bundleID", transaction.bundleID)
      writer.optional("processID", transaction.processID)
      writer.member("storeID", storeIdentifier)
      writer.member("token", token)
      guard resultType == .transactionsAndChanges else { return }
      writer.key("changes")
      writer.beginArray()
      for (change, place) in zip(transaction.changes, found.places) {
        writer.beginObject()
        writeMembers(of: change, id: "\(number).\(place)", to: &writer)
        writer.endObject()
      }
      writer.endArray()
    }
  }

  private func change(_ change: HistoryChange, number: Int64, place: Int) -> [UInt8] {
    StoreAnswer.object { writer in
      writer.member("transactionNumber", number)
      writeMembers(of: change, id: "\(number).\(place)", to: &writer)
    }
  }

  private func writeMembers(of change: HistoryChange, id: String, to writer: inout JSONWriter) {
    writer.member("changeID", id)
    values.writeMembers(of: change, to: &writer)
    if change.changeType == .update { writer.strings("updatedProperties", change.updatedProperties) }
  }

  public consuming func finish(historyToken: String, moreComing: Bool) -> [UInt8] {
    if resultType.listName != nil { writer.endArray() }
    if resultType == .statusOnly { writer.member("succeeded", true) }
    if resultType == .count {
      writer.member("count", transactionCount)
      writer.member("changeCount", changeCount)
    }
    writer.member("historyToken", historyToken)
    writer.member("moreComing", moreComing)
    writer.endObject()
    return writer.bytes
  }
}

extension HistoryResultType {
  /// The key of the list that the answer consists of.
  fileprivate var listName: String? {
    switch self {
    case .statusOnly, .count: nil
    case .objectIDs: "objectIDs"
    case .changesOnly: "changes"
    case .transactionsOnly, .transactionsAndChanges: "transactions"
    }
  }
}
