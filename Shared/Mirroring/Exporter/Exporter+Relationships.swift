// To-one relationships, and one-to-many ones given from the parent's side; inverses are kept here (R11, R12, I6).

import History
public import ObjectModel
import Records

extension Exporter {
  mutating func setRelationships(of change: HistoryChange) throws {
    guard let entity = model.entity(named: change.entity) else { return }
    guard try overlay.with(change.objectID, { $0.record != nil }) else { return try tellAgain(change) }
    for named in change.relationships {
      guard let relationship = entity.relationship(named: named.name) else { continue }
      switch (relationship.storage, named.value) {
      case (.field(let field), .toOne(let target)):
        try setToOne(relationship, field: field, of: change, entity: entity, to: target)
      case (.inverseField(let field), let value):
        try setChildren(relationship, field: field, of: change, entity: entity, to: value)
      case (.link(let link), let value):
        try setLinks(relationship, link, of: change, entity: entity, to: value)
      case (.field, _):
        leaveOut(
          named.name, named.value, of: change,
          "\(change.entity).\(named.name) is a to-one relationship, but the value is a set")
      case (.none, _): break
      }
    }
  }

  /// The state of an object that a relationship is to point to.
  enum Target {
    case alive
    /// Nobody knows the object yet; it may still arrive.
    case unknown
    /// The object is deleted, and nothing may point to it.
    case gone
    case wrongEntity
    /// The object lies in another zone, and no pointer crosses zones.
    case inZone(String)
  }

  mutating func target(_ objectID: String, of relationship: RelationshipDescription) throws -> Target {
    // Reads only the parts it needs: copying the record costs more than the whole check.
    let (recordType, entityName, isGone) = try overlay.with(objectID) { entry in
      (entry.record?.recordType, entry.record?.fields.string(ReservedName.entityName), entry.isGone)
    }
    if let recordType { return fits(recordType, entityName, relationship) ? .alive : .wrongEntity }
    switch try elsewhere?(objectID) {
    case .alive(let zoneName)?: return .inZone(zoneName)
    case .tombstone?: return .gone
    case .unknown?, nil: return isGone || passing.contains(objectID) ? .gone : .unknown
    }
  }

  /// True if an object's entity fits the relationship's destination.
  private func fits(_ recordType: String, _ entityName: String?, _ relationship: RelationshipDescription) -> Bool {
    guard let destination = model.entity(named: relationship.destinationName), recordType == destination.recordType
    else { return false }
    // Every entity of the hierarchy fits a root entity, and this model does not judge entities that only a later model
    // knows.
    guard !destination.superentityNames.isEmpty,
      let entity = model.entity(recordType: recordType, entityName: entityName)
    else { return true }
    return entity.isKind(of: destination)
  }

  private mutating func setToOne(
    _ relationship: RelationshipDescription, field: String, of change: HistoryChange, entity: EntityDescription,
    to target: String?
  ) throws {
    let owner = change.objectID
    if try !mayPoint(owner, relationship, field, to: target) { return try tellPointer(of: owner) }
    if judge != nil { try noteOverwritten(relationship, field: field, of: change, entity: entity, by: target) }
    var target = target
    switch try target.map({ try self.target($0, of: relationship) }) {
    case .wrongEntity?:
      return leaveOut(
        relationship.name, .toOne(target), of: change,
        "\(entity.name).\(relationship.name) points to an object that is not of entity \(relationship.destinationName)")
    case .inZone(let zoneName)?: return leaveOut(relationship, .toOne(target), of: change, across: zoneName)
    case .gone?:
      // Somebody deleted the target first (T-O05): the sender learns that its object points nowhere, even if the record
      // has no pointer as it is. Another object may get the target's name.
      if let target, try !overlay.entry(target).isRemoved { try tellPointer(of: owner) }
      target = nil
      try point(owner, field, to: nil)
    case .alive?:
      try point(owner, field, to: target)
      if let target, try mayLack(target) { try tellPointer(of: owner) }
    case .unknown?, nil:
      try point(owner, field, to: target)
    }
    guard let inverse = relationship.inverse, !inverse.isToMany else { return }
    // One-to-one: both ends lose their earlier partners.
    try clearPointers(named: inverse.name, declaredBy: inverse.declaringEntityName, to: owner, but: target)
    guard let target else { return }
    try clearPointers(named: relationship.name, declaredBy: relationship.declaringEntityName, to: target, but: owner)
    let inverseField = ReservedName.fieldPrefix + inverse.name
    // Its device has imported the target without it: somebody else made that anew.
    if isSentAgain, try overlay.entry(target).record?.fields.string(inverseField) != owner {
      try tellPointer(of: target)
    }
    try point(target, inverseField, to: owner)
  }

  /// Sets a to-one field that the client named.
  private mutating func point(_ source: String, _ field: String, to target: String?) throws {
    let isSet = try overlay.with(source) { entry in
      if entry.record == nil { return false }
      entry.record?.fields[field] = target.map { Field(.string($0)) }
      // Both sets are nearly always empty.
      if !entry.serverFields.isEmpty { entry.serverFields.remove(field) }
      if !entry.clearedFields.isEmpty { entry.clearedFields.remove(field) }
      return true
    }
    if isSet, let target { overlay.notePointer(from: source, field: field, to: target) }
  }

  /// The device has another pointer than the record, because it dropped the target or still has it: it imports the
  /// pointer's owner again.
  private mutating func tellPointer(of source: String) throws {
    try overlay.with(source) { entry in if entry.record != nil { entry.isToldAgain = true } }
  }

  /// The objects that point to `target` by one relationship. Fields of several entities may share a name (`CD_photo` of
  /// a rating and of a thumbnail), so the source's entity decides.
  mutating func sources(named name: String, declaredBy entityName: String, to target: String) throws -> [String] {
    let field = ReservedName.fieldPrefix + name
    let recordType = model.entity(named: entityName)?.recordType
    return try overlay.pointers(to: target, by: field).map(\.source).filter { source in
      guard let record = try overlay.entry(source).record, record.recordType == recordType else { return false }
      guard
        let entity = model.entity(
          recordType: record.recordType, entityName: record.fields.string(ReservedName.entityName))
      else { return true }
      return entity.relationship(named: name)?.declaringEntityName == entityName
    }
  }

  /// The object's to-many relationships in their present state, with the objects in them; both ascending.
  public mutating func sets(of objectID: String, entity: EntityDescription) throws -> [(
    name: String, objectIDs: [String]
  )] {
    var sets: [(name: String, objectIDs: [String])] = []
    for relationship in entity.relationships {
      switch relationship.storage {
      case .inverseField:
        guard let inverse = relationship.inverse else { continue }
        sets.append(
          (
            relationship.name,
            try sources(named: inverse.name, declaredBy: inverse.declaringEntityName, to: objectID).sorted()
          ))
      case .link(let link): sets.append((relationship.name, try Set(linkedObjects(of: objectID, link)).sorted()))
      case .field, .none: break
      }
    }
    return sets
  }

  private mutating func clearPointers(
    named name: String, declaredBy entityName: String, to target: String, but kept: String?
  ) throws {
    for source in try sources(named: name, declaredBy: entityName, to: target) where source != kept {
      try clear(ReservedName.fieldPrefix + name, of: source)
    }
  }

  /// Sets a one-to-many relationship from the parent's side: the children's field stores it.
  private mutating func setChildren(
    _ relationship: RelationshipDescription, field: String, of change: HistoryChange, entity: EntityDescription,
    to value: RelationshipValue
  ) throws {
    let parent = change.objectID
    let (added, removed): ([String], [String])
    switch value {
    case .toMany(let children):
      let kept = Set(children)
      let present =
        try relationship.inverse.map { try sources(named: $0.name, declaredBy: $0.declaringEntityName, to: parent) }
        ?? []
      (added, removed) = (children, present.filter { !kept.contains($0) })
    case .toManyDelta(let add, let remove): (added, removed) = (add, remove)
    case .toOne:
      return leaveOut(
        relationship.name, value, of: change,
        "\(entity.name).\(relationship.name) is a to-many relationship, but the value is not a set")
    }
    if let inverse = relationship.inverse {
      for child in removed { forgetPointer(of: child, inverse.name, to: parent) }
    }
    for child in removed where try !isSentAgain && overlay.entry(child).record?.fields.string(field) == parent {
      try point(child, field, to: nil)
    }
    let isLacked = try mayLack(parent)
    for child in added {
      switch try target(child, of: relationship) {
      case .alive:
        let holder = isSentAgain ? try overlay.entry(child).record?.fields.string(field) : nil
        if holder == nil { try point(child, field, to: parent) }
        if isLacked || isSentAgain { try tellPointer(of: child) }
      case .wrongEntity:
        leaveOut(
          relationship.name, .toManyDelta(add: [child], remove: []), of: change,
          "\(entity.name).\(relationship.name) holds an object that is not of entity \(relationship.destinationName)")
      case .inZone(let zoneName):
        leaveOut(relationship, .toManyDelta(add: [child], remove: []), of: change, across: zoneName)
      case .gone: break
      case .unknown: wait(for: child, toBePutInto: parent, by: relationship, of: entity)
      }
    }
  }

  /// The child's record holds the pointer, so the change is held back under the child's name until the child exists.
  private mutating func wait(
    for child: String, toBePutInto parent: String, by relationship: RelationshipDescription,
    of entity: EntityDescription
  ) {
    let pointers =
      relationship.inverse.map { [NamedValue(name: $0.name, value: RelationshipValue.toOne(parent))] } ?? []
    leaveOut(
      HistoryChange(
        changeType: .update, entity: relationship.destinationName, objectID: child, relationships: pointers),
      MirroringProblem(
        recordName: child, entity: relationship.destinationName, code: .notFound,
        reason: "there is no such object for \(entity.name).\(relationship.name)", cause: .missing))
  }

  /// The objects that a whole set removes, as a delta that adds none; a delta is returned unchanged.
  mutating func removals(of change: HistoryChange, _ set: NamedValue<RelationshipValue>) throws -> RelationshipValue {
    guard case .toMany(let targets) = set.value,
      let relationship = model.entity(named: change.entity)?.relationship(named: set.name)
    else { return set.value }
    let kept = Set(targets)
    let present: [String]
    switch relationship.storage {
    case .link(let link): present = try linkedObjects(of: change.objectID, link)
    case .inverseField:
      present =
        try relationship.inverse.map {
          try sources(named: $0.name, declaredBy: $0.declaringEntityName, to: change.objectID)
        } ?? []
    case .field, .none: present = []
    }
    return .toManyDelta(add: [], remove: present.filter { !kept.contains($0) })
  }
}
