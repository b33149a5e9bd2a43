// A model's policies for conflicts: the winner between two values, and between a deletion and an edit (C1).

import Records

/// Which of two edits of an attribute, neither of which knew of the other, is kept. Declared in the user info of the attribute, or of its
/// entity (or the nearest superentity that declares one) for all of the attributes that it fits, under `AquiferConflictPolicy`.
public enum ConflictPolicy: String, Hashable, Sendable, CaseIterable {
  /// The one that arrives last, as with Apple.
  case arrival
  /// The one that was made last, by the clocks of the devices as far as they can be believed (`EditTime`).
  case hlc
  /// The larger value, whoever brings it and whenever.
  case max
  /// The smaller value.
  case min
  /// Text that holds a JSON array: an element that one of the two adds is in it, one that is removed is not, and of two that disagree about
  /// an element the later one is right.
  case setUnion = "set-union"
  /// A whole number: both differences are added.
  case counter
  /// The server's, until somebody decides between the two.
  case manual

  /// Whether values of a type can be merged so.
  public func fits(_ type: AttributeType) -> Bool {
    switch self {
    case .arrival, .hlc, .manual: true
    case .max, .min:
      switch type {
      case .integer16, .integer32, .integer64, .float, .double, .decimal, .date, .boolean: true
      default: false
      }
    case .counter: type.range != nil
    case .setUnion: type == .string
    }
  }

  /// What it fits, for sentences.
  var fittingTypes: String {
    switch self {
    case .arrival, .hlc, .manual: "every type"
    case .max, .min: "numbers, dates and booleans"
    case .counter: "integers"
    case .setUnion: "strings"
    }
  }
}

/// What happens when one device deletes an object that another one edits without knowing. Declared in the user info of an entity under
/// `AquiferDeletePolicy`.
public enum DeletePolicy: String, Hashable, Sendable, CaseIterable {
  case deleteWins, editWins
}

extension AttributeType {
  /// The values of an integer type; nil for others.
  public var range: ClosedRange<Int64>? {
    switch self {
    case .integer16: Int64(Int16.min)...Int64(Int16.max)
    case .integer32: Int64(Int32.min)...Int64(Int32.max)
    case .integer64: Int64.min...Int64.max
    default: nil
    }
  }
}

/// The policies of all entities of a model: of an environment's latest one, so that stores with older models merge alike.
public struct ConflictRules: Sendable {
  /// By entity, then by attribute; without those that are `arrival`.
  private let policies: [String: [String: ConflictPolicy]]
  private let editWinners: Set<String>

  /// - Parameter model: nil: every policy is the default.
  public init(_ model: ModelIndex? = nil) {
    var policies: [String: [String: ConflictPolicy]] = [:]
    var editWinners: Set<String> = []
    for entity in model?.entities ?? [] {
      let declared = entity.attributes.compactMap { attribute -> (String, ConflictPolicy)? in
        guard let policy = entity.conflictPolicy(of: attribute), policy != .arrival else { return nil }
        return (attribute.name, policy)
      }
      if !declared.isEmpty { policies[entity.name] = Dictionary(declared, uniquingKeysWith: { first, _ in first }) }
      if entity.deletePolicy == .editWins { editWinners.insert(entity.name) }
    }
    self.policies = policies
    self.editWinners = editWinners
  }

  /// Of the attributes that have another policy than `arrival`; nil: none has.
  public func policies(of entity: String) -> [String: ConflictPolicy]? { policies[entity] }

  public func deletePolicy(of entity: String) -> DeletePolicy { editWinners.contains(entity) ? .editWins : .deleteWins }
}

extension EntityDescription {
  /// The attribute's own policy, or that of the nearest entity that declares one, where it fits the attribute; else nil.
  func conflictPolicy(of attribute: AttributeDescription) -> ConflictPolicy? {
    if let own = attribute.attribute.userInfo[ReservedName.conflictPolicyKey] { return ConflictPolicy(rawValue: own) }
    return ConflictPolicy(rawValue: inherited(ReservedName.conflictPolicyKey) ?? "").flatMap { $0.fits(attribute.type) ? $0 : nil }
  }

  var deletePolicy: DeletePolicy? { inherited(ReservedName.deletePolicyKey).flatMap(DeletePolicy.init(rawValue:)) }

  private func inherited(_ key: String) -> String? { declaredUserInfo.lazy.compactMap { $0[key] }.first }
}
