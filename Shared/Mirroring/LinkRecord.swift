// Many-to-many pairs as records: CDMR, and the older `CD_M2M_…` form that must stay readable (R13–R15).

public import ObjectModel
public import Records

/// A link record split into its parts, without a model.
public struct LinkRecord: Hashable, Sendable {
  public enum Form: Hashable, Sendable {
    /// CDMR: entity and relationship names in the order of `recordNames`.
    case pair(entityNames: Pair, relationshipNames: Pair)
    /// Legacy: the record type `CD_M2M_<Entity>_<relationship>` of the first end.
    case legacy(recordType: String)
  }

  public struct Pair: Hashable, Sendable {
    public let first: String
    public let second: String

    /// nil unless `text` is two non-empty parts with one separator between them.
    init?(_ text: String) {
      // Compares bytes: characters cost many times more, and every link that is made or deleted passes here.
      let bytes = text.utf8
      guard let mark = ReservedName.linkSeparator.asciiValue, let separator = bytes.firstIndex(of: mark),
        separator > bytes.startIndex
      else { return nil }
      let rest = bytes.index(after: separator)
      guard rest < bytes.endIndex, !bytes[rest...].contains(mark) else { return nil }
      first = String(text[..<separator])
      second = String(text[rest...])
    }

    init(first: String, second: String) {
      self.first = first
      self.second = second
    }

    var swapped: Pair { Pair(first: second, second: first) }
  }

  public let form: Form
  public let ends: Pair

  public var recordNames: (String, String) { (ends.first, ends.second) }

  /// True if a record type is one of links; the record may still be malformed.
  public static func isLink(recordType: String) -> Bool {
    recordType == ReservedName.linkRecordType || recordType.hasPrefix(ReservedName.legacyLinkPrefix)
  }

  /// nil for records that are no links, and for malformed ones (T-M21).
  public init?(_ record: Record) {
    if record.recordType == ReservedName.linkRecordType {
      guard let entityNames = record.fields.string(ReservedName.linkEntityNames).flatMap(Pair.init),
        let relationshipNames = record.fields.string(ReservedName.linkRelationships).flatMap(Pair.init),
        let ends = record.fields.string(ReservedName.linkRecordNames).flatMap(Pair.init)
      else { return nil }
      form = .pair(entityNames: entityNames, relationshipNames: relationshipNames)
      self.ends = ends
    } else if record.recordType.hasPrefix(ReservedName.legacyLinkPrefix), let ends = Pair(record.recordName) {
      form = .legacy(recordType: record.recordType)
      self.ends = ends
    } else {
      return nil
    }
  }

  /// The fields of a pair's CDMR record.
  public static func fields(of link: LinkDescription, source: String, target: String) -> Fields {
    [
      ReservedName.linkEntityNames: .string(link.entityNames),
      ReservedName.linkRelationships: .string(link.relationshipNames),
      ReservedName.linkRecordNames: .string(link.recordNames(source: source, target: target)),
    ]
  }
}

/// A pair of a many-to-many relationship, seen from the end that comes first in the canonical order.
public struct MirroredLink: Sendable {
  public let entity: EntityDescription
  public let relationship: RelationshipDescription
  public let targetEntity: EntityDescription
  public let objectID: String
  public let targetID: String
  /// `mtmKey`: equal for every record of the same pair (R14).
  public let key: String

  func other(than objectID: String) -> String { objectID == self.objectID ? targetID : self.objectID }
}

/// Finds a model's relationship for a link record.
public struct LinkResolver: Sendable {
  private let model: ModelIndex
  /// By record type, `CD_M2M_<Entity>_<relationship>`.
  private let legacy: [String: (entity: EntityDescription, relationship: RelationshipDescription)]

  public init(_ model: ModelIndex) {
    self.model = model
    var legacy: [String: (entity: EntityDescription, relationship: RelationshipDescription)] = [:]
    for entity in model.entities {
      for relationship in entity.mirroredLinks {
        for name in relationship.formerNames + [relationship.name] {
          legacy["\(ReservedName.legacyLinkPrefix)\(entity.name)_\(name)"] = (entity, relationship)
        }
      }
    }
    self.legacy = legacy
  }

  /// The pair; nil when the model has no such relationship. Accepts either order of the two ends, the declaring or any
  /// concrete entity's name (R13), and the relationships' former names (R18).
  public func resolve(_ link: LinkRecord) -> MirroredLink? {
    switch link.form {
    case .legacy(let recordType):
      guard let found = legacy[recordType], let target = model.entity(named: found.relationship.destinationName) else {
        return nil
      }
      return canonical(found.entity, found.relationship, target, ends: link.ends)
    case .pair(let entityNames, let relationshipNames):
      guard let entity = model.entity(named: entityNames.first), let target = model.entity(named: entityNames.second),
        let relationship = entity.relationship(spelled: relationshipNames.first), relationship.link != nil,
        let inverse = target.relationship(spelled: relationshipNames.second), inverse.link != nil,
        relationship.inverse?.name == inverse.name
      else { return nil }
      return canonical(entity, relationship, target, ends: link.ends)
    }
  }

  private func canonical(
    _ entity: EntityDescription, _ relationship: RelationshipDescription, _ target: EntityDescription,
    ends: LinkRecord.Pair
  ) -> MirroredLink? {
    guard let link = relationship.link else { return nil }
    let key = link.key(source: ends.first, target: ends.second)
    if link.isSymmetric {
      let ordered = ends.first <= ends.second ? ends : ends.swapped
      return MirroredLink(
        entity: entity, relationship: relationship, targetEntity: target, objectID: ordered.first,
        targetID: ordered.second, key: key)
    }
    if link.isSourceFirst {
      return MirroredLink(
        entity: entity, relationship: relationship, targetEntity: target, objectID: ends.first, targetID: ends.second,
        key: key)
    }
    guard let inverse = relationship.inverse, let reversed = target.relationship(named: inverse.name) else {
      return nil
    }
    return MirroredLink(
      entity: target, relationship: reversed, targetEntity: entity, objectID: ends.second, targetID: ends.first,
      key: key)
  }
}

extension EntityDescription {
  /// The relationship of that name, or of that former name.
  fileprivate func relationship(spelled name: String) -> RelationshipDescription? {
    relationship(named: name) ?? currentName(of: name).flatMap { relationship(named: $0) }
  }
}
