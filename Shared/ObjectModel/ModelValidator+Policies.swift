// Checks the conflict policies and delete policies that a model declares: the name must exist, and the policy must fit.

import Records

extension ModelValidator {
  mutating func checkPolicies(of description: EntityDescription) {
    let (name, userInfo) = (description.name, description.entity.userInfo)
    if let declared = userInfo[ReservedName.conflictPolicyKey] {
      if let policy = ConflictPolicy(rawValue: declared) {
        let kinds = description.kindNames.flatMap { index.entity(named: $0)?.attributes ?? [] }
        if !kinds.contains(where: { policy.fits($0.type) }) {
          report(
            .conflictPolicy, name, nil,
            """
            \(name) declares the conflict policy \(declared), which fits \(policy.fittingTypes): it has no such \
            attribute.
            """
          )
        }
      } else {
        report(.conflictPolicy, name, nil, "\(name) declares the conflict policy '\(declared)', which does not exist.")
      }
    }
    if let declared = userInfo[ReservedName.deletePolicyKey], DeletePolicy(rawValue: declared) == nil {
      report(.deletePolicy, name, nil, "\(name) declares the delete policy '\(declared)', which does not exist.")
    }
    if userInfo[ReservedName.shareBoundaryKey] != nil {
      report(.shareBoundary, name, nil, "\(name) declares a share boundary; only a relationship can.")
    }
  }

  mutating func check(policyOf attribute: Attribute, _ path: String, _ entity: String) {
    if attribute.userInfo[ReservedName.deletePolicyKey] != nil {
      report(.deletePolicy, entity, attribute.name, "\(path) declares a delete policy; only an entity can.")
    }
    if attribute.userInfo[ReservedName.shareBoundaryKey] != nil {
      report(.shareBoundary, entity, attribute.name, "\(path) declares a share boundary; only a relationship can.")
    }
    for element in attribute.elements where element.userInfo[ReservedName.conflictPolicyKey] != nil {
      report(
        .conflictPolicy, entity, attribute.name,
        "\(path).\(element.name) declares a conflict policy; only the whole composite can.")
    }
    guard let declared = attribute.userInfo[ReservedName.conflictPolicyKey] else { return }
    guard let policy = ConflictPolicy(rawValue: declared) else {
      return report(
        .conflictPolicy, entity, attribute.name,
        "\(path) declares the conflict policy '\(declared)', which does not exist.")
    }
    if !policy.fits(attribute.type) {
      report(
        .conflictPolicy, entity, attribute.name,
        """
        \(path) declares the conflict policy \(declared), which fits \(policy.fittingTypes), but is of type \
        \(attribute.type.rawValue).
        """
      )
    }
  }
}
