// Opens a store's file: makes it, or brings it to the model, and notices when it is a copy.

import FoundationEssentials
import SQLite

/// What an opened file consists of.
struct OpenedFile {
  let connection: Connection
  let schema: StoreSchema
  let position: MirrorPosition
  let lastNumber: Int64
}

struct StoreOpening {
  let path: String
  let configuration: ReplicaConfiguration
  let model: ManagedObjectModel

  func open() throws -> OpenedFile {
    let connection = try Connection(shared: path, mode: configuration.isReadOnly ? .readOnly : .readWrite)
    if !configuration.isReadOnly {
      let isDurable = configuration.path != nil
      try connection.execute(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=\(isDurable ? "FULL" : "OFF"); PRAGMA temp_store=MEMORY")
    }
    try connection.defineTextFunctions()
    let isNew = try connection.statement(Self.hasMeta).first { $0.int64(0) } == 0
    if configuration.isReadOnly { return try openUnchanged(connection, isNew: isNew) }
    return try connection.transaction {
      isNew ? try make(connection) : try update(connection)
    }
  }

  private func openUnchanged(_ connection: Connection, isNew: Bool) throws -> OpenedFile {
    guard !isNew else { throw StoreError.damaged("\(path) is no store") }
    let meta = Meta(connection)
    let format = try format(meta)
    guard format == Tables.format else {
      throw StoreError.migration(problems: ["the file has format \(format), and it is opened to be read only"])
    }
    let stored: ManagedObjectModel = try meta.value("model")
    guard stored.hash == model.hash else {
      throw StoreError.migration(problems: ["the file has the model \(stored.hash), and it is opened to be read only"])
    }
    return try finish(connection, try schema(stored, FileKeys(connection, canAdd: false)), try meta.value("position"))
  }

  private func make(_ connection: Connection) throws -> OpenedFile {
    try connection.execute(Tables.common)
    let meta = Meta(connection)
    try meta.set("format", Tables.format)
    let schema = try schema(model, FileKeys(connection, canAdd: true))
    for root in schema.roots {
      for sql in Tables.create(root, in: schema) + Tables.indexes(of: root, in: schema) { try connection.execute(sql) }
    }
    for sql in schema.links.flatMap(Tables.create) { try connection.execute(sql) }
    try meta.set("model", model.current)
    let position = MirrorPosition(
      storeIdentifier: configuration.makeIdentifier().uuidString, modelHash: model.hash,
      configuration: configuration.configuration)
    try meta.set("position", position)
    try meta.set("identity", FileIdentity.read(path, machine: configuration.machineIdentifier) ?? "")
    return try finish(connection, schema, position)
  }

  private func update(_ connection: Connection) throws -> OpenedFile {
    let meta = Meta(connection)
    try FormatUpgrade(connection).run(from: try format(meta))
    let stored: ManagedObjectModel = try meta.value("model")
    var position: MirrorPosition = try meta.value("position")
    let keys = try FileKeys(connection, canAdd: true)
    let schema = try schema(model, keys)
    if stored != model.current {
      guard stored.hash == model.hash || model.earlierVersions.contains(where: { $0.hash == stored.hash }) else {
        throw StoreError.unknownModel(hash: stored.hash)
      }
      let earlier = try SchemaBuilder(model: stored, configuration: position.configuration, keys: keys).build()
      try makeMissing(earlier.links, connection)
      try Migration(connection, from: earlier, to: schema, isMirrored: configuration.isMirrored).run()
      try meta.set("model", model.current)
      try runStages(from: stored.hash, connection, schema, position)
    } else {
      try makeMissing(schema.links, connection)
    }
    try EventLog(connection).endInterrupted(at: configuration.now())
    position.adapt(model.hash, configuration.configuration)
    let identity = FileIdentity.read(path, machine: configuration.machineIdentifier) ?? ""
    if configuration.path != nil, try meta.text("identity") != identity {
      position.becomeCopy(configuration.makeIdentifier().uuidString)
      try meta.set("identity", identity)
    }
    try meta.set("position", position)
    return try finish(connection, schema, position)
  }

  /// Makes tables that former versions left out: those of subentities' relationships that have one name.
  private func makeMissing(_ links: [LinkTable], _ connection: Connection) throws {
    for link in links {
      let name = String(link.table.dropFirst().dropLast())
      if try connection.statement(Self.hasTable).binding(name).first({ _ in true }) == nil {
        for sql in Tables.create(link) { try connection.execute(sql) }
      }
    }
  }

  /// Runs the app's steps of the migration; all that they do is one save.
  private func runStages(
    from hash: String, _ connection: Connection, _ schema: StoreSchema, _ position: MirrorPosition
  ) throws {
    let stages = configuration.stages.filter { $0.fromHash == hash }
    guard !stages.isEmpty else { return }
    let contents = ContentFolder("\(path)-contents")
    let save = SaveTransaction(Snapshot(connection, schema, contents: contents), ObjectTables(connection, schema))
    for stage in stages { try stage.body(save) }
    guard !save.isEmpty else { return }
    guard save.contents.isEmpty else {
      throw StoreError.migration(problems: ["a step of a migration can't make contents"])
    }
    try SaveRules(save, isShared: configuration.isShared).check()
    let header = TransactionHeader(
      transactionID: configuration.makeIdentifier().uuidString, timestamp: configuration.now().milliseconds,
      author: MirroringAuthor.migration,
      contextName: nil, bundleID: configuration.bundleID, processID: configuration.processID,
      importToken: position.shownToken)
    _ = try SaveCommit(save, header, isMirrored: configuration.isMirrored).write(
      number: Self.lastNumber(connection) + 1)
  }

  private func format(_ meta: Meta) throws -> Int64 {
    guard let format = try meta.number("format"), (1...Tables.format).contains(format) else {
      throw StoreError.damaged("\(path) has a format that this version does not know")
    }
    return format
  }

  private func schema(_ model: ManagedObjectModel, _ keys: FileKeys) throws -> StoreSchema {
    try SchemaBuilder(model: model, configuration: configuration.configuration, keys: keys).build()
  }

  private func finish(_ connection: Connection, _ schema: StoreSchema, _ position: MirrorPosition) throws -> OpenedFile
  {
    OpenedFile(connection: connection, schema: schema, position: position, lastNumber: try Self.lastNumber(connection))
  }

  /// The number of the latest history transaction.
  static func lastNumber(_ connection: Connection) throws -> Int64 {
    try connection.statement(lastNumber).first { $0.int64(0) } ?? 0
  }

  private static let hasMeta = SQL("has meta", "SELECT count(*) FROM sqlite_master WHERE name = 'meta'")
  private static let hasTable = SQL("has table", "SELECT 1 FROM sqlite_master WHERE name = ?")
  private static let lastNumber = SQL(
    "last number",
    "SELECT max(coalesce((SELECT max(number) FROM history), 0), coalesce((SELECT value FROM meta WHERE key = "
      + "'purgedThrough'), 0))"
  )
}

extension ManagedObjectModel {
  /// Without its earlier versions: what a file keeps.
  var current: ManagedObjectModel { ManagedObjectModel(hash: hash, entities: entities, configurations: configurations) }
}

extension MirrorPosition {
  mutating func adapt(_ modelHash: String, _ configuration: String?) {
    self.modelHash = modelHash
    self.configuration = configuration
  }

  /// The reset of a copied file, which the server has not heard of yet.
  package static let copyReason = "copy"

  /// Two devices of one identifier would hide each other's changes, so a copy begins anew. The server does not tell it
  /// what ended before it knew the new identifier, so the first import is a second copy (K13).
  mutating func becomeCopy(_ identifier: String) {
    let (account, hash, configuration) = (self.account, modelHash, self.configuration)
    self = MirrorPosition(storeIdentifier: identifier, modelHash: hash, configuration: configuration)
    self.account = account
    beginReset(Self.copyReason)
  }
}

/// The table of single values.
struct Meta {
  private let connection: Connection

  init(_ connection: Connection) { self.connection = connection }

  func set(_ key: String, _ number: Int64) throws { try connection.statement(Self.insert).binding(key, number).run() }
  func set(_ key: String, _ text: String) throws { try connection.statement(Self.insert).binding(key, text).run() }
  func set(_ key: String, _ value: some Encodable) throws {
    try connection.statement(Self.insert).binding(key, [UInt8](try JSONEncoder().encode(value))).run()
  }

  func number(_ key: String) throws -> Int64? {
    try connection.statement(Self.select).binding(key).first { $0.int64(0) }
  }
  func text(_ key: String) throws -> String? { try connection.statement(Self.select).binding(key).first { $0.text(0) } }

  func value<Value: Decodable>(_ key: String) throws -> Value {
    guard let bytes = try connection.statement(Self.select).binding(key).first({ $0.blob(0) }) else {
      throw StoreError.damaged("the file has no \(key)")
    }
    do { return try JSONDecoder().decode(Value.self, from: Data(bytes)) } catch {
      throw StoreError.damaged("the file's \(key) can't be read")
    }
  }

  private static let insert = SQL("set meta", "INSERT OR REPLACE INTO meta(key, value) VALUES (?, ?)")
  private static let select = SQL("get meta", "SELECT value FROM meta WHERE key = ?")
}

/// The numbers of a file's names.
final class FileKeys: NameKeys {
  private let connection: Connection
  private let canAdd: Bool

  init(_ connection: Connection, canAdd: Bool) throws {
    self.connection = connection
    self.canAdd = canAdd
  }

  func entityKey(_ name: String) throws(StoreError) -> Int64 {
    try key(
      SQL("entity key", "SELECT key FROM entity WHERE name = ?"),
      SQL("add entity", "INSERT INTO entity(name) VALUES (?)"), name
    ) { statement in try statement.binding(name) }
  }

  func propertyKey(root: String, _ name: String) throws(StoreError) -> Int64 {
    try key(
      SQL("property key", "SELECT key FROM property WHERE root = ? AND name = ?"),
      SQL("add property", "INSERT INTO property(root, name) VALUES (?, ?)"),
      "\(root).\(name)"
    ) { statement in try statement.binding(root, name) }
  }

  private func key(_ find: SQL, _ add: SQL, _ name: String, _ bind: (Statement) throws -> Statement) throws(StoreError)
    -> Int64
  {
    do {
      if let key = try bind(try connection.statement(find)).first({ $0.int64(0) }) { return key }
      guard canAdd else { throw StoreError.migration(problems: ["the file does not know \(name)"]) }
      try bind(try connection.statement(add)).run()
      return connection.lastInsertRowID
    } catch { throw storeError(error) }
  }
}
