// Schemas and models of containers' environments.

import ObjectModel
import Records
import SQLite
import ServiceBus
import ServiceKit
import XCDataModel

struct EnvironmentKey: Hashable, Sendable, CustomStringConvertible {
  let container: ContainerID
  let environment: Environment

  /// The spelling in `DirectoryChanged`.
  var description: String { "\(container.rawValue)/\(environment.rawValue)" }
}

struct EnvironmentState: Sendable, Hashable {
  /// Rises with every change of the environment, and tells its states apart (see `Directory.nextVersion`).
  var version: Int64
  var schema: Schema
  /// By hash.
  var models: [String: ManagedObjectModel]
  var latestModelHash: String?
  /// Rises with every reset; records of earlier generations count as deleted.
  var generation: Int64 = 0

  static let initial = EnvironmentState(version: 0, schema: .initial, models: [:], latestModelHash: nil)
}

/// A model as a developer pushed it.
struct PushedModel: Sendable {
  /// The file's bytes, stored unchanged so that a later release can read more of it.
  let contents: [UInt8]
  let index: ModelIndex
  let configuration: String?
}

/// The outcome of a schema change.
enum SchemaOutcome: Sendable, Hashable {
  case changed(added: [SchemaFieldName], schema: Schema)
  /// Production accepts additions only; nothing was changed.
  case refused([SchemaRefusal])
}

extension Directory {
  /// - Throws: `notFound` for the container.
  func environment(_ key: EnvironmentKey) throws -> EnvironmentState {
    try store.confirm()
    let connection = connection
    if let state = environments[key] { return state }
    let container = try self.key(of: key.container)
    var state =
      try connection.statement(
        SQL(
          "environment.get",
          "SELECT version, schema, latestModel, generation FROM environment WHERE container = ?1 AND name = ?2")
      )
      .binding(container, key.environment.rawValue).first { row in
        EnvironmentState(
          version: row.int64(0), schema: try SchemaParser.parse(row.text(1)).inEnvironment, models: [:],
          latestModelHash: row.optionalText(2),
          generation: row.int64(3))
      } ?? .initial
    try connection.statement(
      SQL("model.list", "SELECT hash, contents FROM model WHERE container = ?1 AND environment = ?2")
    )
    .binding(container, key.environment.rawValue).forEach { row in
      state.models[row.text(0)] = try ModelReader.read(row.blob(1))
    }
    environments[key] = state
    return state
  }

  /// The environments with a schema, as `DirectoryChanged` spells them.
  func environmentNames() throws -> [String] {
    try connection.statement(
      SQL(
        "environment.names",
        """
        SELECT container.name, environment.name FROM environment JOIN container ON container.id = environment.container
        ORDER BY container.name, environment.name
        """)
    ).all { "\($0.text(0))/\($0.text(1))" }
  }

  /// The models of an environment with the time of their latest push, in milliseconds since 1970; latest first.
  /// - Throws: `notFound` for the container.
  func models(of key: EnvironmentKey) throws -> [(hash: String, pushed: Int64)] {
    try connection.statement(
      SQL(
        "model.hashes",
        "SELECT hash, pushed FROM model WHERE container = ?1 AND environment = ?2 ORDER BY pushed DESC, hash")
    ).binding(try self.key(of: key.container), key.environment.rawValue).all { (hash: $0.text(0), pushed: $0.int64(1)) }
  }

  /// The changes that a model would make to an environment's schema.
  /// - Throws: `notFound` for the container.
  func difference(_ model: PushedModel, _ key: EnvironmentKey) throws -> SchemaDiff {
    let schema = try environment(key).schema
    return SchemaDiff(from: schema, to: Self.merging(model, into: schema))
  }

  private static func merging(_ model: PushedModel, into schema: Schema) -> Schema {
    schema.merging(
      SchemaGenerator.schema(for: model.index, configuration: model.configuration), replacesConflicts: true)
  }

  /// The refusals that `promote` would add once the model is in production while development may lack it.
  func promotionProblems(after model: PushedModel, in container: ContainerID) throws -> [SchemaRefusal] {
    let production = try environment(EnvironmentKey(container: container, environment: .production)).schema
    let development = try environment(EnvironmentKey(container: container, environment: .development)).schema
    let known = Set(SchemaDiff(from: production, to: development).refusals)
    return SchemaDiff(from: Self.merging(model, into: production), to: development).refusals.filter {
      !known.contains($0)
    }
  }

  /// Adapts an environment's schema to a model: development accepts every change, production only additions.
  /// - Parameter isDryRun: true: changes nothing, and does not check production's limit of models.
  /// - Throws: `notFound` for the container; `badRequest` for a record type that would have too many fields, or when
  ///   production has no room for another model; in production, for names that are ambiguous beside earlier models.
  func push(_ model: PushedModel, to key: EnvironmentKey, isDryRun: Bool) throws -> SchemaOutcome {
    let state = try environment(key)
    let merged = Self.merging(model, into: state.schema)
    let diff = SchemaDiff(from: state.schema, to: merged)
    guard key.environment == .development || diff.isAdditive else { return .refused(diff.refusals) }
    try Self.checkFieldCounts(merged)
    if key.environment == .production { try Self.checkNames(of: model.index, in: state) }
    if !isDryRun {
      let hash = model.index.modelHash
      try update(key) {
        try insert(model.contents, hash, into: key)
        return (merged, hash)
      }
    }
    return .changed(added: diff.added, schema: merged)
  }

  /// Replaces development's schema; production accepts a text that only adds.
  /// - Parameter isDryRun: true: answers the same, but changes nothing.
  /// - Throws: `notFound` for the container.
  func replaceSchema(of key: EnvironmentKey, with schema: Schema, isDryRun: Bool) throws -> SchemaOutcome {
    let state = try environment(key)
    let wanted = schema.inEnvironment
    let diff = SchemaDiff(from: state.schema, to: wanted)
    guard key.environment == .development || diff.isAdditive else { return .refused(diff.refusals) }
    if !isDryRun { try update(key) { (wanted, state.latestModelHash) } }
    return .changed(added: diff.added, schema: wanted)
  }

  /// Adds development's additions to production, with its rules and the models that the result covers.
  /// - Parameter isDryRun: true: changes nothing, and does not check production's limit of models.
  /// - Throws: `notFound` for the container; `badRequest` when production has no room for another model.
  func promote(_ container: ContainerID, isDryRun: Bool = false) throws -> SchemaOutcome {
    let source = EnvironmentKey(container: container, environment: .development)
    let target = EnvironmentKey(container: container, environment: .production)
    let (development, production) = (try environment(source), try environment(target))
    let diff = SchemaDiff(from: production.schema, to: development.schema)
    guard diff.isAdditive else { return .refused(diff.refusals) }
    let merged = production.schema.merging(development.schema, replacesConflicts: false)
    let promoted = try Self.promotable(development, to: production, merged)
    if isDryRun { return .changed(added: diff.added, schema: merged) }
    try update(target) {
      for hash in promoted.keys.sorted() { try copyModel(hash, from: source, to: target) }
      let latest =
        try development.latestModelHash.flatMap { try isStored($0, in: target) ? $0 : nil }
        ?? production.latestModelHash
      return (merged, latest)
    } and: {
      let latest = try latestModelHash(of: target)
      let models = production.models.merging(promoted) { $1 }
      try promoteRules(from: source, to: target, models: NamedModel.all(of: models, latest: latest))
    }
    return .changed(added: diff.added, schema: merged)
  }

  /// The changes that `promote` would make.
  func difference(_ container: ContainerID) throws -> SchemaDiff {
    SchemaDiff(
      from: try environment(EnvironmentKey(container: container, environment: .production)).schema,
      to: try environment(EnvironmentKey(container: container, environment: .development)).schema)
  }

  /// Drops development's schema, models and rules and begins a new generation. Workers then drop its records, stores
  /// and subscriptions.
  /// - Throws: `notFound` for the container.
  func resetDevelopment(_ container: ContainerID) throws {
    let key = EnvironmentKey(container: container, environment: .development)
    try update(key, beginsGeneration: true) {
      try connection.statement(SQL("model.deleteAll", "DELETE FROM model WHERE container = ?1 AND environment = ?2"))
        .binding(try self.key(of: container), key.environment.rawValue).run()
      try store(EnvironmentRules.none, of: key)
      try forgetSharedZones(in: key)
      try forgetWaitingInvitations(in: key)
      return (.initial, nil)
    }
  }

  /// Adds fields that came with saves in development. Existing ones with the same type stay.
  /// - Returns: true when the schema changed.
  /// - Throws: `notFound` for the container; `badRequest` for a field of another type, a name that no schema text can
  ///   spell, or too many fields.
  func extendDevelopment(_ container: ContainerID, with fields: [ExtendSchema.SchemaField]) throws -> Bool {
    let key = EnvironmentKey(container: container, environment: .development)
    let state = try environment(key)
    var types: [String: [Schema.Field]] = [:]
    for field in fields {
      try Self.checkName(field.recordType)
      try Self.checkName(field.field)
      types[field.recordType, default: []].append(
        Schema.Field(standard: field.field, field.type, isEncrypted: field.isEncrypted))
    }
    let added = Schema(
      recordTypes: types.map { Schema.RecordType(name: $0, fields: $1, grants: Schema.Grant.forMirroredTypes) })
    let merged = state.schema.merging(added, replacesConflicts: true).inEnvironment
    let diff = SchemaDiff(from: state.schema, to: merged)
    if let refusal = diff.refusals.first { throw RecordError(.badRequest, refusal.reason) }
    if diff.added.isEmpty { return false }
    try Self.checkFieldCounts(merged)
    try update(key) { (merged, state.latestModelHash) }
    return true
  }

  // MARK: Parts

  /// The next version of an environment's row: the time of its change, or one more than the last version if that is
  /// higher. So a directory that was brought back gives no version again that the lost one gave, and neither does a
  /// container that was made anew.
  /// - Parameter time: an expression of SQL; milliseconds since 1970.
  static func nextVersion(_ time: String) -> String {
    "CASE WHEN \(time) > environment.version THEN \(time) ELSE environment.version + 1 END"
  }

  /// Makes one durable change of an environment.
  /// - Parameter last: runs after the environment's row is written.
  private func update(
    _ key: EnvironmentKey, beginsGeneration: Bool = false, _ body: () throws -> (schema: Schema, latestModel: String?),
    and last: () throws -> Void = {}
  ) throws {
    try change {
      let container = try self.key(of: key.container)
      let (schema, latestModel) = try body()
      try connection.statement(
        SQL(
          "environment.set",
          """
          INSERT INTO environment (container, name, version, schema, latestModel, generation) \
          VALUES (?1, ?2, ?3, ?4, ?5, ?6)
          ON CONFLICT (container, name) DO UPDATE SET version = \(Self.nextVersion("excluded.version")), \
          schema = excluded.schema, latestModel = excluded.latestModel,
            generation = environment.generation + excluded.generation
          """)
      ).binding(
        container, key.environment.rawValue, clock.now, SchemaPrinter.text(of: schema), latestModel,
        beginsGeneration ? 1 : 0
      ).run()
      try last()
    }
    environments[key] = nil
  }

  /// Models of development. One message carries all of them, so beyond this number the oldest are dropped.
  static let modelLimit = 100
  /// Models of production. Devices may use any of them for years, so none is dropped.
  static let productionModelLimit = 500

  private func insert(_ contents: [UInt8], _ hash: String, into key: EnvironmentKey) throws {
    let container = try self.key(of: key.container)
    if key.environment == .production, try !isStored(hash, in: key),
      try modelCount(in: key) >= Self.productionModelLimit
    {
      throw RecordError(
        .badRequest,
        """
        Production has \(Self.productionModelLimit) models, which is the limit, because devices may still use each of \
        them
        """
      )
    }
    try connection.statement(
      SQL(
        "model.set",
        """
        INSERT INTO model VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (container, environment, hash) DO UPDATE \
        SET contents = excluded.contents, pushed = excluded.pushed
        """
      )
    ).binding(container, key.environment.rawValue, hash, contents, clock.now).run()
    guard key.environment == .development else { return }
    try connection.statement(
      SQL(
        "model.prune",
        """
        DELETE FROM model WHERE container = ?1 AND environment = ?2 AND hash NOT IN
          (SELECT hash FROM model WHERE container = ?1 AND environment = ?2 ORDER BY pushed DESC, hash LIMIT ?3)
        """)
    ).binding(container, key.environment.rawValue, Self.modelLimit).run()
  }

  private func copyModel(_ hash: String, from source: EnvironmentKey, to target: EnvironmentKey) throws {
    let contents = try connection.statement(
      SQL("model.get", "SELECT contents FROM model WHERE container = ?1 AND environment = ?2 AND hash = ?3")
    ).binding(try self.key(of: source.container), source.environment.rawValue, hash).first { $0.blob(0) }
    if let contents { try insert(contents, hash, into: target) }
  }

  private func modelCount(in key: EnvironmentKey) throws -> Int {
    try connection.statement(SQL("model.count", "SELECT count(*) FROM model WHERE container = ?1 AND environment = ?2"))
      .binding(try self.key(of: key.container), key.environment.rawValue).first { $0.int(0) } ?? 0
  }

  private func isStored(_ hash: String, in key: EnvironmentKey) throws -> Bool {
    try connection.statement(
      SQL("model.has", "SELECT 1 FROM model WHERE container = ?1 AND environment = ?2 AND hash = ?3")
    )
    .binding(try self.key(of: key.container), key.environment.rawValue, hash).first { _ in true } ?? false
  }

  private static func checkFieldCounts(_ schema: Schema) throws {
    for type in schema.recordTypes where type.fields.count > Limit.fieldsPerRecordType {
      throw RecordError(
        .badRequest,
        """
        The record type '\(type.name)' would have \(type.fields.count) fields; it may have \(Limit.fieldsPerRecordType)
        """
      )
    }
  }

  /// Saved names become part of the schema text, which must be printable and readable again.
  private static func checkName(_ name: String) throws {
    let isSpellable =
      name.utf8.allSatisfy { (0x21...0x7e).contains($0) && $0 != UInt8(ascii: "\"") } && !name.hasPrefix("___")
    guard isSpellable, (1...Limit.nameByteCount).contains(name.utf8.count) else {
      throw RecordError(.badRequest, "'\(name.prefix(64))' can't be the name of a record type or field")
    }
  }
}
