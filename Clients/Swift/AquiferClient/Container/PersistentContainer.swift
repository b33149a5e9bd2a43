// The stores of an app, and the ways to them: read, save, watch.

import FoundationEssentials
public import ReplicaStore
public import ReplicaSync

/// The stores of an app (`NSPersistentCloudKitContainer`). Everybody may call it from anywhere.
public final class PersistentContainer: Sendable {
  let opened: [OpenStore]
  let view = ViewHolder()
  /// Starts and stops mirroring, and tells how it goes.
  public let sync: SyncEngine

  /// Opens the files; makes them, with their folders, and migrates them. Nothing is sent before `sync.start()`.
  /// - Parameters:
  ///   - logLevel: how much `log` is told.
  ///   - log: takes a line without a line end. No line has a value of an object, a token, or the address of a content.
  /// - Throws: `inUse` (another process writes to a file), `unknownModel` (a version of the model made it that the app
  ///   does not have), `migration` with what can't be inferred, `damaged`, `full`.
  public convenience init(
    _ model: ManagedObjectModel, stores: [StoreDescription], account: Account? = nil,
    logLevel: LogLevel = .requests, log: @escaping @Sendable (String) -> Void = { _ in }
  ) async throws(StoreError) {
    var surroundings = Surroundings.system
    surroundings.log = { level, line in if level <= logLevel { log(line) } }
    try await self.init(
      model, stores: stores, account: account, surroundings: surroundings, transport: SystemTransport.make())
  }

  package init(
    _ model: ManagedObjectModel, stores: [StoreDescription], account: Account?, surroundings: Surroundings,
    transport: any Transport
  ) async throws(StoreError) {
    var opened: [OpenStore] = []
    for description in stores { opened.append(try await OpenStore(description, model, surroundings)) }
    self.opened = opened
    sync = try await SyncEngine(opened, account, surroundings, transport)
  }

  /// Ends mirroring and lets go of the files.
  public func close() async {
    await sync.stop()
    for store in opened { await store.close() }
  }

  public var stores: [PersistentStore] { opened.map(\.store) }

  /// The first store of a database.
  /// - Returns: nil: the container has none.
  public func store(_ scope: DatabaseScope) -> PersistentStore? { opened.first { $0.store.scope == scope }?.store }

  /// Of the view of a user interface: synchronous reads on the main actor, in one state of the stores.
  @MainActor public var viewContext: ViewContext { ViewContext.of(self) }

  func open(_ store: PersistentStore) throws(StoreError) -> OpenStore {
    guard let found = opened.first(where: { $0.store == store }) else {
      throw .invalid("the store is none of this container")
    }
    return found
  }

  // MARK: Read

  /// Runs `body` on a reader's thread, in one state of each store. Readers never wait for the writer, nor it for them.
  /// - Throws: what `body` throws; `generationExpired`.
  public func read<Value: Sendable>(
    at generation: QueryGeneration? = nil, _ body: @escaping @Sendable (ReadContext) throws -> Value
  ) async throws -> Value {
    guard let first = opened.first else { throw StoreError.invalid("the container has no store") }
    let rest = Array(opened.dropFirst())
    let read: @Sendable (Snapshot) throws -> Value = { snapshot in
      try Self.read(rest, at: generation, [StoreSnapshot(first, snapshot)]) { try body(ReadContext($0)) }
    }
    if let generation { return try await generation.pin(of: first).read(read) }
    return try await first.replica.read(read)
  }

  /// For callers that are not tasks.
  func readNow<Value>(at generation: QueryGeneration?, _ body: (ReadContext) throws -> Value) throws -> Value {
    try Self.read(opened, at: generation, []) { try body(ReadContext($0)) }
  }

  /// Opens one store after the other, always in their order, so that two reads never wait for each other.
  static func read<Value>(
    _ stores: [OpenStore], at generation: QueryGeneration?, _ found: [StoreSnapshot],
    _ body: ([StoreSnapshot]) throws -> Value
  ) throws -> Value {
    guard let next = stores.first else { return try body(found) }
    let rest = Array(stores.dropFirst())
    let read: (Snapshot) throws -> Value = { snapshot in
      try Self.read(rest, at: generation, found + [StoreSnapshot(next, snapshot)], body)
    }
    if let generation { return try generation.pin(of: next).readNow(read) }
    return try next.replica.readNow(read)
  }

  public func fetch<Object>(_ request: FetchRequest<Object>) async throws(StoreError) -> [Object] {
    do { return try await read { context in try context.fetch(request) } } catch { throw StoreError(error) }
  }

  public func count<Object>(_ request: FetchRequest<Object>) async throws(StoreError) -> Int {
    do { return try await read { context in try context.count(request) } } catch { throw StoreError(error) }
  }

  /// The state of now, for as long as somebody holds on to it (`NSQueryGenerationToken.current`).
  public func currentQueryGeneration() async throws(StoreError) -> QueryGeneration { try pin() }

  func pin() throws(StoreError) -> QueryGeneration {
    var pins: [UUID: Generation] = [:]
    for store in opened {
      let file = store.file
      pins[file.identifier] = try file.replica.pin()
    }
    return QueryGeneration(pins)
  }
}

/// One state of one store, while it is read.
struct StoreSnapshot {
  let store: OpenStore?
  let snapshot: Snapshot

  init(_ store: OpenStore?, _ snapshot: Snapshot) { (self.store, self.snapshot) = (store, snapshot) }
}

extension StoreError {
  /// What a store threw; anything else comes from a closure of the caller's and can't be told by this type.
  init(_ error: any Error) { self = error as? StoreError ?? .invalid("\(error)") }
}
