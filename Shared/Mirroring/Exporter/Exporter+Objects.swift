// Inserts, edits and deletes objects in an export run.

import History
import ObjectModel
import Records

extension Exporter {
  /// Inserts an object. Over a live record of the same entity it writes the change's values; over a tombstone it makes
  /// the object anew.
  mutating func insert(_ change: HistoryChange) throws {
    let entity = try entity(of: change)
    if try isOthers(change.objectID) { return try complete(change, of: entity) }
    // Nobody else has edited a new object: only a policy of its own attributes has something to settle.
    let isJudged = judge?.edit != nil
    if !isJudged || judge?.rules.policies(of: entity.name) == nil {
      let (serializer, model, new) = (serializer, model, newRecord(of: entity, change))
      // In place: a first import consists almost entirely of these inserts.
      let isDone = try overlay.with(change.objectID) { entry in
        if isJudged, entry.record != nil { return false }
        if let existing = entry.record { try Self.check(existing, is: entity, change, model) }
        entry.record = try Self.written(change, of: entity, over: entry.record ?? new, serializer)
        entry.isServersDeletion = false
        if Self.rounds(change, of: entity) { entry.isToldAgain = true }
        return true
      }
      if isDone { return }
    }
    var entry = try overlay.entry(change.objectID)
    let existing = entry.record
    if let existing { try Self.check(existing, is: entity, change, model) }
    entry.record = try Self.written(change, of: entity, over: existing ?? newRecord(of: entity, change), serializer)
    entry.isServersDeletion = false
    if Self.rounds(change, of: entity) { entry.isToldAgain = true }
    try settle(change, of: entity, over: existing, in: &entry)
    overlay.set(entry, named: change.objectID)
  }

  private static func written(
    _ change: HistoryChange, of entity: EntityDescription, over record: consuming Record, _ serializer: Serializer
  ) throws -> Record {
    // The record keeps the name of an entity that only a later model knows.
    if record.fields[ReservedName.entityName] == nil {
      record.fields[ReservedName.entityName] = Field(.string(entity.name))
    }
    try serializer.write(change.attributes, of: entity, into: &record)
    return record
  }

  /// Whether the zone keeps another number than the store sent, which the store is then told: a Decimal with more
  /// digits than its DOUBLE field has.
  private static func rounds(_ change: HistoryChange, of entity: EntityDescription) -> Bool {
    change.attributes.contains { named in
      guard case .decimal(let text) = named.value, let number = DecimalText.double(text) else { return false }
      guard let attribute = entity.attribute(named: named.name), attribute.isMirrored, attribute.exactFieldName == nil
      else { return false }
      return DecimalText.exact(text) != DecimalText.exact(DecimalText.text(number))
    }
  }

  private func newRecord(of entity: EntityDescription, _ change: HistoryChange) -> Record {
    var record = Record(
      recordName: change.objectID, recordType: entity.recordType, fields: Fields(), created: stamp, modified: stamp)
    record.fields.reserveCapacity(1 + change.attributes.count + change.relationships.count)
    return record
  }

  /// The set that wants the object, for a change that only puts it into one (`wait(for:toBePutInto:by:of:)`).
  private static func purpose(of change: HistoryChange, to entity: EntityDescription) -> String {
    guard change.attributes.isEmpty, change.relationships.count == 1,
      let relationship = entity.relationship(named: change.relationships[0].name), let inverse = relationship.inverse
    else { return "" }
    return " for \(relationship.destinationName).\(inverse.name)"
  }

  mutating func update(_ change: HistoryChange) throws {
    let entity = try entity(of: change)
    var entry = try overlay.entry(change.objectID)
    if entry.record == nil, judge != nil, let revived = try revived(change, entity, entry) { entry = revived }
    guard var record = entry.record else {
      if judge != nil { try noteDeleted(change, entry) }
      let reason =
        entry.isGone
        ? "the object was deleted; an edit does not bring it back"
        : "there is no such object" + Self.purpose(of: change, to: entity)
      throw MirroringProblem(
        recordName: change.objectID, entity: change.entity, code: .notFound, reason: reason,
        cause: entry.isGone ? .deleted : .missing)
    }
    try Self.check(record, is: entity, change, model)
    let before = record
    try serializer.write(change.attributes, of: entity, into: &record)
    entry.record = record
    if Self.rounds(change, of: entity) { entry.isToldAgain = true }
    if judge != nil { try settle(change, of: entity, over: before, in: &entry) }
    overlay.set(entry, named: change.objectID)
  }

  /// Deletes an object with its links, and clears the pointers to it. Deleting a deleted object is no error, and one
  /// that the zone lacks leaves a tombstone: another device may send it again (P8).
  ///
  /// Deleting a duplicate deletes the survivor too, unless the store has imported since the merge: then the store may
  /// be merging duplicates by itself.
  mutating func delete(_ change: HistoryChange) throws {
    let entity = try entity(of: change)
    if let redirect = try redirect(of: change.objectID), importedAt < redirect.since,
      try overlay.entry(redirect.survivor).record != nil
    {
      standIns.insert(redirect.survivor)
      try deleteObject(redirect.survivor, isServersOwn: true)
    }
    guard let record = try overlay.entry(change.objectID).record else { return try bury(change, entity) }
    try Self.check(record, is: entity, change, model)
    if judge != nil, try survives(change, entity) { return }
    try deleteObject(change.objectID)
  }

  mutating func deleteObject(_ objectID: String, isServersOwn: Bool = false) throws {
    guard try overlay.entry(objectID).record != nil else { return }
    try remove(objectID, isServersOwn: isServersOwn)
    try forgetCompany(of: objectID)
  }

  /// Deletes an object that the zone never had, as far as it knows, unless it was made and could not be written.
  private mutating func bury(_ change: HistoryChange, _ entity: EntityDescription) throws {
    let name = change.objectID
    guard try !overlay.entry(name).isGone,
      !leftOut.contains(where: { $0.change.objectID == name && $0.change.changeType == .insert })
    else { return }
    try remove(name)
    buried.append(unmadeRecord(of: change, entity))
    try forgetCompany(of: name)
  }

  /// The tombstone's content for an object without a record.
  func unmadeRecord(of change: HistoryChange, _ entity: EntityDescription) -> Record {
    Record(
      recordName: change.objectID, recordType: entity.recordType,
      fields: [ReservedName.entityName: .string(entity.name)], created: stamp, modified: stamp)
  }

  private mutating func forgetCompany(of objectID: String) throws {
    for pointer in try overlay.pointers(to: objectID) where pointer.source != objectID {
      if pointer.field == ReservedName.linkRecordNames {
        try remove(pointer.source)
      } else {
        try clear(pointer.field, of: pointer.source)
      }
    }
  }

  /// H9: the import deleted the object here, so what this store did to it since is of no interest any more.
  mutating func dropState(of objectID: String) throws {
    let entry = try overlay.entry(objectID)
    overlay.set(OverlayEntry(base: entry.base), named: objectID)
    for pointer in try overlay.pointers(to: objectID, by: ReservedName.linkRecordNames) {
      let link = try overlay.entry(pointer.source)
      overlay.set(OverlayEntry(base: link.base), named: pointer.source)
    }
  }

  mutating func remove(_ recordName: String, isServersOwn: Bool = false) throws {
    var entry = try overlay.entry(recordName)
    entry.record = nil
    entry.serverFields = []
    entry.isServersDeletion = isServersOwn
    entry.isRemoved = true
    overlay.set(entry, named: recordName)
  }

  /// Clears a to-one field on behalf of the server.
  mutating func clear(_ field: String, of recordName: String) throws {
    try overlay.with(recordName) { entry in
      guard entry.record?.fields[field] != nil else { return }
      entry.record?.fields[field] = nil
      entry.serverFields.insert(field)
      entry.clearedFields.insert(field)
    }
  }

  private func entity(of change: HistoryChange) throws(MirroringProblem) -> EntityDescription {
    if let entity = model.entity(named: change.entity) { return entity }
    throw MirroringProblem(
      recordName: change.objectID, entity: change.entity, code: .badRequest,
      reason: "the store's model has no entity \(change.entity)")
  }

  /// Refuses a change whose name belongs to an object of another entity: names are unique over all entities. An edit or
  /// a deletion may name a superentity of the object's entity; an insert must name the entity itself.
  static func check(
    _ record: Record, is entity: EntityDescription, _ change: HistoryChange, _ model: ModelIndex
  ) throws(MirroringProblem) {
    guard record.recordType == entity.recordType else {
      throw conflict(change, "the name belongs to a record of type \(record.recordType)")
    }
    guard let name = record.fields.string(ReservedName.entityName), name != entity.name,
      let stored = model.entity(named: name)
    else { return }
    if change.changeType != .insert, stored.isKind(of: entity) { return }
    throw conflict(change, "the name belongs to an object of entity \(name)")
  }

  private static func conflict(_ change: HistoryChange, _ reason: String) -> MirroringProblem {
    MirroringProblem(recordName: change.objectID, entity: change.entity, code: .conflict, reason: reason)
  }
}
