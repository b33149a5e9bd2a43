// The one connection that writes to a store, on its own thread: commits, checkpoints, and what follows from them.

import FoundationEssentials
import SQLite

/// Not Sendable: it lives on its lane.
final class Writer {
  let connection: Connection
  let snapshot: Snapshot
  let tables: ObjectTables
  let configuration: ReplicaConfiguration
  let contents: ContentFolder
  let hub: CommitHub
  let pins: PinBoard
  private(set) var position: MirrorPosition
  private(set) var lastNumber: Int64
  /// Pages of the log from which on the next checkpoint is worth its time.
  private var checkpointPages = Writer.pageStep
  private var commitsToPurge = 0
  private var hasLostSync = false
  private var lock: FileLock?
  private var shadowFile: ShadowFile?

  /// The pages of some 300 saves: one of them waits for the checkpoint.
  private static let pageStep = 2000
  /// A log of more pages is emptied.
  private static let longLog = 16_000
  static let pageByteCount = 4096

  var schema: StoreSchema { snapshot.schema }
  var now: Int64 { configuration.now().milliseconds }

  init(
    _ file: OpenedFile, _ configuration: ReplicaConfiguration, _ contents: ContentFolder, _ hub: CommitHub,
    _ pins: PinBoard, lock: FileLock?
  ) {
    connection = file.connection
    snapshot = Snapshot(file.connection, file.schema, contents: contents)
    tables = ObjectTables(file.connection, file.schema)
    position = file.position
    // A reset begins anew with each opening: the second file may have lost what it had.
    if position.resetReason != nil { position.importToken = nil }
    lastNumber = file.lastNumber
    self.configuration = configuration
    self.contents = contents
    self.hub = hub
    self.pins = pins
    self.lock = lock
    hub.begin(at: file.lastNumber)
  }

  /// What a commit did that others hear of.
  struct Outcome {
    /// The number of its history transaction; nil: it has none.
    var number: Int64?
    var isImport = false
    var hasExports = false
    var entityNames: Set<String> = []
    /// nil: unchanged.
    var position: MirrorPosition?
    /// A share of a zone is another one; no history tells that.
    var changesShares = false
    /// The second file is not needed any more once this is committed.
    var endsReset = false
    /// False: no figure of mirroring is another one.
    var changesFigures = true
  }

  /// Runs `body` in one commit, durable when this returns. Nothing is changed when it throws.
  func commit<Value>(_ body: (inout Outcome) throws -> Value) throws -> Value {
    guard !configuration.isReadOnly else { throw StoreError.readOnly }
    guard !hasLostSync else {
      throw StoreError.damaged("the disk failed to keep a save; close the store and open it again")
    }
    var outcome = Outcome()
    let value: Value
    do {
      value = try connection.transaction {
        let value = try body(&outcome)
        if let position = outcome.position, position != self.position { try Meta(connection).set("position", position) }
        return value
      }
    } catch let error as SQLiteError where error.isSyncError {
      // The kernel may have dropped what it could not write, and a later sync would not say so.
      hasLostSync = true
      throw error
    }
    if outcome.changesFigures { hub.noteChange() }
    if let position = outcome.position { self.position = position }
    if let number = outcome.number { lastNumber = number }
    if outcome.endsReset { dropShadow() }
    if outcome.number != nil || outcome.hasExports || outcome.changesShares {
      hub.publish(
        Commit(
          transactionNumber: lastNumber, isImport: outcome.isImport, hasExports: outcome.hasExports,
          entityNames: outcome.entityNames))
    }
    tidy()
    return value
  }

  // MARK: Resets

  /// The second file, which is made when the first page of a reset arrives.
  func shadow(_ path: String) throws -> ShadowFile {
    if let shadowFile { return shadowFile }
    let file = try ShadowFile(beside: path, schema.model, configuration, contents)
    shadowFile = file
    return file
  }

  func dropShadow() {
    shadowFile?.remove()
    shadowFile = nil
  }

  // MARK: Contents

  /// Nobody else writes the contents beside this store. False once it is closed, and when a commit that failed may come
  /// back at the next opening.
  var ownsContents: Bool { lock != nil && !hasLostSync }

  /// The bytes of a content that a row names, here or in the second file.
  func byteCount(ofContent checksum: String) throws -> Int64? {
    try connection.statement(ContentSweep.named).binding(checksum).first { $0.int64(0) }
      ?? shadowFile?.byteCount(ofContent: checksum)
  }

  // MARK: Saves

  func save<Value>(_ options: SaveOptions, _ body: (SaveTransaction) throws -> Value) throws -> (
    value: Value, number: Int64
  ) {
    try commit { outcome in
      let base = options.base.map { base in
        MergeBase(number: base.number, policy: options.mergePolicy) { id in
          try base.readNow { snapshot in
            guard let kind = snapshot.schema.entities[id.entityName] else { return nil }
            return try snapshot.object(id) { row in
              kind.columns.indices.map { row.literal($0 + 1, isName: kind.columns[$0].toOne != nil) }
            }
          }
        }
      }
      let save = SaveTransaction(snapshot, tables, base: base)
      let value = try body(save)
      if let base { try ConflictResolver(base: base, save: save).settle() }
      guard !save.isEmpty else { return (value, lastNumber) }
      let rules = SaveRules(save, isShared: configuration.isShared)
      try rules.check(values: !options.areValuesAccepted, places: !options.isPlaceAccepted)
      try keep(save.contents)
      let number = lastNumber + 1
      let header = TransactionHeader(
        transactionID: configuration.makeIdentifier().uuidString, timestamp: now, author: options.author,
        contextName: options.contextName,
        bundleID: configuration.bundleID, processID: configuration.processID,
        importToken: options.base.map { $0.token(at: position) } ?? position.shownToken)
      let written = try SaveCommit(save, header, isMirrored: configuration.isMirrored).write(number: number)
      outcome.hasExports = written.hasExports
      outcome.entityNames = save.touchedEntities
      guard written.hasHistory else { return (value, lastNumber) }
      outcome.number = number
      return (value, number)
    }
  }

  /// Puts new contents into the folder before the commit that names them.
  private func keep(_ contents: [String: ContentSource]) throws {
    for (checksum, source) in contents.sorted(by: { $0.key < $1.key }) {
      let content: Data
      var isHere = false
      switch source {
      case .data(let data):
        content = data
        isHere = self.contents.localPath(of: ContentName(checksum: checksum, byteCount: Int64(data.count))) != nil
      case .file(let origin):
        content = try ContentFile.contents(of: origin)
        // Before it takes the place of the content that it is said to be.
        guard SHA256.name(of: content) == checksum else {
          throw StoreError.invalid("a file changed before its content was saved")
        }
      }
      if !isHere {
        try self.contents.make()
        try ContentFile.store(content, at: self.contents.path(of: checksum))
      }
      try connection.statement(Self.keepContent).binding(checksum, content.count, now).run()
    }
  }

  // MARK: The log

  /// Copies the log into the file, ends generations that keep too much of it, and purges history.
  private func tidy() {
    pins.endOldest(logByteCount: connection.logPageCount * Self.pageByteCount, limit: configuration.logByteLimit)
    if connection.logPageCount >= checkpointPages { checkpoint() }
    commitsToPurge -= 1
    if commitsToPurge < 0 {
      commitsToPurge = 1000
      // Dropped because the next purge tries again.
      _ = try? connection.transaction {
        try HistoryPurge(connection).purge(before: now - configuration.historyRetention.milliseconds, force: false)
      }
    }
  }

  /// Dropped errors: a checkpoint that fails leaves the log as it is, and the next commit says what is wrong.
  func checkpoint() {
    guard let result = try? connection.checkpoint(.passive) else { return }
    checkpointPages = result.checkpointedPages == result.logPages ? Self.pageStep : result.logPages + Self.pageStep
    // A log that a pin let grow is emptied once nobody reads it.
    if result.checkpointedPages == result.logPages, result.logPages > Self.longLog, pins.isEmpty {
      _ = try? connection.checkpoint(.truncate)
    }
  }

  func close() {
    dropShadow()
    if !configuration.isReadOnly { _ = try? connection.checkpoint(.passive) }
    connection.close()
    lock = nil
  }

  private static let keepContent = SQL(
    "keep content",
    "INSERT INTO content(checksum, byteCount, isHere, isAtServer, usedAt) VALUES (?1, ?2, 1, 0, ?3) ON CONFLICT DO "
      + "UPDATE SET isHere = 1, usedAt = ?3"
  )
}

/// What a save says of itself.
package struct SaveOptions: Sendable {
  package var author: String?
  package var contextName: String?
  /// What the edit is based on.
  package var base: Generation?
  package var mergePolicy = MergePolicy.mergeByPropertyObjectTrump
  /// The values are those of another store, which took them: also of imports, whose values nobody checks.
  var areValuesAccepted = false
  /// The server says what may lead where: pages may not have told yet in which zones the objects lie.
  var isPlaceAccepted = false

  package init() {}
}

extension Duration {
  var milliseconds: Int64 { components.seconds * 1000 + components.attoseconds / 1_000_000_000_000_000 }
}

extension Row {
  /// A column's value; a relationship's as an object.
  package func literal(_ column: Int, isName: Bool) -> Literal {
    guard isName else { return statement.literal(Int32(column)) }
    return isNull(column) ? .null : .object(recordName(column))
  }
}

extension SaveTransaction {
  /// The entities whose objects, or whose pairs, the save touches.
  var touchedEntities: Set<String> {
    var names = Set(orderedEdits.map(\.entity.name))
    for (_, pair) in orderedPairs { names.insert(pair.target.entityName) }
    return names
  }
}
