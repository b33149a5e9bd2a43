// Persistent history: reading, named readers, purging.

public import FoundationEssentials
public import ReplicaStore

/// What history to read (`NSPersistentHistoryChangeRequest` and its fetch request).
public struct HistoryRequest: Sendable {
  public var after: HistoryToken?
  public var afterDate: Date?
  /// nil: all.
  public var stores: [PersistentStore]?
  public var authors: [String]?
  public var excludedAuthors: [String] = []
  public var contextNames: [String]?
  public var entityNames: [String]?
  public var changeTypes: Set<HistoryChange.Kind> = [.insert, .update, .delete]
  /// Updates count only if they touch one of these.
  public var updatedProperties: Set<String>?
  /// Transactions of a store that a page looks at.
  public var limit = 200

  public init(after: HistoryToken? = nil) { self.after = after }

  func query(after number: Int64?) -> HistoryQuery {
    var query = HistoryQuery()
    query.after = number
    query.afterDate = afterDate
    query.authors = authors
    query.excludedAuthors = excludedAuthors
    query.contextNames = contextNames
    query.entityNames = entityNames
    query.changeTypes = changeTypes
    query.updatedProperties = updatedProperties
    query.limit = min(max(limit, 1), .max - 1)
    return query
  }
}

/// One save, or one import (`NSPersistentHistoryTransaction`).
public struct HistoryTransaction: Sendable {
  /// The author of imports.
  public static let importAuthor = MirroringAuthor.importing

  public let transactionNumber: Int64
  public let timestamp: Date
  public let author: String?
  public let contextName: String?
  public let bundleID: String?
  public let processID: String?
  public let store: PersistentStore
  /// Covers the transaction, in its store alone.
  public let token: HistoryToken
  public let changes: [HistoryChange]
}

public struct HistoryPage: Sendable {
  /// By time; of one store, in the order in which they happened.
  public let transactions: [HistoryTransaction]
  /// What to read the next page with.
  public let token: HistoryToken
  public let moreComing: Bool
}

extension PersistentContainer {
  /// - Throws: `historyTokenExpired` (134301): what the token missed was purged. Read everything, and begin with the
  ///   token of now.
  public func history(_ request: HistoryRequest) async throws(StoreError) -> HistoryPage {
    let stores = opened.filter { request.stores?.contains($0.store) ?? true }
    return try await page(request, of: stores.map { ($0, $0.file) })
  }

  private func page(_ request: HistoryRequest, of files: [(store: OpenStore, file: OpenStore.File)])
    async throws(StoreError) -> HistoryPage
  {
    var token = request.after ?? HistoryToken()
    var transactions: [HistoryTransaction] = []
    var moreComing = false
    for (store, file) in files {
      let page = try await file.replica.history(request.query(after: token.numbers[file.identifier]))
      transactions += page.transactions.map { HistoryTransaction($0, store.store, file.identifier) }
      token.numbers[file.identifier] = page.number
      moreComing = moreComing || page.moreComing
    }
    transactions.sort { $0.timestamp < $1.timestamp }
    return HistoryPage(transactions: transactions, token: token, moreComing: moreComing)
  }

  /// The token of now.
  public var currentHistoryToken: HistoryToken {
    HistoryToken(Dictionary(uniqueKeysWithValues: opened.map(\.file).map { ($0.identifier, $0.replica.lastNumber) }))
  }

  /// A named reader, whose position each store keeps. It reads until it has caught up, or somebody else signs in: their
  /// file has readers of its own. A page is told once, and again only if the process ends, or `body` throws, before its
  /// position is kept.
  /// - Parameter request: its `after` counts for a name that is new.
  public func consume(
    _ name: String, _ request: HistoryRequest = HistoryRequest(), _ body: @Sendable (HistoryPage) async throws -> Void
  ) async throws {
    for store in opened where request.stores?.contains(store.store) ?? true {
      var own = request
      let file = store.file
      let start = request.after?.numbers[file.identifier]
      var position = try await file.replica.consumerPosition(name, beginningAfter: start)
      while true {
        own.after = HistoryToken([file.identifier: position])
        let page = try await page(own, of: [(store, file)])
        guard store.file.identifier == file.identifier, let number = page.token.numbers[file.identifier],
          number != position
        else { break }
        if !page.transactions.isEmpty { try await body(page) }
        do throws(StoreError) {
          try await file.replica.setConsumer(name, to: number)
        } catch {
          // Somebody else signed in meanwhile. The page is told again when the former account is back.
          guard case .closed = error, store.file.identifier != file.identifier else { throw error }
          break
        }
        position = number
        if !page.moreComing { break }
      }
    }
  }

  /// Forgets a named reader, so that history need not be kept for it.
  public func removeConsumer(_ name: String) async throws(StoreError) {
    for store in opened { try await store.replica.removeConsumer(name) }
  }

  /// Purges history before a date, but nothing that is not exported or that a named reader has not read.
  /// - Parameter force: that too. Readers who missed it get `historyTokenExpired`.
  /// - Returns: how many transactions were purged.
  @discardableResult public func purgeHistory(before date: Date, in store: PersistentStore, force: Bool = false)
    async throws(StoreError) -> Int
  {
    try await open(store).replica.purgeHistory(before: date, force: force)
  }
}

extension HistoryTransaction {
  fileprivate init(_ stored: StoredTransaction, _ store: PersistentStore, _ identifier: UUID) {
    self.init(
      transactionNumber: stored.number, timestamp: stored.timestamp, author: stored.author,
      contextName: stored.contextName, bundleID: stored.bundleID,
      processID: stored.processID, store: store, token: HistoryToken([identifier: stored.number]),
      changes: stored.changes)
  }
}
