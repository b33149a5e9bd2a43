// The attributes and entities that a model renames or drops, compared with an earlier model.

import Records

/// A mirrored attribute that a model does not have any more.
public struct LostAttribute: Hashable, Sendable {
  /// The field in which records hold its values.
  public let name: SchemaFieldName
  /// The field that replaces it; nil if there is none.
  public let successor: String?
  /// True if the model declares the successor as the same attribute (`renamingIdentifier`); false if the successor is
  /// the only added attribute of its type.
  public let isDeclared: Bool
}

/// A mirrored to-one relationship that an earlier model calls otherwise. No device migrates to it: its records have
/// one name.
public struct RenamedToOne: Hashable, Sendable {
  public let entity: String
  public let name: String
  /// What is wrong, and what helps.
  public let message: String

  fileprivate init(_ entity: String, _ name: String, former: String) {
    (self.entity, self.name) = (entity, name)
    message =
      "\(entity).\(name) was called \(former). A to-one relationship keeps its name. Keep \(former), or add a "
      + "relationship beside it and fill that in a migration step."
  }
}

extension ModelIndex {
  /// To-one relationships that `earlier` calls otherwise, by entity.
  public func renamedToOnes(since earlier: ModelIndex) -> [RenamedToOne] {
    entities.flatMap { entity -> [RenamedToOne] in
      let names = [entity.name, entity.entity.renamingIdentifier].compactMap { $0 }
      guard let former = names.compactMap({ earlier.entity(named: $0) }).first else { return [] }
      return entity.mirroredToOnes.filter { $0.declaringEntityName == entity.name }.compactMap { relationship in
        guard let identifier = relationship.relationship.renamingIdentifier, identifier != relationship.name,
          let before = former.mirroredToOnes.first(where: {
            $0.relationship.renamingIdentifier == identifier || $0.name == identifier
          }), former.relationship(named: relationship.name)?.relationship.renamingIdentifier != identifier
        else { return nil }
        return RenamedToOne(entity.name, relationship.name, former: before.name)
      }
    }
  }

  /// Attributes that `earlier` mirrors and this model does not, of entities that both have or that this model declares
  /// as renamed; ascending.
  public func lostAttributes(since earlier: ModelIndex) -> [LostAttribute] {
    var lost: [LostAttribute] = []
    for old in earlier.entities {
      guard let new = entity(named: old.name) ?? entities.first(where: { $0.entity.renamingIdentifier == old.name }),
        new.recordType == old.recordType
      else { continue }
      let kept = Set(new.mirroredAttributes.map(\.fieldName))
      let known = Set(old.mirroredAttributes.map(\.fieldName))
      let gone = old.mirroredAttributes.filter { !kept.contains($0.fieldName) && $0.declaringEntityName == old.name }
      let added = new.mirroredAttributes.filter { !known.contains($0.fieldName) && $0.declaringEntityName == new.name }
      for attribute in gone {
        let names = [attribute.name, attribute.attribute.renamingIdentifier].compactMap { $0 }
        let heir = added.first { $0.attribute.renamingIdentifier.map(names.contains) ?? false }
        let alike = added.filter { $0.type == attribute.type && $0.attribute.renamingIdentifier == nil }
        let isOnly = alike.count == 1 && gone.count { $0.type == attribute.type } == 1
        lost.append(
          LostAttribute(
            name: SchemaFieldName(recordType: old.recordType, field: attribute.fieldName),
            successor: heir?.fieldName ?? (isOnly ? alike.first?.fieldName : nil),
            isDeclared: heir != nil))
      }
    }
    return lost.sorted { $0.name < $1.name }
  }

  /// Record types of root entities that this model does not have, each with the record type of the renamed entity, if
  /// there is one.
  public func lostEntities(since earlier: ModelIndex) -> [(recordType: String, successor: String?)] {
    earlier.entities.filter { $0.name == $0.rootName && rootEntity(forRecordType: $0.recordType) == nil }.map { old in
      (old.recordType, entities.first { $0.entity.renamingIdentifier == old.name }?.recordType)
    }
  }
}
