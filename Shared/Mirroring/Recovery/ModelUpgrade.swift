// Finds the records that a store must import again because its model knows more than before (I8).

public import ObjectModel
public import Records

/// Finds the records that give a store more with its present model than they gave with the earlier one.
///
/// Records that gave everything already stay as they are, even if the present model reads less of them.
public struct ModelUpgrade: Sendable {
  private let model: ModelIndex
  private let links: LinkResolver
  /// The earlier model; nil if it is no longer known: every record is sent again then.
  private let earlier: (links: LinkResolver, entityNames: Set<String>?)?
  /// Names of the store's entities that the earlier model lacks, or that have gained properties.
  private let grown: Set<String>
  private let hasNewLinks: Bool

  /// - Parameters:
  ///   - earlier: the earlier model, and the entities of the store's configuration at that time (nil: all).
  ///   - entityNames: the entities of the present configuration (nil: all).
  public init(
    from earlier: (model: ModelIndex, entityNames: Set<String>?)?, to model: ModelIndex, entityNames: Set<String>?
  ) {
    self.model = model
    links = LinkResolver(model)
    self.earlier = earlier.map { (LinkResolver($0.model), $0.entityNames) }
    let mirrored = model.entities.filter { entityNames?.contains($0.name) ?? true }
    grown = Set(
      mirrored.filter { entity in
        guard let earlier, earlier.entityNames?.contains(entity.name) ?? true else { return true }
        return entity.hasGrown(since: earlier.model.entity(named: entity.name))
      }
      .map(\.name))
    hasNewLinks =
      earlier.map { earlier in
        let known = Set(earlier.model.entities.flatMap(\.mirroredLinks).compactMap(\.link))
        let isNarrower = earlier.entityNames != nil && earlier.entityNames != entityNames
        return isNarrower || mirrored.flatMap(\.mirroredLinks).compactMap(\.link).contains { !known.contains($0) }
      } ?? true
  }

  /// No record gives the store more.
  public var isEmpty: Bool { grown.isEmpty && !hasNewLinks }

  /// True if a live record, or an object's tombstone, gives the store more than before.
  public func concerns(_ record: Record) -> Bool {
    if LinkRecord.isLink(recordType: record.recordType) {
      guard hasNewLinks, let parts = LinkRecord(record), links.resolve(parts) != nil else { return false }
      guard let earlier, let before = earlier.links.resolve(parts), let names = earlier.entityNames else {
        return earlier?.links.resolve(parts) == nil
      }
      return !names.contains(before.entity.name) || !names.contains(before.targetEntity.name)
    }
    guard let entity = Deserializer(model).entity(of: record) else { return false }
    return grown.contains(entity.name)
  }
}

extension EntityDescription {
  /// True if records give more by this description than by an earlier one.
  fileprivate func hasGrown(since earlier: EntityDescription?) -> Bool {
    guard let earlier, earlier.recordType == recordType else { return true }
    return mirroredAttributes.contains { attribute in
      earlier.attribute(named: attribute.name).map { !$0.isMirrored || $0.attribute != attribute.attribute } ?? true
    }
      || mirroredToOnes.contains { relationship in
        guard let before = earlier.relationship(named: relationship.name), case .field = before.storage else {
          return true
        }
        return before.destinationName != relationship.destinationName
      }
  }
}
