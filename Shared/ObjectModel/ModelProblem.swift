// The problems of models, one row a rule (docs/protocol/mirroring.md#problems-of-models), each with its remedy.

/// A CloudKit limitation that a model breaks. One 134060 report carries all of a model's problems.
public struct ModelProblem: Hashable, Sendable {
  /// The raw value is the `rule` of reports: never change it, CI filters use it.
  public enum Rule: String, Hashable, Sendable, CaseIterable {
    case emptyModel, unknownConfiguration, unknownMember
    case duplicateEntity, duplicateProperty, unknownParent, parentCycle
    case entityName, propertyName, reservedName
    case undefinedAttribute, objectIDAttribute, requiredAttribute, unreadableDefault, mergeableStorage, exactDecimal
    case missingDestination, missingInverse, inverseMismatch, orderedRelationship, requiredRelationship, denyDeleteRule,
      configurationCrossing
    case ignoredAttribute, ignoredRelationship, ignoredEntity, encryptedRelationship, encryptedEntity
    case conflictPolicy, deletePolicy, shareBoundary
    case uniquenessConstraint, fieldTypeClash, fieldEncryptionClash, fieldCount, recordByteCount
  }

  /// nil if the problem concerns the whole model.
  public let entity: String?
  /// nil if the problem concerns the whole entity.
  public let property: String?
  public let rule: Rule
  /// One sentence that names entity and property.
  public let message: String

  /// One sentence with the change that solves the problem.
  public var suggestion: String {
    switch rule {
    case .emptyModel: "Add an entity, or name the configuration that has the mirrored ones."
    case .unknownConfiguration: "Name a configuration of the model, or none for all entities."
    case .unknownMember: "Remove the entity from the configuration."
    case .duplicateEntity, .duplicateProperty: "Rename one of them."
    case .unknownParent: "Add the parent entity, or remove it from this one."
    case .parentCycle: "Let one of the entities have no parent."
    case .entityName, .propertyName:
      "Use a name of ASCII letters, digits and underscores that begins with a letter and is short enough for a field."
    case .reservedName: "Rename the property: mirroring uses the field itself."
    case .undefinedAttribute: "Choose the attribute's type."
    case .objectIDAttribute: "Use a relationship, or store the object's URI."
    case .requiredAttribute: "Make the attribute optional or give it a default value."
    case .unreadableDefault: "Correct the default value."
    case .mergeableStorage: "Turn mergeable storage off."
    case .exactDecimal: "Remove AquiferExactDecimal from the user info; only attributes of type Decimal have it."
    case .missingDestination: "Choose the relationship's destination."
    case .missingInverse: "Add an inverse relationship to the destination and choose it here."
    case .inverseMismatch: "Make the two relationships each other's inverse."
    case .orderedRelationship: "Turn 'Ordered' off and keep the order in an attribute."
    case .requiredRelationship: "Make the relationship optional."
    case .denyDeleteRule: "Choose Nullify or Cascade as delete rule."
    case .configurationCrossing: "Put both entities into the configuration, or remove the relationship."
    case .ignoredAttribute: "Make the ignored attribute optional."
    case .ignoredRelationship: "Remove the ignore key from the user info, or the relationship from the mirrored entity."
    case .ignoredEntity: "Remove the ignore key and leave the entity out of the mirrored configuration instead."
    case .encryptedRelationship, .encryptedEntity:
      "Remove the encryption key from the user info; encrypt attributes instead."
    case .conflictPolicy:
      """
      Use one of \(ConflictPolicy.allCases.map(\.rawValue).joined(separator: ", ")) where it fits the attribute's type.
      """
    case .deletePolicy:
      "Use one of \(DeletePolicy.allCases.map(\.rawValue).joined(separator: ", ")) in the user info of the entity."
    case .shareBoundary: "Remove AquiferShareBoundary from the user info; only relationships have it."
    case .uniquenessConstraint:
      """
      Remove the constraint and declare a rule instead: `aquifer rules import`, policy merge-lowest-uuid, reject or \
      report.
      """
    case .fieldTypeClash, .fieldEncryptionClash:
      "Rename one of them, or declare the attribute once in the common parent."
    case .fieldCount: "Spread the attributes over several entities that do not share a parent."
    case .recordByteCount: "Spread the attributes over several entities."
    }
  }

  public init(entity: String?, property: String? = nil, rule: Rule, message: String) {
    self.entity = entity
    self.property = property
    self.rule = rule
    self.message = message
  }
}
