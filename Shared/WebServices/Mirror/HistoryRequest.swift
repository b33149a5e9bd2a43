// What a history call asks for: from where on or up to where, which transactions and changes, and what of them (H3).

public import History
public import Records

/// A place in a store's history, as a call names it.
public enum HistoryPosition: Hashable, Sendable {
  case token(SyncToken)
  /// Milliseconds since 1970, by the server's clock at the save.
  case date(Int64)
  case transactionNumber(Int64)
  case transactionID(String)

  /// Which side of the position is meant: the names of its parameters begin with it.
  public enum Side: String, Sendable {
    case after, before
  }

  /// Reads `after`, `afterDate` or `afterTransaction`, or the same with `before`; nil when none is there. An empty token counts as none.
  /// - Throws: for more than one of them, or a value that can't be a position.
  public init?(_ side: Side, in query: [String: String]) throws(RecordError) {
    let names = [side.rawValue, side.rawValue + "Date", side.rawValue + "Transaction"]
    let given = names.filter { query[$0]?.isEmpty == false }
    guard given.count <= 1 else { throw RecordError(.badRequest, "\(given.joined(separator: " and ")): send only one of them") }
    guard let name = given.first, let text = query[name] else { return nil }
    switch name {
    case names[0]: self = .token(try Self.token(text))
    case names[1]:
      guard let milliseconds = MirrorDate.milliseconds(text) else { throw RecordError(.badRequest, "\(name) must be a date like 2026-11-20T07:33:24.123Z") }
      self = .date(milliseconds)
    default:
      guard let number = Int64(text) else {
        self = .transactionID(text)
        return
      }
      guard number >= 0 else { throw RecordError(.badRequest, "\(name) must be a transaction's number, from 1 on, or its identifier") }
      self = .transactionNumber(number)
    }
  }

  /// A history token: it names one store's history.
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

/// What of a history is answered. The numbers are NSPersistentHistoryResultType's.
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

  /// By name or number.
  public init(_ text: String) throws(RecordError) {
    guard let type = Self.allCases.first(where: { $0.wireName == text || String($0.rawValue) == text }) else {
      throw RecordError(.badRequest, "resultType must be one of \(Self.allCases.map(\.wireName).joined(separator: ", ")), or its number")
    }
    self = type
  }

  /// Whether values of objects are answered, so that a page may be full before its transactions are counted.
  public var hasValues: Bool { self == .changesOnly || self == .transactionsAndChanges }
}

/// A transaction, with those of its changes that were asked for.
public struct FoundTransaction: Sendable {
  public var transaction: HistoryTransaction
  /// Where each change stands among all of the transaction: the second half of its `changeID`.
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

/// Which transactions and changes are wanted; all conditions hold together.
public struct HistoryFilter: Hashable, Sendable {
  public var author: String?
  public var excludedAuthor: String?
  public var contextName: String?
  public var bundleID: String?
  public var processID: String?
  public var entity: String?
  public var objectID: String?
  public var changeType: HistoryChange.ChangeType?
  /// The name of an attribute or relationship that an update touched.
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
    guard let type = HistoryChange.ChangeType(wireName: text) ?? Int(text).flatMap(HistoryChange.ChangeType.init(rawValue:)) else {
      throw RecordError(.badRequest, "changeType must be insert, update or delete, or its number")
    }
    changeType = type
  }

  /// The transaction with the changes that are wanted; nil when nothing of it is. A token advances past it all the same (T-H10).
  public func apply(to transaction: HistoryTransaction) -> FoundTransaction? {
    for (wanted, found) in [
      (author, transaction.author), (contextName, transaction.contextName), (bundleID, transaction.bundleID), (processID, transaction.processID),
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
  /// nil: from the beginning of what is kept, or from where `consumer` stands.
  public let after: HistoryPosition?
  public let filter: HistoryFilter
  public let resultType: HistoryResultType
  /// The registered consumer that asks: by `after` it says what it has dealt with.
  public let consumer: String?
  /// Transactions that are looked at, at most.
  public let limit: Int

  public init(_ query: [String: String]) throws(RecordError) {
    after = try HistoryPosition(.after, in: query)
    filter = try HistoryFilter(query)
    resultType = try query["resultType"].map { text throws(RecordError) in try HistoryResultType(text) } ?? .transactionsAndChanges
    consumer = query["consumer"]
    let maximum = resultType.hasValues ? Self.pageLimit : Self.scanLimit
    guard let text = query["limit"] else {
      limit = maximum
      return
    }
    guard let number = Int(text), number >= 1 else { throw RecordError(.badRequest, "limit must be an integer of at least 1") }
    limit = min(number, maximum)
  }

  /// Transactions of an answer that shows their values.
  public static let pageLimit = 200
  /// Transactions that one call looks at for an answer that shows none.
  public static let scanLimit = 5000
}
