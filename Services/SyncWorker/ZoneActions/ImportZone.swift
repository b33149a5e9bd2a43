// Makes records from the lines of an export. Names and stamps are kept, so that graphs and links stay the same.

import Assets
import JSON
import Mirroring
import ObjectModel
import ObjectPlane
import RecordStore
import Records
import ServiceBus
import WebServices
import ZoneCommit

extension ZoneCall {
  /// `POST import`: up to 400 records in one commit. A repeated page changes nothing.
  ///
  /// A zone with other records refuses the import unless `merge=true`; then records of the same name are replaced.
  func importLines(startNext: @Sendable () -> Void) async throws(RecordError) -> PlaneAnswer {
    let merges: Bool
    switch request.query["merge"] {
    case nil, "false", "0": merges = false
    case "true", "1", "": merges = true
    default: throw RecordError(.badRequest, "merge must be true or false")
    }
    guard !request.database.isPublic || zoneName == ReservedName.defaultZone else {
      throw RecordError(.badRequest, "The public database has only the zone \(ReservedName.defaultZone)")
    }
    let lines = try ZoneLines(
      body, receipts: context.signing.reader(for: request), takesHashes: request.caller.isOperator)
    let schema = try await schema(covering: lines)
    let terms = terms(.import, schema, quota: await ownersQuota())
    try await context.assets.prepare(
      lines.records.flatMap(\.record.assets), for: store.shard, of: request.party, log: context.log)
    let commit = store.enqueue { transaction in try write(lines, merges: merges, terms, in: transaction) }
    startNext()
    let result = try await value(of: commit)
    result.effects.publish(by: context)
    var answer = JSONWriter()
    answer.beginObject()
    answer.member("imported", result.importedCount)
    answer.member("unchanged", lines.records.count - result.importedCount)
    answer.member("sequence", result.zone.sequence)
    answer.endObject()
    return PlaneAnswer(body: answer.bytes)
  }

  private struct ImportResult: Sendable {
    let zone: StoredZone
    let importedCount: Int
    let effects: ZoneEffects
  }

  private func write(_ lines: ZoneLines, merges: Bool, _ terms: CommitTerms, in transaction: any ShardTransaction)
    throws -> ImportResult
  {
    let database = try transaction.makeDatabase(request.database)
    let live = try transaction.zone(named: zoneName, in: database.key).flatMap { $0.isDeleted ? nil : $0 }
    if live == nil, zoneName != ReservedName.defaultZone { try ZoneRoom.check(in: database, transaction) }
    let commit = try terms.begin(in: database, transaction)
    let zone = try live ?? commit.makeZone(named: zoneName)
    let writer = commit.serversWriter(to: zone)
    var changes: [(record: Record, existing: StoredRecord?)] = []
    var presentCount = 0
    for item in lines.records {
      let existing = try transaction.record(named: item.record.recordName, in: zone.key)
      if let existing, !existing.isDeleted {
        if existing.record.recordType == ReservedName.shareRecordType {
          throw RecordError(
            .badRequest,
            "'\(item.record.recordName)' is the name of a share of the zone; no other record can replace a share"
          ).inLine(item.line)
        }
        var present = existing.record
        // A short GUID contains its server's shard, so an import does not keep it.
        present.shortGUID = nil
        if present == item.record {
          presentCount += 1
          continue
        }
      }
      changes.append((item.record, existing))
    }
    let liveCount = try transaction.recordCount(in: zone.key)
    guard merges || liveCount == presentCount else {
      throw RecordError(
        .conflict,
        """
        Zone '\(zoneName)' has \(liveCount) records: import into an empty zone, or send merge=true to replace records \
        of the same name
        """
      )
    }
    for (record, existing) in changes {
      var record = record
      record.shortGUID = existing.flatMap { $0.isDeleted ? nil : $0.record.shortGUID }
      _ = try writer.save(record, replacing: existing)
    }
    let effects = try commit.finish()
    return ImportResult(
      zone: try transaction.zone(key: zone.key) ?? zone, importedCount: changes.count, effects: effects)
  }

  // MARK: Schema

  /// The schema with all fields of the lines: development is extended, production refuses unknown ones.
  private func schema(covering lines: ZoneLines) async throws(RecordError) -> EnvironmentSchema {
    let (container, environment) = (request.database.container, request.database.environment)
    let schema = try await context.schemas.schema(of: container, environment)
    let missing = try Self.undeclared(in: lines, schema.schemaIndex, refuses: environment == .production)
    if missing.isEmpty { return schema }
    try await context.schemas.extend(container, with: missing)
    return try await context.schemas.schema(of: container, environment)
  }

  /// - Throws: `BAD_REQUEST` with the line, for a value of the wrong type, and for fields that production lacks.
  private static func undeclared(in lines: ZoneLines, _ schema: SchemaIndex, refuses: Bool) throws(RecordError)
    -> [ExtendSchema.SchemaField]
  {
    var found: [String: ExtendSchema.SchemaField] = [:]
    var order: [String] = []
    for item in lines.records {
      let type = item.record.recordType
      if type == ReservedName.shareRecordType {
        throw RecordError(.badRequest, "Shares can't be imported: share the zone again").inLine(item.line)
      }
      let declared = schema.fields(of: type)
      if refuses, !schema.contains(recordType: type) { throw SchemaGate.unknownType(type).inLine(item.line) }
      for element in item.record.fields {
        if let known = declared[element.name] {
          guard known.type == element.field.value.type else {
            let found = element.field.value.type.wireName
            throw RecordError(
              .badRequest, "\(type).\(element.name) is of type \(found), but the schema has \(known.type.wireName)"
            ).inLine(item.line)
          }
          continue
        }
        if refuses { throw SchemaGate.unknownField(element.name, of: type).inLine(item.line) }
        let key = "\(type).\(element.name)"
        if found[key] == nil { order.append(key) }
        found[key] = ExtendSchema.SchemaField(
          recordType: type, field: element.name, type: element.field.value.type, isEncrypted: element.field.isEncrypted)
      }
    }
    return order.compactMap { found[$0] }
  }

  // MARK: Content

  /// `POST assets`: tells which content is present, and gives the upload URL for the rest.
  func findAssets(startNext: @Sendable () -> Void) async throws(RecordError) -> PlaneAnswer {
    let asked = try ZoneAssetsRequest(try JSONValue.request(body)).assets
    // Only operators learn what is present: a hash must not show that another user has its content.
    let isOperator = request.caller.isOperator
    let commit = store.enqueue { transaction in try asked.map { try isOperator && transaction.hasContent(of: $0) } }
    startNext()
    let present = try await value(of: commit)
    let user = AssetUser(
      container: request.database.container, environment: request.database.environment, userRecordName: user)
    let url = AssetUploadURL(user: user, expiry: now / 1000 + AssetLifetime.urlSeconds).path(
      signedWith: context.signing.key)
    return PlaneAnswer(
      body: ZoneAssetsRequest.answer(zip(asked, present).map { ($0, $1) }, uploadURL: request.baseURL + url))
  }
}

extension RecordError {
  fileprivate func inLine(_ line: Int) -> RecordError {
    RecordError(code, "line \(line): \(reason)")
  }
}
