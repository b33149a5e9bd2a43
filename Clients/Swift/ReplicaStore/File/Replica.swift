// One store: its file, the writer, the readers, and everybody who wants to hear of commits.

package import FoundationEssentials
import SQLite

/// A store that is open. Saves run one after the other on the writer's thread; reads never wait for them.
package final class Replica: Sendable {
  package let schemaHash: String
  let schema: StoreSchema
  let configuration: ReplicaConfiguration
  let writer: Lane<Writer>
  let hub: CommitHub
  let contents: ContentFolder
  let path: String
  /// nil: the app named a file.
  private let temporary: TemporaryFolder?
  private let readers: ReaderPool
  private let pins: PinBoard

  /// Opens the file, and makes or migrates it if need be.
  /// - Throws: `inUse`, `unknownModel`, `migration`, `damaged`, `full`; the file is unchanged then.
  package static func open(_ configuration: ReplicaConfiguration, _ model: ManagedObjectModel) async throws(StoreError)
    -> Replica
  {
    let result: Result<Replica, StoreError> = await withCheckedContinuation { continuation in
      opening.post { _ in
        continuation.resume(returning: Result { try Replica(configuration, model) }.mapError(storeError))
      }
    }
    return try result.get()
  }

  /// Opening blocks, so it has a thread of its own.
  private static let opening = Lane("aquifer.opening", ())
  /// One store after the other.
  private static let sweeping = Lane("aquifer.sweeping", ())

  var sweep: ContentSweep { ContentSweep(contents: contents, writer: writer) }

  private init(_ configuration: ReplicaConfiguration, _ model: ManagedObjectModel) throws {
    let temporary =
      configuration.path == nil
      ? try TemporaryFolder(in: configuration.temporaryFolder, configuration.makeIdentifier()) : nil
    let path = configuration.path ?? temporary?.storePath ?? ""
    if !configuration.isReadOnly { try ContentFile.makeFolder(of: path) }
    let lock = configuration.isReadOnly || configuration.path == nil ? nil : try FileLock("\(path)-lock")
    let file = try StoreOpening(path: path, configuration: configuration, model: model).open()
    let contents = ContentFolder("\(path)-contents")
    let hub = CommitHub()
    let pins = PinBoard()
    let schema = file.schema
    self.path = path
    self.temporary = temporary
    self.configuration = configuration
    self.schema = schema
    self.contents = contents
    self.hub = hub
    self.pins = pins
    schemaHash = model.hash
    readers = ReaderPool {
      Lane("aquifer.reader", try Reader(path: path, schema, contents: contents))
    }
    writer = Lane("aquifer.writer", Writer(file, configuration, contents, hub, pins, lock: lock))
    // Nobody waits for it.
    if lock != nil { Self.sweeping.post { [sweep, configuration] _ in configuration.didSweep(sweep.run()) } }
    if temporary != nil {
      Self.sweeping.post { [configuration] _ in
        TemporaryFolder.removeAbandoned(in: configuration.temporaryFolder, now: configuration.now().milliseconds)
      }
    }
  }

  deinit {
    hub.close()
    writer.post(closing)
  }

  /// Ends the writer and lets go of the file. Saves throw `closed` from now on; pinned generations stay readable. Twice
  /// is once.
  package func close() async {
    hub.close()
    let closing = closing
    // Closing throws nothing.
    try? await writer.run(closing)
  }

  private var closing: @Sendable (Writer) -> Void {
    { [temporary] writer in
      writer.close()
      temporary?.remove()
    }
  }

  // MARK: Saves

  /// Runs `body` in one commit. What it did is one history transaction, and durable when this answers.
  /// - Throws: what `body` throws; `validation`, `conflicts`, `zones`, `noZone`, `permission`, `full`. Nothing is
  ///   saved then.
  package func save<Value: Sendable>(
    _ options: SaveOptions, _ body: @escaping @Sendable (SaveTransaction) throws -> Value
  ) async throws -> (value: Value, number: Int64) {
    try await writer.run { writer in
      do { return try writer.save(options, body) } catch let error as SQLiteError { throw storeError(error) }
    }
  }

  /// A commit of the store's own.
  func write<Value: Sendable>(_ body: @escaping @Sendable (Writer, inout Writer.Outcome) throws -> Value)
    async throws(StoreError) -> Value
  {
    do { return try await writer.run { writer in try writer.commit { try body(writer, &$0) } } } catch {
      throw storeError(error)
    }
  }

  // MARK: Reads

  package func read<Value: Sendable>(_ body: @escaping @Sendable (Snapshot) throws -> Value) async throws -> Value {
    do { return try await readers.read(body) } catch let error as SQLiteError { throw storeError(error) }
  }

  /// For callers that are not tasks.
  package func readNow<Value>(_ body: (Snapshot) throws -> Value) throws -> Value {
    do { return try readers.readNow(body) } catch let error as SQLiteError { throw storeError(error) }
  }

  /// Pins the state of now. It waits for nobody: the pinned state itself tells which one it is.
  package func pin() throws(StoreError) -> Generation {
    do {
      let reader = try Reader(path: path, schema, contents: contents)
      try reader.begin()
      let number = try StoreOpening.lastNumber(reader.snapshot.connection)
      let position: MirrorPosition = try Meta(reader.snapshot.connection).value("position")
      let lane = writer
      let generation = Generation(
        number: number, position, Lane("aquifer.generation", reader), hub
      ) {
        lane.post { $0.checkpoint() }
      }
      pins.add(generation)
      return generation
    } catch { throw storeError(error) }
  }

  // MARK: Commits

  package var lastNumber: Int64 { hub.lastNumber }
  package func commits() -> AsyncStream<Commit> { hub.commits() }

  /// - Parameter note: runs on the writer's thread after each commit, so it only takes notes.
  /// - Returns: a number to stop with.
  package func observe(_ note: @escaping @Sendable (Commit) -> Void, finish: @escaping @Sendable () -> Void) -> Int {
    hub.observe(note, finish: finish)
  }
  package func stopObserving(_ number: Int) { hub.remove(number) }

  package func entityNames() -> Set<String> { Set(schema.entities.keys) }

  /// As if everything changed: for those who saw another store until now.
  package var wholeCommit: Commit {
    Commit(transactionNumber: lastNumber, isImport: true, hasExports: false, entityNames: entityNames())
  }

  /// The entities whose changes can change what a request finds.
  package func watched(_ query: Query) -> Set<String> {
    guard let entity = schema.entities[query.entityName] else { return [] }
    var names: Set<String> = []
    var rest = [entity]
    // Conditions, derived attributes and empty relationships lead further; two steps are enough but for long paths.
    for _ in 0..<2 {
      let reached = rest.flatMap { Array($0.kindNames) + $0.relationships.map(\.destination) }
      rest = reached.filter { names.insert($0).inserted }.compactMap { schema.entities[$0] }
    }
    return query.hasLongPaths ? Set(schema.entities.keys) : names
  }

  /// The store's identifier as the server knows it.
  package func storeIdentifier() async throws(StoreError) -> UUID {
    guard let identifier = UUID(uuidString: try await position().storeIdentifier) else {
      throw .damaged("the store's identifier is no UUID")
    }
    return identifier
  }
  package func setContentFetcher(_ fetch: @escaping @Sendable (String) async throws(StoreError) -> Void) {
    contents.setFetcher(fetch)
  }
}
