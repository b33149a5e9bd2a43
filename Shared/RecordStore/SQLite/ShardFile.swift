// A shard's file: how it is made, upgraded and taken over.

import Assets
import Crypto
import Records
import SQLite

/// A shard's file in a store's folder.
struct ShardFile: Sendable {
  let configuration: SQLiteConfiguration
  let shard: Int
  let shardCount: Int
  /// The last known epoch of the shard; 0 when it may never have been opened.
  let knownEpoch: Int64
  /// Of a new file: that of the shard's part, if it is not the shard's number.
  var remainder: Int64?
  var loss = LostEpochs()
  /// Tests of upgrades replace it.
  var changes: [FormatChangeStep] = FormatChangeStep.all

  init(_ configuration: SQLiteConfiguration, shard: Int, shardCount: Int, knownEpoch: Int64 = 0) {
    self.configuration = configuration
    self.shard = shard
    self.shardCount = shardCount
    self.knownEpoch = knownEpoch
  }

  var path: String { configuration.path(ofShard: shard) }

  /// The result of taking a shard over.
  struct Taken {
    let connection: Connection
    let epoch: Int64
    /// True when the file has the raised epoch, durably. False when its disk is full: until a commit finds space, the
    /// shard only serves reads. No other process writes meanwhile, because it does not hold the lock.
    var isRaised = true
    /// nil for a shard that was never divided.
    let part: ShardPart?
    /// True while rows of databases are left that another shard has.
    let isBeingCut: Bool
    /// The division whose new shard may not be opened yet. A file has it only until a restore, as the copy of a
    /// database's shard.
    let pending: PendingSplit?

    fileprivate init(_ connection: Connection, epoch: Int64, isRaised: Bool = true, of file: ShardFile) throws {
      self.connection = connection
      self.epoch = epoch
      self.isRaised = isRaised
      part = try file.part(connection)
      // A migration opens a shard as one of an installation of its own modulus, and must leave the mark.
      isBeingCut = try part != nil && ShardFile.meta(.cut, connection) != nil
      let shard = try ShardFile.meta(.splitShard, connection)
      pending = try ShardFile.meta(.split, connection).flatMap { number in
        shard.map { PendingSplit(shard: Int($0), number: number, cluster: nil) }
      }
    }
  }

  /// Opens the one writing connection, makes or upgrades the file, and raises its epoch by one, durably.
  /// - Throws: `StoreError`; the file is unchanged then.
  func takeOver() throws -> Taken {
    do {
      if knownEpoch > 0, Folder.byteCount(of: path) ?? 0 == 0 {
        throw missing
      }
      let connection = try Connection(exclusive: path, mode: .readWrite)
      let isNew = try configure(connection)
      do {
        let epoch = try connection.transaction {
          try upgrade(connection)
          try checkKeys(connection)
          if let installation = configuration.installation {
            try Self.setMeta(.installation, installation.text, connection)
          }
          try loss.renew(shard, epoch: Self.meta(.epoch, connection) ?? 0, in: .sqlite(connection))
          return try raiseEpoch(connection)
        }
        // Syncs the file's own entry in its folder.
        if isNew { try Folder.sync(configuration.directory) }
        return try Taken(connection, epoch: epoch, of: self)
      } catch let error as SQLiteError where error.isFull && !isNew {
        // On a full disk, a file of an older format cannot be read, because it cannot be upgraded.
        guard Int(try Self.meta(.format, connection) ?? 0) == last, let epoch = try Self.meta(.epoch, connection),
          epoch >= loss.bound
        else { throw error }
        try checkKeys(connection)
        return try Taken(connection, epoch: epoch + 1, isRaised: false, of: self)
      }
    } catch let error as SQLiteError where error.isBusy {
      throw StoreError.io("shard \(shard): another program has \(path) open; close it, and the worker opens the shard")
    } catch let error as SQLiteError {
      throw StoreError(error, shard: shard)
    } catch let error as AssetError {
      throw StoreError(error)
    }
  }

  /// A new connection for reads.
  func reader() throws -> Connection {
    let connection = try Connection(exclusive: path, mode: .readOnly)
    try connection.execute("PRAGMA cache_size=-2000; PRAGMA temp_store=MEMORY")
    return connection
  }

  /// - Returns: true when the file has just been made.
  private func configure(_ connection: Connection) throws -> Bool {
    // Checked before the write-ahead log exists, because a refused file must not be changed.
    let isNew = try refuseForeign(connection)
    try connection.execute("PRAGMA page_size=4096")
    let mode = try connection.statement(SQL("journal_mode", "PRAGMA journal_mode=WAL")).first { $0.text(0) }
    guard mode == "wal" else { throw StoreError.io("\(path) can't have a write-ahead log; is its file system local?") }
    // FULL: every commit is synced before it is acknowledged; with NORMAL, power cuts lose acknowledged writes.
    // No wal_autocheckpoint=0, because that pragma would remove the connection's own hook. secure_delete=FAST
    // overwrites deleted values where that costs no additional page writes.
    try connection.execute(
      """
      PRAGMA synchronous=\(configuration.options.synchronous); PRAGMA cache_size=-8000; PRAGMA temp_store=MEMORY; \
      PRAGMA secure_delete=FAST;
      PRAGMA journal_size_limit=67108864
      """)
    return isNew
  }

  /// - Returns: true when the file is empty.
  private func refuseForeign(_ connection: Connection) throws -> Bool {
    let tables = try connection.statement(SQL("tables", "SELECT name FROM sqlite_master WHERE type = 'table'")).all {
      $0.text(0)
    }
    if tables.isEmpty {
      if knownEpoch > 0 { throw missing }
      return true
    }
    guard tables.contains("meta") else { throw StoreError.corrupt("\(path) is not a shard's file") }
    let format = try Self.meta(.format, connection) ?? 0
    if format > last { throw StoreError.newerFormat(found: Int(format), known: last) }
    try refuseOther(connection)
    let number = try Self.meta(.shard, connection)
    guard number == Int64(shard) else {
      throw StoreError.io("\(path) is shard \(number ?? -1), not \(shard)")
    }
    _ = try part(connection)
    return false
  }

  /// The databases of the shard; nil for one that was never divided.
  /// - Throws: `StoreError.io` for a shard of an installation of another size.
  private func part(_ connection: Connection) throws -> ShardPart? {
    try ShardPart.stored(
      Self.meta(.shardCount, connection) ?? -1, Self.meta(.remainder, connection), ofShard: shard, of: shardCount,
      in: path)
  }

  private var missing: StoreError {
    .foreign(
      """
      shard \(shard): \(path) is missing or empty, and its epoch was \(knownEpoch); is its volume mounted? The worker \
      does not create it again
      """
    )
  }

  /// Refuses an older copy, and a file of another installation.
  private func refuseOther(_ connection: Connection) throws {
    let found = try connection.statement(ShardQuery.meta).binding(MetaKey.installation.rawValue).first { $0.text(0) }
    if let installation = configuration.installation, let found, found != installation.text {
      throw StoreError.foreign(
        "shard \(shard): \(path) belongs to the installation \(found), and this one is \(installation)")
    }
    if try Self.meta(.move, connection) != nil { throw StoreError.moved(shard: shard, from: path) }
    let epoch = try Self.meta(.epoch, connection) ?? 0
    if epoch < knownEpoch {
      throw StoreError.foreign(
        "shard \(shard): \(path) is an older copy: its epoch is \(epoch), and it was opened with \(knownEpoch)")
    }
  }

  private var last: Int { changes.map(\.format).max() ?? 0 }

  /// The one table that every format has.
  static let metaTable = "CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID"

  private func upgrade(_ connection: Connection) throws {
    try connection.execute(Self.metaTable)
    let found = Int(try Self.meta(.format, connection) ?? 0)
    if found == 0 {
      try Self.setMeta(.shard, Int64(shard), connection)
      try Self.setMeta(.shardCount, Int64(shardCount), connection)
      if let remainder { try Self.setMeta(.remainder, remainder, connection) }
    }
    for change in changes where change.format > found {
      for statement in change.statements { try connection.execute(statement) }
      try change.fill?(connection, self)
    }
    if last > found { try Self.setMeta(.format, Int64(last), connection) }
  }

  /// Refuses a shard whose keys are not all there: it could not be read completely, nor written without losing edits.
  private func checkKeys(_ connection: Connection) throws {
    // Tests of upgrades stop at earlier formats.
    guard last >= FormatChange.sealing.rawValue else { return }
    for bytes in try connection.statement(ShardQuery.sealingKeys).all({ $0.blob(0) }) {
      guard let id = KeyRing.ID(bytes: bytes) else {
        throw StoreError.corrupt("shard \(shard): a sealing key has \(bytes.count) bytes")
      }
      if !configuration.keys.contains(id) { throw StoreError.missingKey(id, shard: shard) }
    }
  }

  private func raiseEpoch(_ connection: Connection) throws -> Int64 {
    let epoch = try (Self.meta(.epoch, connection) ?? 0) + 1
    try Self.setMeta(.epoch, epoch, connection)
    return epoch
  }

  static func meta(_ key: MetaKey, _ connection: Connection) throws -> Int64? {
    try connection.statement(ShardQuery.meta).binding(key.rawValue).first { $0.int64(0) }
  }

  static func setMeta(_ key: MetaKey, _ text: String, _ connection: Connection) throws {
    try connection.statement(ShardQuery.setMeta).binding(key.rawValue, text).run()
  }

  static func setMeta(_ key: MetaKey, _ value: Int64, _ connection: Connection) throws {
    try connection.statement(ShardQuery.setMeta).binding(key.rawValue, value).run()
  }
}

extension StoreError {
  /// The store's error for an error of SQLite.
  init(_ error: SQLiteError, shard: Int) {
    let text = "shard \(shard): \(error.description)"
    if error.isFull {
      self = .full(text)
    } else if error.isCorruption {
      self = .corrupt(text)
    } else {
      self = .io(text)
    }
  }
}
