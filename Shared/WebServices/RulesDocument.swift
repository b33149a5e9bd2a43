// The rules of an environment as JSON: the body of `GET` and `PUT rules`, and the directory's stored form.

public import JSON
public import ObjectModel
public import Records

/// `{"unique":[{"entity","attributes":[…],"scope":"zone","policy"}]}`
public enum RulesDocument {
  /// - Throws: `BAD_REQUEST` with the place. Unknown keys are refused, so that a misspelt rule is not dropped silently.
  public static func rules(_ body: JSONValue) throws(RecordError) -> EnvironmentRules {
    try checkKeys(of: body, ["unique"])
    return EnvironmentRules(unique: try body.requiredList("unique", limit: EnvironmentRules.countLimit, read: unique))
  }

  private static func unique(_ item: JSONValue) throws(RecordError) -> EnvironmentRules.Unique {
    try checkKeys(of: item, ["entity", "attributes", "scope", "policy"])
    let entity = try item.requiredString("entity")
    guard let attributes = try item.optionalStrings("attributes"),
      (1...EnvironmentRules.attributeLimit).contains(attributes.count)
    else {
      throw RecordError(.badRequest, "attributes must name 1 to \(EnvironmentRules.attributeLimit) attributes")
    }
    guard try item.optionalString("scope") ?? "zone" == "zone" else {
      throw RecordError(.badRequest, "scope must be zone: objects of two zones are never duplicates of each other")
    }
    let policy = try item.requiredString("policy")
    guard let known = EnvironmentRules.Unique.Policy(rawValue: policy) else {
      throw RecordError(
        .badRequest,
        "policy must be one of \(EnvironmentRules.Unique.Policy.allCases.map(\.rawValue).joined(separator: ", "))")
    }
    return EnvironmentRules.Unique(entity: entity, attributes: attributes, policy: known)
  }

  private static func checkKeys(of object: JSONValue, _ known: Set<String>) throws(RecordError) {
    try object.forEachMember { key, _ throws(RecordError) in
      guard let name = key.string, known.contains(name) else {
        throw RecordError(.badRequest, "'\(key.string ?? "")' is not a key of rules")
      }
    }
  }

  public static func json(_ rules: EnvironmentRules) -> [UInt8] {
    var writer = JSONWriter()
    writer.beginObject()
    writer.key("unique")
    writer.beginArray()
    for rule in rules.unique {
      writer.beginObject()
      writer.member("entity", rule.entity)
      writer.key("attributes")
      writer.beginArray()
      for attribute in rule.attributes { writer.string(attribute) }
      writer.endArray()
      writer.member("scope", "zone")
      writer.member("policy", rule.policy.rawValue)
      writer.endObject()
    }
    writer.endArray()
    writer.endObject()
    return writer.bytes
  }
}
