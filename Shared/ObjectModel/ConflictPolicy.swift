// A model's policies for conflicts: the winner between two values, and between a deletion and an edit (C1).

import Records

/// The rule that picks one of two concurrent edits of an attribute. Models declare it under `AquiferConflictPolicy`, in
/// the user info of the attribute or of its entity; an entity's policy is for every attribute that it fits, and
/// subentities inherit it.
public enum ConflictPolicy: String, Hashable, Sendable, CaseIterable {
  /// The edit that arrives last, as with Apple.
  case arrival
  /// The edit that was made last, by the devices' clocks within the bounds of `EditTime`.
  case hlc
  /// The larger value, regardless of device and time.
  case max
  /// The smaller value.
  case min
  /// Text that holds a JSON array. It keeps each element that one edit adds and drops each element that one edit
  /// removes; where the two edits disagree about an element, the later edit decides.
  case setUnion = "set-union"
  /// A whole number: the differences of both edits are added.
  case counter
  /// The server's value stays until somebody decides between the two.
  case manual

  /// True if the policy can merge values of a type.
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

  /// The types that the policy fits, in words for a message.
  var fittingTypes: String {
    switch self {
    case .arrival, .hlc, .manual: "every type"
    case .max, .min: "numbers, dates and booleans"
    case .counter: "integers"
    case .setUnion: "strings"
    }
  }
}

/// The rule for a deletion and a concurrent edit of the same object. Models declare it in the user info of an entity
/// under `AquiferDeletePolicy`.
public enum DeletePolicy: String, Hashable, Sendable, CaseIterable {
  case deleteWins, editWins
}

extension AttributeType {
  /// The range of an integer type; nil for other types.
  public var range: ClosedRange<Int64>? {
    switch self {
    case .integer16: Int64(Int16.min)...Int64(Int16.max)
    case .integer32: Int64(Int32.min)...Int64(Int32.max)
    case .integer64: Int64.min...Int64.max
    default: nil
    }
  }
}

/// The policies of all entities of a model. Callers use an environment's latest model, so that stores with older models
/// merge alike.
public struct ConflictRules: Sendable {
  /// By entity, then by attribute; without attributes whose policy is `arrival`.
  private let policies: [String: [String: ConflictPolicy]]
  private let editWinners: Set<String>

  /// - Parameter model: nil gives every attribute and entity the default policy.
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

  /// The policies of an entity's attributes that differ from `arrival`; nil if none does.
  public func policies(of entity: String) -> [String: ConflictPolicy]? { policies[entity] }

  public func deletePolicy(of entity: String) -> DeletePolicy { editWinners.contains(entity) ? .editWins : .deleteWins }
}

extension EntityDescription {
  /// The attribute's own policy, or else that of the nearest entity that declares one, if it fits the attribute's type.
  /// nil if there is none or its name is unknown.
  func conflictPolicy(of attribute: AttributeDescription) -> ConflictPolicy? {
    if let own = attribute.attribute.userInfo[ReservedName.conflictPolicyKey] { return ConflictPolicy(rawValue: own) }
    return ConflictPolicy(rawValue: inherited(ReservedName.conflictPolicyKey) ?? "").flatMap {
      $0.fits(attribute.type) ? $0 : nil
    }
  }

  var deletePolicy: DeletePolicy? { inherited(ReservedName.deletePolicyKey).flatMap(DeletePolicy.init(rawValue:)) }

  private func inherited(_ key: String) -> String? { declaredUserInfo.lazy.compactMap { $0[key] }.first }
}
