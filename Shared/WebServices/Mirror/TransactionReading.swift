// Reads a client's save: history transactions, checked against the store's model before anything is stored.

public import History
public import JSON
public import ObjectModel
public import Records

/// Reads the transactions of `POST stores/{id}/transactions`.
public struct TransactionReader: Sendable {
  private let model: ModelIndex
  /// Names of the entities of the store's configuration; nil means all.
  private let entityNames: Set<String>?
  /// Milliseconds since 1970: the timestamp of transactions that carry none.
  private let now: Int64
  private let assets: AssetReader?

  /// - Parameter assets: reads assets; nil refuses them.
  public init(model: ModelIndex, entityNames: Set<String>?, now: Int64, assets: AssetReader? = nil) {
    self.assets = assets
    self.model = model
    self.entityNames = entityNames
    self.now = now
  }

  /// - Throws: `BAD_REQUEST` with the place, and for a property with `Entity.property`.
  public func transactions(_ body: JSONValue) throws(RecordError) -> [HistoryTransaction] {
    guard let items = body.member("transactions"), items.kind == .array else {
      throw RecordError(.badRequest, "transactions must be an array")
    }
    guard items.count <= Self.transactionLimit else {
      throw RecordError(.badRequest, "transactions has \(items.count) items, the limit is \(Self.transactionLimit)")
    }
    var transactions: [HistoryTransaction] = []
    transactions.reserveCapacity(items.count)
    for item in items.elements {
      do {
        transactions.append(try transaction(item))
      } catch {
        throw error.within("transactions[\(transactions.count)]")
      }
    }
    return transactions
  }

  public static let transactionLimit = 1000

  private func transaction(_ json: JSONValue) throws(RecordError) -> HistoryTransaction {
    guard json.kind == .object else { throw RecordError(.badRequest, "a transaction must be an object") }
    let transactionID = try json.requiredString("transactionID")
    guard (1...Limit.nameByteCount).contains(transactionID.utf8.count) else {
      throw RecordError(.badRequest, "transactionID must have 1 to \(Limit.nameByteCount) bytes")
    }
    var timestamp = now
    if let text = try json.optionalString("timestamp") {
      guard let milliseconds = MirrorDate.milliseconds(text) else {
        throw RecordError(.badRequest, "timestamp must be a date like 2026-11-20T07:33:24.123Z")
      }
      timestamp = milliseconds
    }
    guard let items = json.member("changes"), items.kind == .array else {
      throw RecordError(.badRequest, "changes must be an array")
    }
    var changes: [HistoryChange] = []
    changes.reserveCapacity(items.count)
    try items.forEachElement { item throws(RecordError) in
      do throws(RecordError) {
        changes.append(try change(item))
      } catch {
        throw error.within("changes[\(changes.count)]")
      }
    }
    return HistoryTransaction(
      transactionID: transactionID, timestamp: timestamp, author: try json.optionalString("author"),
      contextName: try json.optionalString("contextName"),
      bundleID: try json.optionalString("bundleID"), processID: try json.optionalString("processID"), changes: changes)
  }

  /// Reads one attribute's value, as in an insert or update of its entity.
  /// - Throws: `BAD_REQUEST` with `Entity.attribute`.
  public func value(_ json: JSONValue, ofAttribute name: String, of entity: EntityDescription) throws(RecordError)
    -> AttributeValue
  {
    try AttributeReader(entity: entity, assets: assets).read(name, json)
  }

  /// The import tokens of the transactions, by index: the positions up to which their stores had imported when the
  /// edits were made.
  /// - Throws: `BAD_REQUEST` with the place of an invalid token.
  public static func importTokens(_ body: JSONValue) throws(RecordError) -> [Int: SyncToken] {
    var tokens: [Int: SyncToken] = [:]
    for (place, item) in (body.member("transactions")?.elements ?? []).enumerated() {
      guard let text = try item.optionalString("importToken") else { continue }
      do {
        tokens[place] = try SyncToken(text, as: .importBatch)
      } catch {
        throw error.recordError.within("transactions[\(place)]: importToken")
      }
    }
    return tokens
  }

  private func change(_ json: JSONValue) throws(RecordError) -> HistoryChange {
    guard json.kind == .object else { throw RecordError(.badRequest, "a change must be an object") }
    let typeName = try json.requiredString("changeType")
    guard let changeType = HistoryChange.ChangeType(wireName: typeName) else {
      throw RecordError(.badRequest, "changeType must be insert, update or delete")
    }
    let entity = try entity(try json.requiredString("entity"))
    let objectID = try json.requiredString("objectID")
    if let problem = Self.problem(ofObjectID: objectID) { throw RecordError(.badRequest, problem) }
    if changeType == .delete {
      return HistoryChange(
        changeType: .delete, entity: entity.name, objectID: objectID, tombstone: try preserved(json, entity))
    }
    return HistoryChange(
      changeType: changeType, entity: entity.name, objectID: objectID,
      attributes: try attributes(json, "attributes", entity),
      relationships: try relationships(json, entity, objectID: objectID))
  }

  private func entity(_ name: String) throws(RecordError) -> EntityDescription {
    guard let entity = model.entity(named: name) else {
      throw RecordError(.badRequest, "\(name): the store's model has no such entity")
    }
    if entity.isAbstract { throw RecordError(.badRequest, "\(name): the entity is abstract") }
    guard entityNames?.contains(name) ?? true else {
      throw RecordError(.badRequest, "\(name): the entity is not in the store's configuration")
    }
    return entity
  }

  /// The problem with an object's name; nil if it is valid.
  static func problem(ofObjectID objectID: String) -> String? {
    if let problem = RecordName.problem(objectID, kind: "objectID") { return problem }
    if objectID.hasPrefix(ReservedName.fakeRecordPrefix) || objectID == ReservedName.zoneShareRecordName {
      return "objectID is a reserved name"
    }
    return nil
  }

  private func attributes(_ json: JSONValue, _ key: String, _ entity: EntityDescription) throws(RecordError)
    -> [NamedValue<AttributeValue>]
  {
    guard let object = try json.optionalObject(key) else { return [] }
    let reader = AttributeReader(entity: entity, assets: assets)
    var values: [NamedValue<AttributeValue>] = []
    values.reserveCapacity(object.count)
    try object.forEachMember { key, value throws(RecordError) in
      let name = key.string ?? ""
      values.append(NamedValue(name: name, value: try reader.read(name, value)))
    }
    return values.sorted { $0.name < $1.name }
  }

  /// T-H05: of a deletion only the attributes that the model preserves, and of those no external binaries (H1).
  private func preserved(_ json: JSONValue, _ entity: EntityDescription) throws(RecordError) -> [NamedValue<
    AttributeValue
  >] {
    let kept = entity.preservedAttributeNames
    return try attributes(json, "tombstone", entity).filter { kept.contains($0.name) }
  }

  // MARK: Relationships

  private func relationships(
    _ json: JSONValue, _ entity: EntityDescription, objectID: String
  ) throws(RecordError) -> [NamedValue<RelationshipValue>] {
    guard let object = try json.optionalObject("relationships") else { return [] }
    var values: [NamedValue<RelationshipValue>] = []
    values.reserveCapacity(object.count)
    try object.forEachMember { key, value throws(RecordError) in
      let name = key.string ?? ""
      guard let relationship = entity.relationship(named: name) else {
        throw RecordError(.badRequest, "\(entity.name).\(name): the model has no such relationship")
      }
      values.append(
        NamedValue(
          name: name, value: try self.value(value, of: relationship, path: "\(entity.name).\(name)", objectID: objectID)
        ))
    }
    return values.sorted { $0.name < $1.name }
  }

  private func value(
    _ json: JSONValue, of relationship: RelationshipDescription, path: String, objectID: String
  ) throws(RecordError) -> RelationshipValue {
    guard relationship.isToMany else {
      if json.isNull { return .toOne(nil) }
      guard let target = json.string else {
        throw RecordError(.badRequest, "\(path): a to-one relationship is an objectID or null")
      }
      return .toOne(try checked(target, path, relationship))
    }
    if relationship.link != nil { _ = try checked(objectID, path, relationship) }
    switch json.kind {
    case .array: return .toMany(try targets(json, path, relationship))
    case .object where json["add"] != nil || json["remove"] != nil:
      return .toManyDelta(
        add: try json.member("add").map { list throws(RecordError) in try targets(list, path, relationship) } ?? [],
        remove: try json.member("remove").map { list throws(RecordError) in try targets(list, path, relationship) }
          ?? [])
    default:
      throw RecordError(
        .badRequest, "\(path): a to-many relationship is an array of objectIDs, or an object with add and remove")
    }
  }

  private func targets(_ json: JSONValue, _ path: String, _ relationship: RelationshipDescription) throws(RecordError)
    -> [String]
  {
    guard json.kind == .array else { throw RecordError(.badRequest, "\(path): expected an array of objectIDs") }
    var targets: [String] = []
    targets.reserveCapacity(json.count)
    try json.forEachElement { item throws(RecordError) in
      guard let target = item.string else { throw RecordError(.badRequest, "\(path): expected an array of objectIDs") }
      targets.append(try checked(target, path, relationship))
    }
    return targets
  }

  /// Names both ends of a link record can be written with are without its separator (R13).
  private func checked(_ objectID: String, _ path: String, _ relationship: RelationshipDescription) throws(RecordError)
    -> String
  {
    if let problem = Self.problem(ofObjectID: objectID) { throw RecordError(.badRequest, "\(path): \(problem)") }
    if relationship.link != nil, objectID.contains(ReservedName.linkSeparator) {
      throw RecordError(
        .badRequest,
        "\(path): an objectID with '\(ReservedName.linkSeparator)' can't take part in a many-to-many relationship")
    }
    return objectID
  }
}
