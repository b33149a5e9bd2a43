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
  ///   - store: where to save, and the only store that `body` reads then (`assign(_:to:)`). nil: `body` reads all
  ///     stores, and is saved where the objects are that it edits or relates to, else in the private store. If they are
  ///     elsewhere, `body` is run again there, and its first run is forgotten.
  ///   - generation: what the edit is based on. Properties that changed since are conflicts, which the merge policy
  ///     settles.
  /// - Throws: what `body` throws; `validation` with all problems at once, `zones` (134060), `noZone` (2988),
  ///   `permission` (10), `otherStore`, `conflicts`, `full`. Nothing is saved then.
  @discardableResult public func save<Value: Sendable>(
    in store: PersistentStore? = nil, author: String? = nil, contextName: String? = nil,
    basedOn generation: QueryGeneration? = nil,
    mergePolicy: MergePolicy = .mergeByPropertyObjectTrump, _ body: @escaping @Sendable (SaveContext) throws -> Value
  ) async throws -> Saved<Value> {
    var options = SaveOptions()
    options.author = author
    options.contextName = contextName
    options.mergePolicy = mergePolicy
    if let store {
      return try await save(in: try open(store), options, basedOn: generation, isNamed: true, isBound: true, body)
    }
    let writable = opened.filter { !$0.description.isReadOnly }
    guard let first = writable.first(where: { $0.store.scope == .private }) ?? writable.first else {
      throw StoreError.readOnly
    }
    do {
      return try await save(in: first, options, basedOn: generation, isNamed: false, isBound: false, body)
    } catch let other as OtherStore {
      return try await save(in: other.store, options, basedOn: generation, isNamed: false, isBound: true, body)
    }
  }

  /// - Parameters:
  ///   - isNamed: the caller named the store, so that the save reads no other.
  ///   - isBound: the save does not begin again in another store.
  private func save<Value: Sendable>(
    in store: OpenStore, _ options: SaveOptions, basedOn generation: QueryGeneration?, isNamed: Bool, isBound: Bool,
    _ body: @escaping @Sendable (SaveContext) throws -> Value
  ) async throws -> Saved<Value> {
    var options = options
    options.base = try generation?.pin(of: store)
    let file = store.file
    let rest = opened.filter { $0.store != store.store }
    let run: @Sendable (SaveTransaction) throws -> Value = { save in
      guard !store.isCopied(file) else { throw StoreError.closed }
      let own = StoreSnapshot(store, save.snapshot)
      guard !rest.isEmpty else { return try body(SaveContext(save, nil, readable: [own])) }
      return try Self.read(rest, at: nil, []) { others in
        let router = StoreRouter(own: save.snapshot, others: others, isBound: isBound)
        let context = SaveContext(save, router, readable: isNamed ? [own] : [own] + others)
        let result = Result { try body(context) }
        // Whatever the body made of it: nothing is saved here, and it begins again elsewhere.
        if let other = router.other { throw other }
        return try result.get()
      }
    }
    do {
      let saved = try await file.replica.save(options, run)
      return Saved(
        value: saved.value, transactionNumber: saved.number, token: HistoryToken([file.identifier: saved.number]))
    } catch StoreError.closed where store.isCopied(file) {
      // Somebody else has signed in, and has all that was in the file.
      return try await self.save(in: store, options, basedOn: generation, isNamed: isNamed, isBound: isBound, body)
    }
  }
}
