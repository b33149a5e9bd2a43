// The request of a history call: its start or end, and the transactions, changes and details that it wants (H3).

public import History
public import Records

/// A position in a store's history, as a call names it.
public enum HistoryPosition: Hashable, Sendable {
  case token(SyncToken)
  /// Milliseconds since 1970, by the server's clock at the save.
  case date(Int64)
  case transactionNumber(Int64)
  case transactionID(String)

  /// The side of the position that a call selects; names of its parameters begin with it.
  public enum Side: String, Sendable {
    case after, before
  }

  /// Reads `after`, `afterDate` or `afterTransaction`, or the same with `before`; nil if none is present. Empty values
  /// count as absent.
  /// - Throws: `BAD_REQUEST` for several of them, or for an invalid value.
  public init?(_ side: Side, in query: [String: String]) throws(RecordError) {
    let names = [side.rawValue, side.rawValue + "Date", side.rawValue + "Transaction"]
    let given = names.filter { query[$0]?.isEmpty == false }
    guard given.count <= 1 else {
      throw RecordError(.badRequest, "\(given.joined(separator: " and ")): send only one of them")
    }
    guard let name = given.first, let text = query[name] else { return nil }
    switch name {
    case names[0]: self = .token(try Self.token(text))
    case names[1]:
      guard let milliseconds = MirrorDate.milliseconds(text) else {
        throw RecordError(.badRequest, "\(name) must be a date like 2026-11-20T07:33:24.123Z")
      }
      self = .date(milliseconds)
    default:
      guard let number = Int64(text) else {
        self = .transactionID(text)
        return
      }
      guard number >= 0 else {
        throw RecordError(.badRequest, "\(name) must be a transaction's number, from 1 on, or its identifier")
      }
      self = .transactionNumber(number)
    }
  }

  /// Reads a history token, which names one store's history.
  public static func token(_ text: String) throws(RecordError) -> SyncToken {
    do throws(SyncToken.Refusal) {
      let token = try SyncToken(text, as: .history)
      guard token.positions.count == 1 else { throw .invalidFormat }
      return token
    } catch {
      throw error.recordError
    }
  }
}

/// The form of a history answer. The raw values are NSPersistentHistoryResultType's.
public enum HistoryResultType: Int, Hashable, Sendable, CaseIterable {
  case statusOnly = 0
  case objectIDs = 1
  case count = 2
  case transactionsOnly = 3
  case changesOnly = 4
  case transactionsAndChanges = 5

  public var wireName: String {
    switch self {
    case .statusOnly: "statusOnly"
    case .objectIDs: "objectIDs"
    case .count: "count"
    case .transactionsOnly: "transactionsOnly"
    case .changesOnly: "changesOnly"
    case .transactionsAndChanges: "transactionsAndChanges"
    }
  }

  /// Reads a name or number.
  public init(_ text: String) throws(RecordError) {
    guard let type = Self.allCases.first(where: { $0.wireName == text || String($0.rawValue) == text }) else {
      throw RecordError(
        .badRequest, "resultType must be one of \(Self.allCases.map(\.wireName).joined(separator: ", ")), or its number"
      )
    }
    self = type
  }

  /// True if answers contain objects' values, so that a page may fill up before it has `limit` transactions.
  public var hasValues: Bool { self == .changesOnly || self == .transactionsAndChanges }
}

/// A transaction with those of its changes that match the request.
public struct FoundTransaction: Sendable {
  public var transaction: HistoryTransaction
  /// The index of each change among all changes of the transaction: the second half of its `changeID`.
  public let places: [Int]

  public init(_ transaction: HistoryTransaction) {
    self.transaction = transaction
    places = Array(transaction.changes.indices)
  }

  fileprivate init(_ transaction: HistoryTransaction, places: [Int]) {
    self.transaction = transaction
    self.transaction.changes = places.map { transaction.changes[$0] }
    self.places = places
  }
}

/// The conditions on transactions and changes; all must hold.
public struct HistoryFilter: Hashable, Sendable {
  public var author: String?
  public var excludedAuthor: String?
  public var contextName: String?
  public var bundleID: String?
  public var processID: String?
  public var entity: String?
  public var objectID: String?
  public var changeType: HistoryChange.ChangeType?
  /// The name of an attribute or relationship that an update set.
  public var updatedProperty: String?

  public init() {}

  /// - Throws: `BAD_REQUEST` for an unknown `changeType`.
  public init(_ query: [String: String]) throws(RecordError) {
    author = query["author"]
    excludedAuthor = query["excludeAuthor"]
    contextName = query["contextName"]
    bundleID = query["bundleID"]
    processID = query["processID"]
    entity = query["entity"]
    objectID = query["objectID"]
    updatedProperty = query["updatedProperty"]
    guard let text = query["changeType"] else { return }
    guard
      let type = HistoryChange.ChangeType(wireName: text) ?? Int(text).flatMap(HistoryChange.ChangeType.init(rawValue:))
    else {
      throw RecordError(.badRequest, "changeType must be insert, update or delete, or its number")
    }
    changeType = type
  }

  /// The transaction with the changes that are wanted; nil when nothing of it is. A token advances past it all the same
  /// (T-H10).
  public func apply(to transaction: HistoryTransaction) -> FoundTransaction? {
    for (wanted, found) in [
      (author, transaction.author), (contextName, transaction.contextName), (bundleID, transaction.bundleID),
      (processID, transaction.processID),
    ] where wanted != nil && wanted != found { return nil }
    if let excludedAuthor, transaction.author == excludedAuthor { return nil }
    guard asksForChanges else { return FoundTransaction(transaction) }
    let places = transaction.changes.indices.filter { matches(transaction.changes[$0]) }
    return places.isEmpty ? nil : FoundTransaction(transaction, places: places)
  }

  private var asksForChanges: Bool { entity != nil || objectID != nil || changeType != nil || updatedProperty != nil }

  private func matches(_ change: HistoryChange) -> Bool {
    if let entity, change.entity != entity { return false }
    if let objectID, change.objectID != objectID { return false }
    if let changeType, change.changeType != changeType { return false }
    if let updatedProperty, !change.updatedProperties.contains(updatedProperty) { return false }
    return true
  }
}

/// `GET history`
public struct HistoryRequest: Hashable, Sendable {
  /// nil: the beginning of the kept history, or the position of `consumer`.
  public let after: HistoryPosition?
  public let filter: HistoryFilter
  public let resultType: HistoryResultType
  /// The registered consumer that asks; `after` reports the position up to which it has processed the history.
  public let consumer: String?
  /// The number of transactions to look at, at most.
  public let limit: Int

  public init(_ query: [String: String]) throws(RecordError) {
    after = try HistoryPosition(.after, in: query)
    filter = try HistoryFilter(query)
    resultType =
      try query["resultType"].map { text throws(RecordError) in try HistoryResultType(text) } ?? .transactionsAndChanges
    consumer = query["consumer"]
    let maximum = resultType.hasValues ? Self.pageLimit : Self.scanLimit
    guard let text = query["limit"] else {
      limit = maximum
      return
    }
    guard let number = Int(text), number >= 1 else {
      throw RecordError(.badRequest, "limit must be an integer of at least 1")
    }
    limit = min(number, maximum)
  }

  /// Transactions in an answer that contains values.
  public static let pageLimit = 200
  /// Transactions that one call looks at for an answer without values.
  public static let scanLimit = 5000
}
