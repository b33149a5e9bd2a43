// Objects that a store sends again, because their zone ended or another account had them: they give a zone what it
// lacks, since somebody else may have sent them before, and edited or deleted them since.

public import History
import ObjectModel
import Records

extension HistoryTransaction {
  /// True if a store sends again what it had before (P8).
  public var isSentAgain: Bool { author == ReservedName.reuploadAuthor }
}

extension Exporter {
  /// True if the transaction sends again what its store had before.
  var isSentAgain: Bool { origin.isSentAgain }

  /// True if an object is sent again that another writer has written to the zone or deleted there.
  mutating func isOthers(_ objectID: String) throws -> Bool {
    guard isSentAgain else { return false }
    let store = judge?.store ?? 0
    return try overlay.with(objectID) { entry in entry.base?.isNews(to: store, after: 0) ?? false }
  }

  /// Gives somebody else's object the values that nobody has ever told of it: their device may have lacked them. The
  /// store imports the object if it differs, and its deletion if it is gone.
  mutating func complete(_ change: HistoryChange, of entity: EntityDescription) throws {
    var entry = try overlay.entry(change.objectID)
    guard let present = entry.record else {
      withdrawn.append(unmadeRecord(of: change, entity))
      return
    }
    try Self.check(present, is: entity, change, model)
    var (sent, completed) = (present, present)
    var told: [Record]?
    try serializer.write(change.attributes, of: entity, into: &sent)
    for named in change.attributes {
      guard let attribute = entity.attribute(named: named.name), attribute.isMirrored else { continue }
      let content = FieldContent(of: attribute, in: present)
      if content == FieldContent(of: attribute, in: sent) { continue }
      entry.isToldAgain = true
      guard content.value == nil else { continue }
      let states = try told ?? self.told(of: change.objectID)
      told = states
      if states.contains(where: { FieldContent(of: attribute, in: $0).value != nil }) { continue }
      try serializer.write([named], of: entity, into: &completed)
    }
    entry.record = completed
    overlay.set(entry, named: change.objectID)
  }

  /// Whether a pointer may be set: what is sent again takes back no pointer that somebody else has set or cleared, and
  /// no partner of a one-to-one relationship. Pairs are united, since no record tells which of them somebody ended.
  mutating func mayPoint(
    _ owner: String, _ relationship: RelationshipDescription, _ field: String, to target: String?
  ) throws -> Bool {
    guard isSentAgain, let target else { return !isSentAgain }
    if try isOthers(owner) {
      let present = try overlay.entry(owner).record?.fields.string(field)
      if present == target { return true }
      if try present != nil || told(of: owner).contains(where: { $0.fields.string(field) != nil }) { return false }
      // Its device has imported the object without it.
      try overlay.with(owner) { entry in entry.isToldAgain = true }
    }
    guard let inverse = relationship.inverse, !inverse.isToMany else { return true }
    let partners = try sources(named: relationship.name, declaredBy: relationship.declaringEntityName, to: target)
    let others = try sources(named: inverse.name, declaredBy: inverse.declaringEntityName, to: owner)
    let partner = try overlay.entry(target).record?.fields.string(ReservedName.fieldPrefix + inverse.name)
    return partners.allSatisfy { $0 == owner } && others.allSatisfy { $0 == target } && partner ?? owner == owner
  }

  /// The states in which the zone has told of the object.
  private func told(of objectID: String) throws -> [Record] {
    try overlay.source.history(of: objectID, since: 0).states.filter { !$0.isDeleted }.map(\.record)
  }
}
