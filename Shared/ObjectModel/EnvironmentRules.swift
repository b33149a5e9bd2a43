// Rules of an environment that neither model nor schema can say: uniqueness, and the fate of duplicates (D1).

/// What an operator declared beside the schema. It is no part of the schema's text, which stays Apple's, nor of a model's hash.
public struct EnvironmentRules: Hashable, Sendable, Codable {
  /// A combination of attributes that objects of an entity, or of its subentities, shall not share within a zone.
  ///
  /// An object that lacks one of the values, or has it as an asset because it is large, is a duplicate of nobody.
  public struct Unique: Hashable, Sendable, Codable {
    /// What becomes of duplicates.
    public enum Policy: String, Hashable, Sendable, Codable, CaseIterable {
      /// The object with the lowest name stays, those others' relationships become its own, and they go when all have heard of it.
      case mergeLowestUUID = "merge-lowest-uuid"
      /// A save that would make one is refused.
      case reject
      /// They are listed for the operator.
      case report
    }

    public let entity: String
    /// In the order they were declared, at least one.
    public let attributes: [String]
    public let policy: Policy

    public init(entity: String, attributes: [String], policy: Policy) {
      self.entity = entity
      self.attributes = attributes
      self.policy = policy
    }

    /// `Tag(name)`: for lists and logs.
    public var text: String { "\(entity)(\(attributes.joined(separator: ", ")))" }

    fileprivate func saysWhatIsUniqueLike(_ other: Unique) -> Bool { entity == other.entity && Set(attributes) == Set(other.attributes) }
  }

  public var unique: [Unique]

  public init(unique: [Unique] = []) { self.unique = unique }

  public static let none = EnvironmentRules()
  /// Rules of one environment: each is an index that every save of its record type keeps up.
  public static let countLimit = 50
  /// Attributes of one rule.
  public static let attributeLimit = 8

  /// These rules with those of `other` added; of two that name the same attributes of an entity `other`'s policy holds.
  public func merging(_ other: EnvironmentRules) -> EnvironmentRules {
    EnvironmentRules(unique: unique.filter { rule in !other.unique.contains { $0.saysWhatIsUniqueLike(rule) } } + other.unique)
  }

  /// What is wrong with the rules for an environment's models, a sentence each that names `entity.attribute`, and the model where there are several;
  /// empty for rules that can hold. A rule holds if one of the models knows what it speaks of.
  public func problems(in models: [NamedModel]) -> [String] {
    var problems: [String] = []
    for (index, rule) in unique.enumerated() {
      problems += rule.problems(in: models)
      if unique[..<index].contains(where: { $0.saysWhatIsUniqueLike(rule) }) { problems.append("\(rule.text) is declared twice.") }
    }
    return problems
  }
}

/// One of an environment's models, with the name that operators know it by.
public struct NamedModel: Sendable {
  /// `model` where there is but one.
  public let name: String
  public let index: ModelIndex

  public init(name: String, index: ModelIndex) {
    self.name = name
    self.index = index
  }

  /// The latest first, then by hash.
  public static func all(of models: [String: ManagedObjectModel], latest: String?) -> [NamedModel] {
    let ordered = models.sorted { ($0.key != latest ? 1 : 0, $0.key) < ($1.key != latest ? 1 : 0, $1.key) }
    return ordered.map { hash, model in
      NamedModel(name: models.count == 1 ? "model" : "model \(hash.prefix(12))…\(hash == latest ? " (the latest)" : "")", index: ModelIndex(model))
    }
  }
}

extension EnvironmentRules.Unique {
  /// Whether the rule can hold in a model.
  public func fits(_ model: ModelIndex) -> Bool { problems(in: model, called: "model").isEmpty }

  fileprivate func problems(in models: [NamedModel]) -> [String] {
    let problems = models.map { self.problems(in: $0.index, called: $0.name) }
    if problems.contains(where: \.isEmpty) { return [] }
    // Those that know the entity say more than those that don't.
    let near = zip(models, problems).filter { $0.0.index.entity(named: entity) != nil }.map(\.1)
    return Array((near.isEmpty ? problems : near).joined())
  }

  private func problems(in model: ModelIndex, called modelName: String) -> [String] {
    guard let entity = model.entity(named: entity) else { return ["The \(modelName) has no entity \(entity)."] }
    if attributes.isEmpty { return ["\(entity.name) needs an attribute to be unique by."] }
    var problems: [String] = []
    if Set(attributes).count < attributes.count { problems.append("\(text) names an attribute twice.") }
    for name in attributes {
      guard let attribute = entity.attribute(named: name) else {
        problems.append("\(entity.name).\(name) is no attribute of the \(modelName).")
        continue
      }
      if let reason = attribute.reasonNotToBeUnique { problems.append("\(entity.name).\(name) \(reason).") }
    }
    return problems
  }
}

extension AttributeDescription {
  /// Why objects can't be told apart by the attribute; nil: they can.
  fileprivate var reasonNotToBeUnique: String? {
    if !isMirrored { return "is not mirrored" }
    if isEncrypted { return "is encrypted, and encrypted values are not compared" }
    switch type {
    case .boolean, .integer16, .integer32, .integer64, .float, .double, .decimal, .date, .uuid, .string, .uri: return nil
    case .binary, .transformable, .composite, .undefined, .objectID: return "is of type \(type.rawValue), whose values are not compared"
    }
  }
}
