// Records into import changes (I3, R2, R6, R9, R10, R13, T-M20–T-M24).

public import ObjectModel
import Records

/// Turns the records of a zone's feed into changes for one store's model.
public struct Importer: Sendable {
  public let deserializer: Deserializer
  private let links: LinkResolver
  /// Names of the entities of the store's configuration; nil: all.
  private let entityNames: Set<String>?

  public init(model: ModelIndex, links: LinkResolver, entityNames: Set<String>? = nil) {
    deserializer = Deserializer(model)
    self.links = links
    self.entityNames = entityNames
  }

  /// - Parameter source: the zone in the state the record was read in.
  public func outcome(of stored: SourceRecord, in source: some RecordSource) throws -> ImportOutcome {
    let record = stored.record
    if record.recordName.hasPrefix(ReservedName.fakeRecordPrefix) { return .nothing }
    if LinkRecord.isLink(recordType: record.recordType) { return try outcome(ofLink: stored, in: source) }
    guard let entity = deserializer.entity(of: record) ?? (stored.isDeleted ? deserializer.rootEntity(of: record) : nil), isMirrored(entity) else {
      return .nothing
    }
    if stored.isDeleted { return .change(.delete(entity: entity.name, objectID: record.recordName)) }
    do {
      return .change(.save(try deserializer.object(entity, from: record), record))
    } catch {
      return .problem(error)
    }
  }

  private func isMirrored(_ entity: EntityDescription) -> Bool { entityNames?.contains(entity.name) ?? true }

  private func outcome(ofLink stored: SourceRecord, in source: some RecordSource) throws -> ImportOutcome {
    guard let parts = LinkRecord(stored.record) else {
      // A malformed link never made anything, so that its tombstone has nothing to undo.
      if stored.isDeleted { return .nothing }
      return .problem(
        MirroringProblem(
          recordName: stored.record.recordName, entity: stored.record.recordType, code: .badRequest,
          reason: "a link record names two entities, relationships and records, each pair with one ':' between"))
    }
    guard let link = links.resolve(parts), isMirrored(link.entity), isMirrored(link.targetEntity) else { return .nothing }
    if !stored.isDeleted { return .change(.link(link)) }
    return try isMadeByAnother(link, in: source) ? .nothing : .change(.unlink(link))
  }

  /// Whether another live record makes the same pair: then the deletion of one changes nothing (T-C11).
  private func isMadeByAnother(_ link: MirroredLink, in source: some RecordSource) throws -> Bool {
    let field = ReservedName.linkRecordNames
    let first = try source.pointers(to: link.objectID).filter { $0.field == field }
    if first.isEmpty { return false }
    let second = link.targetID == link.objectID ? nil : Set(try source.pointers(to: link.targetID))
    for pointer in first where second?.contains(pointer) ?? true {
      guard let other = try source.record(named: pointer.source), !other.isDeleted, let parts = LinkRecord(other.record) else { continue }
      if links.resolve(parts)?.key == link.key { return true }
    }
    return false
  }
}

extension Deserializer {
  /// The entity to name for a tombstone that does not say its own, or one this model doesn't know.
  func rootEntity(of record: Record) -> EntityDescription? { model.rootEntity(forRecordType: record.recordType) }
}
