// The body of `records/modify` (docs/protocol/record-plane.md#records-modify).

public import JSON
public import Records

/// A batch of operations on one zone.
public struct ModifyRecordsRequest: Sendable {
  /// The value in the request; nil if it has none.
  public let isAtomic: Bool?
  /// In the order of the request; no two are of one record.
  public let operations: [RecordOperation]

  /// Names of the records whose type must be looked up before the request can be read: of operations without a type,
  /// except deletions.
  public static func recordNamesWithoutType(in request: JSONValue) -> [String] {
    guard let operations = request.member("operations"), operations.kind == .array else { return [] }
    return operations.elements.compactMap { operation in
      guard let record = operation.member("record"), record.member("recordType") == nil else { return nil }
      let kind = operation.member("operationType")?.string.flatMap { RecordOperation.Kind(rawValue: $0) }
      return kind?.isDelete == true ? nil : record.member("recordName")?.string
    }
  }

  /// - Parameters:
  ///   - zone: the request's zone, resolved.
  ///   - recordTypes: the types of the records that `recordNamesWithoutType` listed, for those that exist.
  ///   - assets: reads assets; nil refuses them.
  ///   - newRecordName: makes a name for created records whose name the server chooses.
  ///   - newShortGUID: makes a short GUID for records that are to have one.
  /// - Throws: `BAD_REQUEST` if the request as a whole is invalid; an error of one record is kept in its operation.
  public init(
    _ request: JSONValue, zone: Zone.ID, schema: SchemaIndex, recordTypes: [String: String] = [:],
    assets: AssetReader? = nil,
    newRecordName: () -> String,
    newShortGUID: () -> String = { "" }
  ) throws(RecordError) {
    isAtomic = try request.optionalBool("atomic")
    let presentation = try RecordPresentation(of: request)
    let reader = OperationReader(
      zone: zone, schema: schema, recordTypes: recordTypes, presentation: presentation, assets: assets)
    operations = try request.requiredList("operations", limit: Limit.operationsPerRequest) { json throws(RecordError) in
      try reader.read(json, newRecordName: newRecordName, newShortGUID: newShortGUID)
    }
    var names: Set<String> = []
    names.reserveCapacity(operations.count)
    for operation in operations where !names.insert(operation.recordName).inserted {
      throw RecordError(.badRequest, "You can't save the same record twice")
    }
  }

  private init(isAtomic: Bool?, operations: [RecordOperation]) {
    self.isAtomic = isAtomic
    self.operations = operations
  }

  /// The request with those operations refused for which `problem` returns an error; operations refused before keep
  /// their error.
  public func refusing(_ problem: (RecordPatch) -> RecordError?) -> ModifyRecordsRequest {
    ModifyRecordsRequest(
      isAtomic: isAtomic,
      operations: operations.map { operation in
        guard case .success(let patch) = operation.patch, let error = problem(patch) else { return operation }
        return operation.refused(error)
      })
  }

  /// The requests about shares in the request's operations, in order.
  public var shareRequests: [ShareRequest] { operations.compactMap(\.shareRequest) }

  /// The fields that saves carry and the schema lacks: each once, as it first occurs, ascending by type and name.
  public var undeclaredFields: [UndeclaredField] {
    var found: [String: [String: UndeclaredField]] = [:]
    for operation in operations {
      guard case .success(let patch) = operation.patch, let recordType = patch.recordType,
        recordType != ReservedName.shareRecordType
      else { continue }
      for change in patch.changes where !change.isDeclared {
        guard let field = change.field, found[recordType]?[change.name] == nil else { continue }
        found[recordType, default: [:]][change.name] = UndeclaredField(
          recordType: recordType, field: change.name, type: field.value.type, isEncrypted: field.isEncrypted)
      }
    }
    return found.values.flatMap(\.values).sorted { ($0.recordType, $0.field) < ($1.recordType, $1.field) }
  }
}

/// Reads operations with the defaults of the whole request.
private struct OperationReader {
  let zone: Zone.ID
  let schema: SchemaIndex
  let recordTypes: [String: String]
  let presentation: RecordPresentation
  let assets: AssetReader?

  func read(_ json: JSONValue, newRecordName: () -> String, newShortGUID: () -> String) throws(RecordError)
    -> RecordOperation
  {
    let text = try json.requiredString("operationType")
    guard let kind = RecordOperation.Kind(rawValue: text) else {
      throw RecordError(.badRequest, "unknown operationType '\(text.prefix(40))'")
    }
    let record = try json.requiredObject("record")
    let sentName = try record.optionalString("recordName")
    if sentName == nil, kind != .create { throw RecordError(.badRequest, "record.recordName is missing") }
    let name = sentName ?? newRecordName()
    let patch: Result<RecordPatch, RecordError>
    do {
      patch = .success(try self.patch(record, name: name, kind: kind, newShortGUID))
    } catch {
      patch = .failure(error)
    }
    return RecordOperation(
      kind: kind, recordName: name,
      recordChangeTag: try record.optionalString("recordChangeTag").flatMap { RecordChangeTag($0) }, patch: patch,
      presentation: try RecordPresentation(of: json, otherwise: presentation))
  }

  private func patch(_ record: JSONValue, name: String, kind: RecordOperation.Kind, _ newShortGUID: () -> String)
    throws(RecordError) -> RecordPatch
  {
    if kind.isDelete { return RecordPatch() }
    if let problem = RecordName.problem(name, kind: "recordName") { throw RecordError(.badRequest, problem) }
    let recordType = try record.optionalString("recordType") ?? recordTypes[name]
    if let recordType, ReservedName.shareRecordTypes.contains(recordType) { return try sharePatch(record) }
    if let recordType, let problem = Self.problem(ofType: recordType) { throw RecordError(.badRequest, problem) }
    if recordType == nil, kind == .create {
      throw RecordError(.badRequest, "recordType is missing for the new record '\(name)'")
    }
    return RecordPatch(
      recordType: recordType, changes: try changes(record, recordType: recordType ?? ""), parent: try parent(record),
      shortGUID: try record.optionalBool("createShortGUID") ?? false ? newShortGUID() : nil)
  }

  /// A share's record has only its own fields and no parent; sharing gives it its short GUID.
  private func sharePatch(_ record: JSONValue) throws(RecordError) -> RecordPatch {
    let changes = try changes(record, recordType: ReservedName.shareRecordType)
    if let unknown = changes.first(where: { !$0.isDeclared }) {
      throw RecordError(.badRequest, "Field \(unknown.name) not found in \(ReservedName.shareRecordType)")
    }
    return RecordPatch(
      recordType: ReservedName.shareRecordType, changes: changes, share: .request(try ShareReader.request(record)))
  }

  private func changes(_ record: JSONValue, recordType: String) throws(RecordError) -> [RecordPatch.Change] {
    guard let fields = try record.optionalObject("fields") else { return [] }
    guard fields.count <= Limit.fieldsPerRecordType else {
      throw RecordError(
        .badRequest, "\(recordType) has \(fields.count) fields, the limit is \(Limit.fieldsPerRecordType)")
    }
    let declarations =
      recordType == ReservedName.shareRecordType ? ShareFields.declarations : schema.fields(of: recordType)
    let reader = FieldReader(zone: zone, recordType: recordType, assets: assets)
    var changes: [RecordPatch.Change] = []
    changes.reserveCapacity(fields.count)
    try fields.forEachMember { key, value throws(RecordError) in
      let name = key.string ?? ""
      let declared = declarations[name]
      if declared == nil, let problem = Self.problem(ofField: name) {
        throw RecordError(.badRequest, "\(recordType): \(problem)")
      }
      changes.append(
        RecordPatch.Change(
          name: name, field: try reader.read(name, value, declared: declared), isDeclared: declared != nil))
    }
    return changes
  }

  private func parent(_ record: JSONValue) throws(RecordError) -> RecordPatch.Parent {
    guard let json = record["parent"] else { return .unmentioned }
    if json.isNull { return .set(nil) }
    guard json.kind == .object, let name = try json.optionalString("recordName") else {
      throw RecordError(.badRequest, "parent must be an object with a recordName")
    }
    if let problem = RecordName.problem(name, kind: "parent.recordName") { throw RecordError(.badRequest, problem) }
    return .set(name)
  }

  private static func problem(ofType name: String) -> String? {
    isIdentifier(name)
      ? nil
      : "'\(name.prefix(40))' is not a record type: it takes up to 255 letters, digits and underscores after a letter"
  }

  private static func problem(ofField name: String) -> String? {
    isIdentifier(name)
      ? nil
      : "'\(name.prefix(40))' is not a field name: it takes up to 255 letters, digits and underscores after a letter"
  }

  private static func isIdentifier(_ name: String) -> Bool {
    let bytes = name.utf8
    guard (1...Limit.nameByteCount).contains(bytes.count), let first = bytes.first, isLetter(first) else {
      return false
    }
    return bytes.allSatisfy { isLetter($0) || (0x30...0x39).contains($0) || $0 == UInt8(ascii: "_") }
  }

  private static func isLetter(_ byte: UInt8) -> Bool {
    (0x41...0x5a).contains(byte) || (0x61...0x7a).contains(byte)
  }
}
