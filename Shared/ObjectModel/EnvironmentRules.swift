// Rules of an environment that neither model nor schema can say: uniqueness, and the fate of duplicates (D1).

/// Rules that an operator declares beside the schema. Neither the schema's text, which keeps Apple's grammar, nor a
/// model's hash contains them.
public struct EnvironmentRules: Hashable, Sendable, Codable {
  /// A combination of attributes that no two objects of an entity and its subentities may share within a zone.
  ///
  /// An object that lacks one of the values, or keeps it as an asset because it is large, has no duplicates.
  public struct Unique: Hashable, Sendable, Codable {
    /// The treatment of duplicates.
    public enum Policy: String, Hashable, Sendable, Codable, CaseIterable {
      /// The object with the lowest name survives and takes over the others' relationships. The others are deleted
      /// after every device has learned of it.
      case mergeLowestUUID = "merge-lowest-uuid"
      /// A save that would make a duplicate is refused.
      case reject
      /// Duplicates are listed for the operator.
      case report
    }

    public let entity: String
    /// In the order of declaration, at least one.
    public let attributes: [String]
    public let policy: Policy

    public init(entity: String, attributes: [String], policy: Policy) {
      self.entity = entity
      self.attributes = attributes
      self.policy = policy
    }

    /// The rule as `Tag(name)`, for lists and logs.
    public var text: String { "\(entity)(\(attributes.joined(separator: ", ")))" }

    fileprivate func saysWhatIsUniqueLike(_ other: Unique) -> Bool {
      entity == other.entity && Set(attributes) == Set(other.attributes)
    }
  }

  public var unique: [Unique]

  public init(unique: [Unique] = []) { self.unique = unique }

  public static let none = EnvironmentRules()
  /// Rules of one environment: every save of a record type updates an index for each rule.
  public static let countLimit = 50
  /// Attributes of one rule.
  public static let attributeLimit = 8

  /// These rules and those of `other`; where both have a rule for the same attributes of an entity, the policy of
  /// `other` holds.
  public func merging(_ other: EnvironmentRules) -> EnvironmentRules {
    EnvironmentRules(
      unique: unique.filter { rule in !other.unique.contains { $0.saysWhatIsUniqueLike(rule) } } + other.unique)
  }

  /// Problems with the rules, one sentence each that names `entity.attribute`, and the model where there are several. A
  /// rule holds if it fits one of the models; no problems means that all rules hold.
  public func problems(in models: [NamedModel]) -> [String] {
    var problems: [String] = []
    for (index, rule) in unique.enumerated() {
      problems += rule.problems(in: models)
      if unique[..<index].contains(where: { $0.saysWhatIsUniqueLike(rule) }) {
        problems.append("\(rule.text) is declared twice.")
      }
    }
    return problems
  }
}

/// One of an environment's models, with its name for operators.
public struct NamedModel: Sendable {
  /// `model` if the environment has one model only.
  public let name: String
  public let index: ModelIndex

  public init(name: String, index: ModelIndex) {
    self.name = name
    self.index = index
  }

  /// The latest model first, then the others by hash.
  public static func all(of models: [String: ManagedObjectModel], latest: String?) -> [NamedModel] {
    let ordered = models.sorted { ($0.key != latest ? 1 : 0, $0.key) < ($1.key != latest ? 1 : 0, $1.key) }
    return ordered.map { hash, model in
      NamedModel(
        name: models.count == 1 ? "model" : "model \(hash.prefix(12))…\(hash == latest ? " (the latest)" : "")",
        index: ModelIndex(model))
    }
  }
}

extension EnvironmentRules.Unique {
  /// True if the model has the rule's entity, and its attributes can be compared.
  public func fits(_ model: ModelIndex) -> Bool { problems(in: model, called: "model").isEmpty }

  fileprivate func problems(in models: [NamedModel]) -> [String] {
    let problems = models.map { self.problems(in: $0.index, called: $0.name) }
    if problems.contains(where: \.isEmpty) { return [] }
    // Problems of models that know the entity help more than those of models that do not.
    let near = zip(models, problems).filter { $0.0.index.entity(named: entity) != nil }.map(\.1)
    return Array((near.isEmpty ? problems : near).joined())
  }

  private func problems(in model: ModelIndex, called modelName: String) -> [String] {
    guard let entity = model.entity(named: entity) else { return ["The \(modelName) has no entity \(entity)."] }
    if attributes.isEmpty { return ["\(entity.name) needs at least one unique attribute."] }
    var problems: [String] = []
    if Set(attributes).count < attributes.count { problems.append("\(text) names an attribute twice.") }
    for name in attributes {
      guard let attribute = entity.attribute(named: name) else {
        problems.append("\(entity.name).\(name) is not an attribute of the \(modelName).")
        continue
      }
      if let reason = attribute.reasonNotToBeUnique { problems.append("\(entity.name).\(name) \(reason).") }
    }
    return problems
  }
}

extension AttributeDescription {
  /// The reason why the attribute cannot tell objects apart; nil if it can.
  fileprivate var reasonNotToBeUnique: String? {
    if !isMirrored { return "is not mirrored" }
    if isEncrypted { return "is encrypted, and encrypted values are not compared" }
    switch type {
    case .boolean, .integer16, .integer32, .integer64, .float, .double, .decimal, .date, .uuid, .string, .uri:
      return nil
    case .binary, .transformable, .composite, .undefined, .objectID:
      return "is of type \(type.rawValue), and values of that type are not compared"
    }
  }
}
