// Records into import changes (I3, R2, R6, R9, R10, R13, T-M20–T-M24).

import History
public import ObjectModel
import Records

/// Turns the records of a zone's feed into changes for one store's model.
public struct Importer: Sendable {
  public let deserializer: Deserializer
  private let links: LinkResolver
  /// Names of the entities of the store's configuration; nil means all.
  private let entityNames: Set<String>?

  public init(model: ModelIndex, links: LinkResolver, entityNames: Set<String>? = nil) {
    deserializer = Deserializer(model)
    self.links = links
    self.entityNames = entityNames
  }

  /// - Parameter source: the zone, in the state in which the record was read.
  public func outcome(of stored: SourceRecord, in source: some RecordSource) throws -> ImportOutcome {
    let record = stored.record
    if record.recordName.hasPrefix(ReservedName.fakeRecordPrefix) { return .nothing }
    if LinkRecord.isLink(recordType: record.recordType) { return try outcome(ofLink: stored, in: source) }
    guard
      let entity = deserializer.entity(of: record) ?? (stored.isDeleted ? deserializer.rootEntity(of: record) : nil),
      isMirrored(entity)
    else {
      return .nothing
    }
    if stored.isDeleted { return .change(.delete(entity: entity.name, objectID: record.recordName)) }
    let object: ObjectValues
    do throws(MirroringProblem) {
      object = try deserializer.object(entity, from: record)
    } catch {
      return .problem(error)
    }
    return .change(.save(try withoutLostTargets(object, in: source), record))
  }

  /// A record client may delete an object and leave pointers to it behind: nobody waits for it (I11, T-O05).
  private func withoutLostTargets(_ object: ObjectValues, in source: some RecordSource) throws -> ObjectValues {
    var object = object
    for index in object.relationships.indices {
      guard let target = object.relationships[index].value, try source.isTombstone(named: target) else { continue }
      object.relationships[index] = NamedValue(name: object.relationships[index].name, value: nil)
    }
    return object
  }

  private func isMirrored(_ entity: EntityDescription) -> Bool { entityNames?.contains(entity.name) ?? true }

  private func outcome(ofLink stored: SourceRecord, in source: some RecordSource) throws -> ImportOutcome {
    guard let parts = LinkRecord(stored.record) else {
      // A malformed link never made a pair, so its tombstone undoes nothing.
      if stored.isDeleted { return .nothing }
      return .problem(
        MirroringProblem(
          recordName: stored.record.recordName, entity: stored.record.recordType, code: .badRequest,
          reason: "a link record names two entities, relationships and records, each pair with one ':' between"))
    }
    guard let link = links.resolve(parts), isMirrored(link.entity), isMirrored(link.targetEntity) else {
      return .nothing
    }
    if !stored.isDeleted {
      // A record client may delete one end of a link and leave the link: no device may wait for that end (T-O03).
      let isLost = try source.isTombstone(named: link.objectID) || source.isTombstone(named: link.targetID)
      return .change(isLost ? .unlink(link) : .link(link))
    }
    return try isMadeByAnother(link, in: source) ? .nothing : .change(.unlink(link))
  }

  /// True if another live record makes the same pair, if only in the zone to which it was moved since: then the
  /// deletion of one changes nothing (T-C11).
  private func isMadeByAnother(_ link: MirroredLink, in source: some RecordSource) throws -> Bool {
    if try isMade(link, in: source) { return true }
    guard let next = try source.source(ofMoved: link.objectID) else { return false }
    return try isMade(link, in: next)
  }

  private func isMade(_ link: MirroredLink, in source: any RecordSource) throws -> Bool {
    let field = ReservedName.linkRecordNames
    let first = try source.pointers(to: link.objectID).filter { $0.field == field }
    if first.isEmpty { return false }
    let second = link.targetID == link.objectID ? nil : Set(try source.pointers(to: link.targetID))
    for pointer in first where second?.contains(pointer) ?? true {
      guard let other = try source.record(named: pointer.source), !other.isDeleted, let parts = LinkRecord(other.record)
      else { continue }
      if links.resolve(parts)?.key == link.key { return true }
    }
    return false
  }
}

extension Deserializer {
  /// The root entity of a record's type, for a tombstone with no entity name or one that this model does not know.
  func rootEntity(of record: Record) -> EntityDescription? { model.rootEntity(forRecordType: record.recordType) }
}
