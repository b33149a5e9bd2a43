// Saves: which store they go to, and what they answer.

public import ReplicaStore

/// What a save answers.
public struct Saved<Value: Sendable>: Sendable {
  public let value: Value
  /// Of the store's history; that of the latest one if the save changed nothing.
  public let transactionNumber: Int64
  /// Covers the save.
  public let token: HistoryToken
}

extension PersistentContainer {
  /// Runs `body` on a store's one writer. When it returns, what it did is one history transaction, and durable before
  /// this answers.
  /// - Parameters:
  ///   - store: nil: the private store, unless what `body` names first is in another one (`assign(_:to:)`); `body` is
  ///     run again there, before it has changed anything.
  ///   - generation: what the edit is based on. Properties that changed since are conflicts, which the merge policy
  ///     settles.
  /// - Throws: what `body` throws; `validation` with all problems at once, `zones` (134060), `noZone` (2988),
  ///   `permission` (10), `conflicts`, `full`. Nothing is saved then.
  @discardableResult public func save<Value: Sendable>(
    in store: PersistentStore? = nil, author: String? = nil, contextName: String? = nil,
    basedOn generation: QueryGeneration? = nil,
    mergePolicy: MergePolicy = .mergeByPropertyObjectTrump, _ body: @escaping @Sendable (SaveContext) throws -> Value
  ) async throws -> Saved<Value> {
    var options = SaveOptions()
    options.author = author
    options.contextName = contextName
    options.mergePolicy = mergePolicy
    if let store { return try await save(in: try open(store), options, basedOn: generation, router: nil, body) }
    let writable = opened.filter { !$0.description.isReadOnly }
    guard let first = writable.first(where: { $0.store.scope == .private }) ?? writable.first else {
      throw StoreError.readOnly
    }
    guard writable.count > 1 else { return try await save(in: first, options, basedOn: generation, router: nil, body) }
    do {
      return try await save(
        in: first, options, basedOn: generation, router: StoreRouter(own: first, others: writable), body)
    } catch let other as OtherStore {
      return try await save(in: other.store, options, basedOn: generation, router: nil, body)
    }
  }

  private func save<Value: Sendable>(
    in store: OpenStore, _ options: SaveOptions, basedOn generation: QueryGeneration?, router: StoreRouter?,
    _ body: @escaping @Sendable (SaveContext) throws -> Value
  ) async throws -> Saved<Value> {
    var options = options
    options.base = try generation?.pin(of: store)
    let file = store.file
    let saved = try await file.replica.save(options) { save in
      let context = SaveContext(save, router)
      let result = Result { try body(context) }
      // Whatever the body made of it: nothing was changed, and it begins again elsewhere.
      if let other = router?.other { throw other }
      return try result.get()
    }
    return Saved(
      value: saved.value, transactionNumber: saved.number, token: HistoryToken([file.identifier: saved.number]))
  }
}

/// Thrown to begin a save again in the store where its objects are.
struct OtherStore: Error {
  let store: OpenStore
}
