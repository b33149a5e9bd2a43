// Checks a model against every CloudKit limitation and reports all problems at once (M1).

import Records

/// Finds the problems that keep a model from being mirrored. Clients check that value transformers are registered: the
/// file does not tell.
public struct ModelValidator {
  /// All problems: the model's own first, then by entity and property, ascending; empty if the model can be mirrored.
  /// - Parameter configuration: the configuration whose entities are checked; nil is the default one, with all
  ///   entities.
  public static func problems(of index: ModelIndex, configuration: String? = nil) -> [ModelProblem] {
    guard let entities = index.entities(inConfiguration: configuration) else {
      let name = configuration ?? ""
      return [
        ModelProblem(entity: nil, rule: .unknownConfiguration, message: "The model has no configuration '\(name)'.")
      ]
    }
    var validator = ModelValidator(index: index, entities: entities, configuration: configuration)
    validator.checkModel()
    for entity in entities { validator.check(entity) }
    validator.checkRecordTypes()
    return validator.problems.enumerated().sorted { a, b in
      let (keyA, keyB) = (a.element.sortKey, b.element.sortKey)
      return keyA == keyB ? a.offset < b.offset : keyA < keyB
    }.map(\.element)
  }

  let index: ModelIndex
  private let entities: [EntityDescription]
  private let memberNames: Set<String>
  private let configuration: String?
  private var problems: [ModelProblem] = []

  private init(index: ModelIndex, entities: [EntityDescription], configuration: String?) {
    self.index = index
    self.entities = entities
    self.configuration = configuration
    memberNames = Set(entities.map(\.name))
  }

  mutating func report(_ rule: ModelProblem.Rule, _ entity: String?, _ property: String? = nil, _ message: String) {
    problems.append(ModelProblem(entity: entity, property: property, rule: rule, message: message))
  }

  private mutating func checkModel() {
    if entities.isEmpty { report(.emptyModel, nil, nil, "There is no entity to mirror.") }
    var names: Set<String> = []
    for entity in index.model.entities where !names.insert(entity.name).inserted {
      report(.duplicateEntity, entity.name, nil, "Two entities are named \(entity.name).")
    }
    if let configuration {
      for member in index.model.configurations[configuration] ?? [] where index.entity(named: member) == nil {
        report(
          .unknownMember, member, nil,
          "The configuration '\(configuration)' lists \(member), which the model does not have.")
      }
    }
  }

  private mutating func check(_ description: EntityDescription) {
    let entity = description.entity
    let name = entity.name
    if !SchemaToken.isPlainIdentifier(name)
      || name.utf8.count + ReservedName.recordTypePrefix.utf8.count > Limit.nameByteCount
    {
      report(.entityName, name, nil, "The entity name '\(name)' can't be part of a record type.")
    }
    if let parent = entity.parentName {
      if index.entity(named: parent) == nil {
        report(.unknownParent, name, nil, "The parent \(parent) of \(name) is not in the model.")
      } else if isInCycle(entity) {
        report(.parentCycle, name, nil, "\(name) is its own ancestor.")
      }
    }
    if entity.userInfo.isSet(ReservedName.ignoredPropertyKey) {
      report(.ignoredEntity, name, nil, "\(name) is marked as ignored.")
    }
    if entity.userInfo.isSet(ReservedName.encryptedAttributeKey) {
      report(.encryptedEntity, name, nil, "\(name) is marked as encrypted.")
    }
    for constraint in entity.uniquenessConstraints {
      report(
        .uniquenessConstraint, name, nil,
        "\(name) has a uniqueness constraint on \(constraint.joined(separator: ", ")).")
    }
    checkPolicies(of: description)
    checkNames(of: entity, description)
    for attribute in entity.attributes { check(attribute, of: name) }
    for relationship in entity.relationships { check(relationship, of: name) }
  }

  private func isInCycle(_ entity: Entity) -> Bool {
    var seen: Set<String> = []
    var next = entity.parentName
    while let name = next, seen.insert(name).inserted {
      if name == entity.name { return true }
      next = index.entity(named: name)?.entity.parentName
    }
    return false
  }

  private mutating func checkNames(of entity: Entity, _ description: EntityDescription) {
    let inherited = description.superentityNames.reduce(into: [String: String]()) { owners, ancestor in
      guard let above = index.entity(named: ancestor)?.entity else { return }
      for name in above.propertyNames { owners[name] = ancestor }
    }
    var seen: Set<String> = []
    for name in entity.propertyNames {
      if !seen.insert(name).inserted {
        report(.duplicateProperty, entity.name, name, "\(entity.name) has two properties named \(name).")
      } else if let owner = inherited[name] {
        report(
          .duplicateProperty, entity.name, name, "\(entity.name).\(name) is declared by its ancestor \(owner) already.")
      }
      let field = ReservedName.fieldPrefix + name
      if !SchemaToken.isPlainIdentifier(name)
        || field.utf8.count + ReservedName.assetSuffix.utf8.count > Limit.nameByteCount
      {
        report(.propertyName, entity.name, name, "The name of \(entity.name).\(name) can't be part of a field's name.")
      }
      if Self.reservedFields.contains(field) {
        report(
          .reservedName, entity.name, name,
          "\(entity.name).\(name) would be the field \(field), which mirroring uses itself.")
      }
    }
  }

  private static let reservedFields: Set<String> = [
    ReservedName.entityName, ReservedName.moveReceipt, ReservedName.moveReceipt + ReservedName.assetSuffix,
  ]

  private mutating func check(_ attribute: Attribute, of entity: String) {
    let path = "\(entity).\(attribute.name)"
    // Transient and derived attributes never reach a record.
    guard !attribute.isTransient, !attribute.isDerived else { return }
    if attribute.userInfo.isSet(ReservedName.ignoredPropertyKey) {
      if !attribute.isOptional {
        report(.ignoredAttribute, entity, attribute.name, "\(path) is ignored but not optional.")
      }
      return
    }
    checkType(attribute, path, entity, attribute.name)
    if !attribute.isOptional, attribute.defaultValue == nil, attribute.type != .undefined {
      report(.requiredAttribute, entity, attribute.name, "\(path) is neither optional nor has it a default value.")
    }
    check(policyOf: attribute, path, entity)
    if attribute.userInfo.isSet(ReservedName.exactDecimalKey), !attribute.isExactDecimal {
      report(
        .exactDecimal, entity, attribute.name,
        "\(path) declares AquiferExactDecimal, but is of type \(attribute.type.rawValue).")
    }
    if attribute.usesMergeableStorage {
      report(.mergeableStorage, entity, attribute.name, "\(path) uses mergeable storage.")
    }
  }

  private mutating func checkType(_ attribute: Attribute, _ path: String, _ entity: String, _ property: String) {
    switch attribute.type {
    case .undefined: report(.undefinedAttribute, entity, property, "\(path) has no type.")
    case .objectID:
      report(.objectIDAttribute, entity, property, "\(path) is an object ID, which has no meaning on another device.")
    default: break
    }
    if attribute.hasUnreadableDefault {
      report(
        .unreadableDefault, entity, property,
        "The default of \(path) is not a value of type \(attribute.type.rawValue).")
    }
    for element in attribute.elements { checkType(element, "\(path).\(element.name)", entity, property) }
  }

  private mutating func check(_ relationship: Relationship, of entity: String) {
    let (name, path) = (relationship.name, "\(entity).\(relationship.name)")
    if relationship.userInfo.isSet(ReservedName.ignoredPropertyKey) {
      report(.ignoredRelationship, entity, name, "\(path) is marked as ignored.")
    }
    if relationship.userInfo.isSet(ReservedName.encryptedAttributeKey) {
      report(.encryptedRelationship, entity, name, "\(path) is marked as encrypted.")
    }
    for (key, rule) in [
      (ReservedName.conflictPolicyKey, ModelProblem.Rule.conflictPolicy), (ReservedName.deletePolicyKey, .deletePolicy),
    ]
    where relationship.userInfo[key] != nil {
      report(rule, entity, name, "\(path) declares \(key), but for a relationship the last arrival wins.")
    }
    if relationship.isOrdered { report(.orderedRelationship, entity, name, "\(path) is ordered.") }
    if !relationship.isOptional { report(.requiredRelationship, entity, name, "\(path) is not optional.") }
    if relationship.deleteRule == .deny { report(.denyDeleteRule, entity, name, "\(path) has the delete rule Deny.") }
    guard let destination = index.entity(named: relationship.destinationName) else {
      let what =
        relationship.destinationName.isEmpty
        ? "has no destination" : "leads to \(relationship.destinationName), which the model does not have"
      return report(.missingDestination, entity, name, "\(path) \(what).")
    }
    if let configuration, !memberNames.contains(destination.name) {
      report(
        .configurationCrossing, entity, name,
        "\(path) leads to \(destination.name), which is not in the configuration '\(configuration)'.")
    }
    checkInverse(relationship, of: entity, destination)
  }

  private mutating func checkInverse(_ relationship: Relationship, of entity: String, _ destination: EntityDescription)
  {
    let (name, path) = (relationship.name, "\(entity).\(relationship.name)")
    guard let inverseName = relationship.inverseName else {
      return report(.missingInverse, entity, name, "\(path) has no inverse.")
    }
    guard let inverse = index.entity(named: entity)?.relationship(named: name)?.inverse else {
      return report(
        .missingInverse, entity, name, "The inverse \(destination.name).\(inverseName) of \(path) does not exist.")
    }
    // The inverse must lead back to this relationship, declared by this entity.
    let leadsBack = index.entity(named: inverse.relationship.destinationName).flatMap {
      $0.relationship(named: inverse.relationship.inverseName ?? "")
    }
    if leadsBack?.name != name || leadsBack?.declaringEntityName != entity {
      report(
        .inverseMismatch, entity, name,
        "\(path) names \(inverse.declaringEntityName).\(inverseName) as its inverse, but not the other way round.")
    } else if let named = relationship.inverseEntityName, named != destination.name,
      named != inverse.declaringEntityName
    {
      report(
        .inverseMismatch, entity, name,
        "\(path) says that its inverse is \(named)'s, but it leads to \(destination.name).")
    }
  }

  // MARK: record types

  private mutating func checkRecordTypes() {
    var seen: [String: [String: (field: Schema.Field, owner: String, property: String)]] = [:]
    for entity in entities {
      for (field, property) in ownFields(of: entity) {
        guard let first = seen[entity.recordType]?[field.name] else {
          seen[entity.recordType, default: [:]][field.name] = (field, entity.name, property)
          continue
        }
        let both = "\(first.owner).\(first.property) and \(entity.name).\(property)"
        if first.field.type != field.type {
          report(
            .fieldTypeClash, entity.name, property,
            """
            \(both) are both the field \(field.name) of \(entity.recordType), but one is \
            \(first.field.type.schemaName) and the other \(field.type.schemaName).
            """
          )
        } else if first.field.isEncrypted != field.isEncrypted {
          report(
            .fieldEncryptionClash, entity.name, property,
            "\(both) are both the field \(field.name) of \(entity.recordType), but only one is encrypted.")
        } else if first.owner == entity.name, first.property != property {
          report(.reservedName, entity.name, property, "\(both) are both the field \(field.name).")
        }
      }
    }
    for type in SchemaGenerator.schema(for: index, configuration: configuration).recordTypes {
      guard let root = index.rootEntity(forRecordType: type.name) else { continue }
      if type.fields.count > Limit.fieldsPerRecordType {
        report(
          .fieldCount, root.name, nil,
          "\(type.name) would have \(type.fields.count) fields; a record type has at most \(Limit.fieldsPerRecordType)."
        )
      }
      let byteCount = type.fields.reduce(0) {
        $0 + $1.name.utf8.count + ($1.type.isFixedLength ? MemoryLayout<Int64>.size : 0)
      }
      if byteCount >= Limit.inlineRecordByteCount {
        report(
          .recordByteCount, root.name, nil,
          "A record of \(type.name) has \(byteCount) bytes before any text; it may have \(Limit.inlineRecordByteCount)."
        )
      }
    }
  }

  /// The fields of the properties that an entity declares itself, each with its property's name.
  private func ownFields(of entity: EntityDescription) -> [(Schema.Field, String)] {
    var fields: [(Schema.Field, String)] = []
    for attribute in entity.mirroredAttributes where attribute.declaringEntityName == entity.name {
      fields.append(
        (
          Schema.Field(name: attribute.fieldName, type: attribute.fieldType, isEncrypted: attribute.isEncrypted),
          attribute.name
        ))
      if let companion = attribute.assetFieldName {
        fields.append((Schema.Field(name: companion, type: .asset), attribute.name))
      }
      if let exact = attribute.exactFieldName {
        fields.append((Schema.Field(name: exact, type: .string, isEncrypted: attribute.isEncrypted), attribute.name))
      }
    }
    for relationship in entity.mirroredToOnes where relationship.declaringEntityName == entity.name {
      fields.append(
        (Schema.Field(name: ReservedName.fieldPrefix + relationship.name, type: .string), relationship.name))
    }
    return fields
  }
}

extension Entity {
  fileprivate var propertyNames: [String] { attributes.map(\.name) + relationships.map(\.name) }
}

extension FieldType {
  fileprivate var isFixedLength: Bool {
    switch self {
    case .int64, .double, .timestamp: true
    default: false
    }
  }
}

extension ModelProblem {
  fileprivate var sortKey: (String, String) { (entity ?? "", property ?? "") }
}
