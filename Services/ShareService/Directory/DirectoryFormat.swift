// The format of the directory's file: tables, format version, and single values.

import MessagePack
import RecordStore
import Records
import SQLite
import ServiceKit

/// A reason not to start: one sentence that tells the operator the remedy.
struct InstallationProblem: Error, Hashable, CustomStringConvertible {
  let description: String
  init(_ description: String) { self.description = description }
}

/// Format changes in order. Opening an older file applies the missing ones.
enum DirectoryFormat: Int64, CaseIterable {
  /// The first format.
  case containersUsersTokensKeysSchemasModels = 1
  /// Passwords, sessions and used signatures; callback URLs of API tokens, users of server keys, users who may be
  /// found.
  case accounts = 2
  /// Custom roles of users, and quotas. Cost: none, the new table is empty and the new column NULL.
  case rolesAndQuotas = 3
  /// The API token of each session. Cost: none, the new column is NULL: earlier sessions end by their time.
  case sessionOrigins = 4
  /// The number of resets of an environment. Cost: none, the new column is 0.
  case generations = 5
  /// Rules of environments, as JSON. Cost: none, the new column is NULL.
  case rules = 6
  /// Users' access to zones of others, and telephone numbers. Cost: none, the new table is empty and the new column
  /// NULL. Workers fill the table when they open their shards.
  case sharedZones = 7
  /// Display names and URLs of apps. Cost: none, the new columns are NULL.
  case apps = 8
  /// Deleted users whose data are being removed. Cost: none, the new table is empty.
  case departures = 9
  /// Epochs of folders and shards in use. Cost: none, the new table has a row for each shard that a worker held.
  case dataEpochs = 10
  /// Roles of operators and developers, sessions of the console, and the audit of operator calls. Cost: none, the new
  /// tables are empty.
  case staff = 11
  /// Providers of identities, their people, and invitations. Cost: none, the new tables are empty.
  case identities = 12
  /// Push services and registrations of devices. Cost: none, the new tables are empty.
  case push = 13
  /// The audit of sign-ins; the way, provider and client of each session. Cost: none, the new table is empty and the
  /// new columns NULL.
  case signIns = 14
  /// Devices that wait until somebody allows their code. Cost: none, the new table is empty.
  case deviceSignIns = 15
  /// The identity of each session, and the provider's session that it began with. Cost: none, the new columns are NULL:
  /// earlier sessions do not end with those at providers.
  case sessionIdentities = 16
  /// Passkeys of users. Cost: none, the new table is empty.
  case passkeys = 17
  /// Ends of registrations, which outlive users and containers. Cost: one step for each registration.
  case registrationEnds = 18
  /// People who wait in shares. Cost: none, the new table is empty; workers fill it when they open their shards.
  case waitingInvitations = 19
  /// Invitations by mail. Cost: none, the new tables are empty and the new columns NULL.
  case mail = 20
  /// The networks of devices that wait. Cost: none, the new columns are empty.
  case networksOfDevices = 21
  /// Accounts that people made for themselves where everybody may. Cost: one step for each user.
  case selfMadeUsers = 22
  /// The sessions that allowed devices. Cost: none, the new column is NULL: earlier permissions end by their time.
  case sessionsOfDevices = 23
  /// How often all sessions of a user were ended, and an index of devices' places. Cost: the new column is 0, and one
  /// step for each registration.
  case signOuts = 24

  static let current = Self.allCases.map(\.rawValue).max() ?? 0
  /// `AQFD`: tells a directory from any other SQLite file.
  private static let applicationID: Int64 = 0x4151_4644
  static let defaultShardCount = 4
  static let shardCountRange = 1...ShardLayout.countLimit

  static func open(_ path: String) throws -> Connection {
    try explaining(path) {
      let connection = try Connection(exclusive: path, mode: .readWrite)
      // Exclusive before the first read, so that a second share service on the same folder can't start.
      try connection.execute("PRAGMA locking_mode=EXCLUSIVE")
      try connection.execute("PRAGMA journal_mode=WAL")
      try connection.execute("PRAGMA synchronous=FULL")
      try connection.execute("PRAGMA foreign_keys=ON")
      try upgrade(connection, path)
      return connection
    }
  }

  /// The key that a file's installation was made with, whatever the file's format; nil in one that was only begun.
  /// - Throws: `InstallationProblem`.
  static func signingKey(ofFile path: String) throws -> [UInt8]? {
    try explaining(path) {
      let connection = try Connection(exclusive: path, mode: .readOnly)
      defer { connection.close() }
      guard try number("PRAGMA application_id", in: connection) == applicationID else {
        throw InstallationProblem("\(path) is not a directory of Aquifer.")
      }
      return try value("signingKey", in: .sqlite(connection))
    }
  }

  private static func explaining<Value>(_ path: String, _ body: () throws -> Value) throws -> Value {
    do {
      return try body()
    } catch let error as SQLiteError where error.isBusy {
      throw InstallationProblem("Another process uses \(path): stop it, or choose another folder with --data.")
    } catch let error as SQLiteError where error.isCorruption {
      throw InstallationProblem("\(path) is damaged or not a directory (\(error)): restore it from a backup.")
    } catch let error as SQLiteError {
      throw InstallationProblem("\(path) can't be opened (\(error)): check the folder, its owner and its free space.")
    }
  }

  private static func upgrade(_ connection: Connection, _ path: String) throws {
    try connection.transaction {
      let applicationID = try number("PRAGMA application_id", in: connection)
      let format = try number("PRAGMA user_version", in: connection)
      guard applicationID == Self.applicationID || (applicationID == 0 && format == 0) else {
        throw InstallationProblem("\(path) is not a directory of Aquifer: choose another folder with --data.")
      }
      guard format <= current else {
        throw InstallationProblem(
          """
          \(path) has format \(format), but this release knows only formats up to \(current): use the release that \
          wrote it, or a newer one.
          """
        )
      }
      for change in allCases where change.rawValue > format {
        try connection.execute(change.statements)
        if change == .dataEpochs { try noteEarlierShards(in: connection) }
      }
      try connection.execute("PRAGMA application_id=\(Self.applicationID)")
      try connection.execute("PRAGMA user_version=\(current)")
    }
  }

  private var statements: String {
    switch self {
    case .containersUsersTokensKeysSchemasModels: Self.tables
    case .accounts: Self.accountTables
    case .rolesAndQuotas: Self.roles
    case .sessionOrigins:
      """
      ALTER TABLE session ADD COLUMN apiToken BLOB; CREATE INDEX sessionAPIToken ON session (apiToken) WHERE apiToken \
      IS NOT NULL;
      """
    case .generations: "ALTER TABLE environment ADD COLUMN generation INTEGER NOT NULL DEFAULT 0;"
    case .rules: "ALTER TABLE environment ADD COLUMN rules TEXT;"
    case .sharedZones: Self.sharedZoneTables
    case .apps: "ALTER TABLE container ADD COLUMN displayName TEXT; ALTER TABLE container ADD COLUMN appURL TEXT;"
    case .departures:
      """
      CREATE TABLE departure (recordName TEXT PRIMARY KEY, name TEXT NOT NULL, requested INTEGER NOT NULL, \
      due INTEGER NOT NULL, isLast INTEGER NOT NULL) WITHOUT ROWID;
      """
    case .dataEpochs: Self.dataEpochTable
    case .staff: Self.staffTables
    case .identities: Self.identityTables
    case .push: Self.pushTables
    case .signIns: Self.signInTables
    case .deviceSignIns: Self.deviceSignInTable
    case .sessionIdentities: Self.sessionIdentityColumns
    case .passkeys: Self.passkeyTable
    case .registrationEnds: Self.registrationEndTable
    case .waitingInvitations: Self.waitingInvitationTable
    case .mail: Self.mailTables
    case .networksOfDevices: Self.deviceNetworks
    case .selfMadeUsers: Self.newcomers
    case .sessionsOfDevices: Self.deviceSessions
    case .signOuts:
      """
      ALTER TABLE user ADD COLUMN signOutCount INTEGER NOT NULL DEFAULT 0;
      CREATE INDEX pushRegistrationTarget ON pushRegistration (target);
      """
    }
  }

  private static func number(_ pragma: String, in connection: Connection) throws -> Int64 {
    try connection.prepare(SQL(pragma, pragma)).first { $0.int64(0) } ?? 0
  }

  /// Times are milliseconds since 1970; hashes are 32 bytes of SHA-256.
  private static let tables = """
    CREATE TABLE value (name TEXT PRIMARY KEY, content BLOB NOT NULL) WITHOUT ROWID;
    CREATE TABLE container (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, created INTEGER NOT NULL);
    CREATE TABLE user (
      id INTEGER PRIMARY KEY, recordName TEXT NOT NULL UNIQUE, name TEXT NOT NULL UNIQUE,
      email TEXT COLLATE NOCASE UNIQUE, givenName TEXT, familyName TEXT, isDisabled INTEGER NOT NULL DEFAULT 0,
      created INTEGER NOT NULL);
    CREATE TABLE webAuthToken (
      hash BLOB PRIMARY KEY, user INTEGER NOT NULL REFERENCES user (id) ON DELETE CASCADE,
      created INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE apiToken (
      hash BLOB PRIMARY KEY, beginning TEXT NOT NULL,
      container INTEGER NOT NULL REFERENCES container (id) ON DELETE CASCADE, environment TEXT NOT NULL,
      allowedOrigins TEXT NOT NULL, created INTEGER NOT NULL) WITHOUT ROWID;
    CREATE INDEX apiTokenBeginning ON apiToken (beginning);
    CREATE TABLE serverKey (
      keyID TEXT PRIMARY KEY, container INTEGER NOT NULL REFERENCES container (id) ON DELETE CASCADE, name TEXT,
      pem TEXT NOT NULL, created INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE environment (
      container INTEGER NOT NULL REFERENCES container (id) ON DELETE CASCADE, name TEXT NOT NULL,
      version INTEGER NOT NULL, schema TEXT NOT NULL, latestModel TEXT, PRIMARY KEY (container, name)) WITHOUT ROWID;
    CREATE TABLE model (
      container INTEGER NOT NULL REFERENCES container (id) ON DELETE CASCADE, environment TEXT NOT NULL,
      hash TEXT NOT NULL, contents BLOB NOT NULL, pushed INTEGER NOT NULL, PRIMARY KEY (container, environment, hash));
    """

  private static let roles = """
    CREATE TABLE userRole (
      user INTEGER NOT NULL REFERENCES user (id) ON DELETE CASCADE,
      container INTEGER NOT NULL REFERENCES container (id) ON DELETE CASCADE, environment TEXT NOT NULL,
      role TEXT NOT NULL, granted INTEGER NOT NULL, PRIMARY KEY (user, container, environment, role)) WITHOUT ROWID;
    ALTER TABLE user ADD COLUMN quotaByteCount INTEGER;
    """

  /// `sequence` and `shard` belong to the owner's database; `at` is the directory's version when the row was written.
  /// Users are stored by name without a foreign key, because shards may report users that the directory does not know.
  private static let sharedZoneTables = """
    ALTER TABLE user ADD COLUMN phone TEXT;
    CREATE UNIQUE INDEX userPhone ON user (phone) WHERE phone IS NOT NULL;
    CREATE TABLE sharedZone (
      user TEXT NOT NULL, container TEXT NOT NULL REFERENCES container (name) ON DELETE CASCADE,
      environment TEXT NOT NULL, owner TEXT NOT NULL, zoneName TEXT NOT NULL, isActive INTEGER NOT NULL,
      sequence INTEGER NOT NULL, shard INTEGER NOT NULL, at INTEGER NOT NULL,
      PRIMARY KEY (user, container, environment, owner, zoneName)) WITHOUT ROWID;
    CREATE INDEX sharedZoneShard ON sharedZone (shard, container, environment, owner, zoneName, user);
    CREATE INDEX sharedZoneEnvironment ON sharedZone (container, environment);
    """

  // MARK: Single values

  static func value(_ name: String, in connection: DirectoryConnection) throws -> [UInt8]? {
    try connection.statement(SQL("value.get", "SELECT content FROM value WHERE name = ?1")).binding(name).first {
      $0.blob(0)
    }
  }

  static func set(_ name: String, _ content: [UInt8], in connection: DirectoryConnection) throws {
    try connection.statement(
      SQL("value.set", "INSERT INTO value VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET content = excluded.content")
    )
    .binding(name, content).run()
  }

  /// The number of shards decides each record's place, so it never changes after the installation is created.
  static func settleShardCount(_ wanted: Int?, in connection: DirectoryConnection) throws -> Int {
    if let stored = try value("shardCount", in: connection).flatMap({ Int(String(decoding: $0, as: UTF8.self)) }) {
      guard wanted == nil || wanted == stored else {
        throw InstallationProblem(
          """
          This installation has \(stored) shards, and the number can't change: start it with --shards \(stored) or \
          without --shards.
          """
        )
      }
      return stored
    }
    let count = wanted ?? defaultShardCount
    guard shardCountRange.contains(count) else {
      throw InstallationProblem(
        """
        An installation has \(shardCountRange.lowerBound) to \(shardCountRange.upperBound) shards, not \(count): \
        change --shards.
        """
      )
    }
    try connection.transaction { try set("shardCount", Array(String(count).utf8), in: connection) }
    return count
  }

  /// The splits of shards, in their order.
  /// - Throws: `InstallationProblem` for some that can't have been.
  static func splits(of createdCount: Int, in connection: DirectoryConnection) throws -> [Int] {
    guard let bytes = try value("shardSplits", in: connection) else { return [] }
    // Dropped because the reason changes nothing for an operator.
    guard let splits = try? MessagePackDecoder().decode([Int].self, from: bytes),
      ShardLayout(createdCount: createdCount, splits: splits) != nil
    else {
      throw InstallationProblem("The directory's list of divided shards is damaged: restore it from a backup.")
    }
    return splits
  }

  static func set(splits: [Int], in connection: DirectoryConnection) throws {
    try set("shardSplits", try MessagePackEncoder().encode(splits), in: connection)
  }

  /// The highest epoch that the directory was opened with; 0 when it never had one.
  static func settleEpoch(_ given: Int64, in connection: DirectoryConnection) throws -> Int64 {
    let stored = try epoch(in: connection)
    if given <= stored { return stored }
    try connection.transaction { try set("epoch", Array(String(given).utf8), in: connection) }
    return given
  }

  static func epoch(in connection: DirectoryConnection) throws -> Int64 {
    try value("epoch", in: connection).flatMap { Int64(String(decoding: $0, as: UTF8.self)) } ?? 0
  }

  static func settleSigningKey(in connection: DirectoryConnection, random: any RandomSource) throws -> [UInt8] {
    if let stored = try value("signingKey", in: connection) { return stored }
    let key = random.bytes(32)
    try connection.transaction { try set("signingKey", key, in: connection) }
    return key
  }

  /// A number that rises with every call, also across restarts; within a transaction.
  static func nextVersion(in connection: DirectoryConnection) throws -> Int64 {
    let next = try lastVersion(in: connection) + 1
    try set(lastVersion: next, in: connection)
    return next
  }

  /// The last number of `nextVersion`.
  static func lastVersion(in connection: DirectoryConnection) throws -> Int64 {
    try value("version", in: connection).flatMap { Int64(String(decoding: $0, as: UTF8.self)) } ?? 0
  }

  /// Gives out the numbers up to this one; within a transaction.
  static func set(lastVersion: Int64, in connection: DirectoryConnection) throws {
    try set("version", Array(String(lastVersion).utf8), in: connection)
  }
}
