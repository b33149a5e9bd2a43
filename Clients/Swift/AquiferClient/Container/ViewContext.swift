// Reads for a user interface: synchronous, on the main actor, in one state that goes on when the interface is ready.

public import ReplicaStore

/// The context of a user interface (`viewContext`). A fetch of a screenful takes less than a millisecond.
@MainActor public final class ViewContext {
  public enum Generation {
    /// The state of now, from now on.
    case current
    /// Each read sees the newest state.
    case unpinned
    case of(QueryGeneration)
  }

  /// Whether the context goes on to the newest state by itself, between two turns of the main actor. If not, call
  /// `refresh`.
  public var automaticallyMergesChangesFromParent = true {
    didSet { if automaticallyMergesChangesFromParent, !oldValue { mergeSoon() } }
  }

  private unowned let container: PersistentContainer
  private var generation: QueryGeneration?
  private var isPinned = true
  /// How far the state goes that was read last.
  private var seen: HistoryToken
  private var listeners: [Int: AsyncStream<ContextChanges>.Continuation] = [:]
  private var nextListener = 0
  private var merging: Task<Void, Never>?
  /// The container is closed.
  private var hasEnded = false

  private init(_ container: PersistentContainer) {
    self.container = container
    seen = container.currentHistoryToken
    let changes = container.remoteChanges()
    merging = Task { [weak self] in
      for await _ in changes { self?.mergeIfWanted() }
      self?.endListening()
    }
  }

  deinit { merging?.cancel() }

  static func of(_ container: PersistentContainer) -> ViewContext {
    if let context = container.view.context { return context }
    let context = ViewContext(container)
    container.view.context = context
    return context
  }

  // MARK: Generations

  /// Goes to another state, and tells what differs.
  /// - Throws: `generationExpired` for a generation that has ended.
  public func setQueryGeneration(from new: Generation) throws(StoreError) {
    switch new {
    case .current: try go(to: container.pin(), isPinned: true)
    case .unpinned: try go(to: container.pin(), isPinned: false)
    case .of(let pinned):
      guard !pinned.isExpired else { throw .generationExpired }
      try go(to: pinned, isPinned: true)
    }
  }

  /// Goes on to the state of now.
  /// - Returns: what differs.
  @discardableResult public func refresh() throws(StoreError) -> ContextChanges {
    try go(to: container.pin(), isPinned: isPinned)
  }

  @discardableResult private func go(to next: QueryGeneration, isPinned: Bool) throws(StoreError) -> ContextChanges {
    let changes = try container.changes(from: seen, at: next)
    seen = next.token
    self.isPinned = isPinned
    generation = isPinned ? next : nil
    if !changes.isEmpty { for listener in listeners.values { listener.yield(changes) } }
    return changes
  }

  private func mergeSoon() { Task { [weak self] in self?.mergeIfWanted() } }

  private func mergeIfWanted() {
    guard automaticallyMergesChangesFromParent else { return }
    // Dropped because the next read meets the same error, and throws it.
    _ = try? refresh()
  }

  // MARK: Reads

  public func fetch<Object>(_ request: FetchRequest<Object>) throws(StoreError) -> [Object] {
    try read { context in try context.fetch(request) }
  }
  public func first<Object>(_ request: FetchRequest<Object>) throws(StoreError) -> Object? {
    try read { context in try context.first(request) }
  }
  public func count<Object>(_ request: FetchRequest<Object>) throws(StoreError) -> Int {
    try read { context in try context.count(request) }
  }
  public func object<Object>(_ id: ObjectID<Object>) throws(StoreError) -> Object? {
    try read { context in try context.object(id) }
  }

  /// Several reads of one state. A state that expired, or is of an account that
  /// has signed out, is replaced by that of now.
  public func read<Value>(_ body: (ReadContext) throws -> Value) throws(StoreError) -> Value {
    do {
      guard isPinned else { return try container.readNow(at: nil, body) }
      if !(generation.map { !$0.isExpired && $0.covers(container.opened) } ?? false) { try refresh() }
      do { return try container.readNow(at: generation, body) } catch StoreError.generationExpired {
        // Since it was looked at.
        try refresh()
        return try container.readNow(at: generation, body)
      }
    } catch { throw StoreError(error) }
  }

  /// What differs, each time the context has gone to another state. Ends when the container closes.
  public var changes: AsyncStream<ContextChanges> {
    let (stream, continuation) = AsyncStream.makeStream(of: ContextChanges.self, bufferingPolicy: .bufferingNewest(100))
    guard !hasEnded else {
      continuation.finish()
      return stream
    }
    nextListener += 1
    let number = nextListener
    listeners[number] = continuation
    continuation.onTermination = { [weak self] _ in Task { @MainActor in self?.listeners[number] = nil } }
    return stream
  }

  private func endListening() {
    hasEnded = true
    for listener in listeners.values { listener.finish() }
  }
}

/// The difference of two states.
public struct ContextChanges: Sendable, Equatable {
  /// Everything is to be read anew (`NSInvalidatedAllObjectsKey`): somebody else signed in, and nothing that was read
  /// before is here any more, history was purged before the context read it, or the context went back to an earlier
  /// state.
  public internal(set) var invalidatedAllObjects = false
  public internal(set) var inserted: Set<AnyObjectID> = []
  public internal(set) var updated: Set<AnyObjectID> = []
  public internal(set) var deleted: Set<AnyObjectID> = []

  var isEmpty: Bool { !invalidatedAllObjects && inserted.isEmpty && updated.isEmpty && deleted.isEmpty }

  mutating func add(_ change: HistoryChange) {
    switch change.kind {
    case .insert:
      if deleted.remove(change.object) == nil { inserted.insert(change.object) } else { updated.insert(change.object) }
    case .update: if !inserted.contains(change.object) { updated.insert(change.object) }
    case .delete:
      updated.remove(change.object)
      if inserted.remove(change.object) == nil { deleted.insert(change.object) }
    }
  }
}

/// Where a container keeps its view's context.
@MainActor final class ViewHolder {
  var context: ViewContext?
  nonisolated init() {}
}

extension PersistentContainer {
  /// The changes that lie between two states.
  fileprivate func changes(from token: HistoryToken, at generation: QueryGeneration) throws(StoreError)
    -> ContextChanges
  {
    do {
      var changes = ContextChanges()
      for store in opened {
        let pin = try generation.pin(of: store)
        var query = HistoryQuery()
        query.after = token.numbers[store.file.identifier]
        query.limit = .max - 1
        guard let after = query.after, after <= pin.number else {
          changes.invalidatedAllObjects = true
          continue
        }
        do {
          let history = try pin.readNow { snapshot in try snapshot.history(query) }
          for transaction in history.transactions { for change in transaction.changes { changes.add(change) } }
        } catch StoreError.historyTokenExpired {
          changes.invalidatedAllObjects = true
        }
      }
      return changes
    } catch { throw StoreError(error) }
  }
}
