// Makes a shard's schema, brings it to this release's format, and refuses a shard of another installation.

import Assets
import PostgreSQL
import Records

/// The steps before an epoch is raised. They run in the transaction that raises it.
struct PostgreSQLUpgrade {
  let configuration: PostgreSQLConfiguration
  let shard: Int
  let shardCount: Int
  /// The last known epoch; 0 when the shard may never have been opened.
  let knownEpoch: Int64
  /// Tests of upgrades replace it.
  var changes = PostgreSQLFormatChange.allCases.map { (format: $0.rawValue, statements: $0.statements) }

  var missing: StoreError {
    .foreign("shard \(shard): the schema \(schema) is missing, and its epoch was \(knownEpoch)")
  }

  private var schema: String { configuration.schema(ofShard: shard) }
  private var last: Int { changes.map(\.format).max() ?? 0 }

  /// What the tables tell.
  struct Found {
    var format = 0
    /// nil for a shard that was never divided.
    var part: ShardPart?
    /// True while rows of databases are left that another shard has.
    var isBeingCut = false
    /// The division whose new shard may not be opened yet.
    var pending: PendingSplit?
  }

  /// - Throws: `StoreError.newerFormat`, `.foreign`, `.io`; `PostgreSQLError`.
  @discardableResult func run(_ session: Session) throws -> Found {
    let exists = try session.rows(TenureQuery.tables.command).first?.boolean(0) == true
    if !exists {
      guard knownEpoch == 0 else { throw missing }
      try session.queue(Command("schema", "CREATE SCHEMA IF NOT EXISTS \(schema)"))
      try session.queue(Command("tenure", Self.tenure))
      try session.queue(
        TenureQuery.make.command, [.integer(0), .integer(Int64(shard)), .integer(Int64(shardCount))])
    }
    var found = try check(session)
    if exists, try meta(.move, session) != nil { throw StoreError.moved(shard: shard, from: "the schema \(schema)") }
    for change in changes where change.format > found.format {
      for (index, statement) in change.statements.enumerated() {
        try session.queue(Command("format \(change.format).\(index)", statement))
      }
    }
    try session.queue(
      TenureQuery.own.command, [.integer(Int64(last)), .text(configuration.installation?.text)])
    try session.finish()
    if found.part != nil {
      found.isBeingCut = try meta(.cut, session) != nil
      found.pending = try pending(session)
    }
    return found
  }

  private func meta(_ key: MetaKey, _ session: Session) throws -> Int64? {
    try session.rows(ShardQuery.meta.command, [.text(key.rawValue)]).first?.integer(0)
  }

  private func pending(_ session: Session) throws -> PendingSplit? {
    guard let number = try meta(.split, session), let shard = try meta(.splitShard, session) else { return nil }
    let cluster = try meta(.splitCluster, session).flatMap {
      try session.rows(ShardQuery.symbolText.command, [.integer($0)]).first?.text(0)
    }
    return PendingSplit(shard: Int(shard), number: number, cluster: cluster)
  }

  private func check(_ session: Session) throws -> Found {
    guard let row = try session.rows(TenureQuery.find.command).first else { throw missing }
    let format = Int(try row.integer(0))
    if format > last { throw StoreError.newerFormat(found: format, known: last) }
    let owner = (shard: try row.integer(1), count: try row.integer(2))
    guard owner.shard == Int64(shard) else {
      throw StoreError.io("\(schema) is shard \(owner.shard), not \(shard)")
    }
    // A shard that was never divided tells its part without its remainder.
    let isDivided = owner.count != Int64(shardCount) || shard >= shardCount
    // A new schema has its remainder later.
    let part =
      format == 0
      ? nil
      : try ShardPart.stored(
        owner.count, isDivided ? try meta(.remainder, session) : nil, ofShard: shard, of: shardCount, in: schema)
    let epoch = try row.integer(3)
    if epoch < knownEpoch {
      throw StoreError.foreign(
        "shard \(shard): \(schema) is an older copy: its epoch is \(epoch), and it was opened with \(knownEpoch)")
    }
    if let installation = configuration.installation, let owner = try row.optionalText(4), owner != installation.text {
      throw StoreError.foreign("shard \(shard): \(schema) belongs to the installation \(owner), not \(installation)")
    }
    return Found(format: format, part: part)
  }

  /// Written by each commit: room in the page makes the update cheap, and the table is cleaned often.
  private static let tenure = """
    CREATE TABLE tenure(format bigint NOT NULL, shard bigint NOT NULL, shardCount bigint NOT NULL,
      epoch bigint NOT NULL, commits bigint NOT NULL, installation text COLLATE "C")
      WITH (fillfactor = 10, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0)
    """
}
