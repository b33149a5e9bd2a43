// What keeps a model from becoming code: what mirroring refuses, what Swift can't say, and what no replica can keep.

import FoundationEssentials
import ObjectModel
import XCDataModel

/// Checks a version of a model.
struct ModelChecks {
  private let version: ModelBundle.Version
  private let index: ModelIndex
  private var refusals: Set<Refusal> = []

  /// All refusals, by line.
  static func refusals(of version: ModelBundle.Version, after earlier: [ModelBundle.Version]) -> [Refusal] {
    var checks = ModelChecks(version)
    checks.checkMirroring()
    checks.checkTypeNames()
    checks.checkFormerNames(beside: earlier.map(\.source.model))
    for entity in checks.index.entities {
      checks.checkNames(of: entity)
      checks.checkAddresses(of: entity.entity)
      checks.checkDerivations(of: entity)
    }
    for version in earlier {
      for renamed in checks.index.renamedToOnes(since: ModelIndex(version.source.model)) {
        checks.refuse(renamed.entity, renamed.name, renamed.message)
      }
    }
    return checks.refusals.sorted { ($0.line, $0.message) < ($1.line, $1.message) }
  }

  /// Types of entities that hide one which the app may need, by line.
  static func warnings(of version: ModelBundle.Version) -> [Warning] {
    let warnings = ModelIndex(version.source.model).entities.compactMap { entity -> Warning? in
      let type = version.source.typeName(of: entity.name)
      guard SwiftNames.hidesAnother(type) else { return nil }
      let message =
        "In this module, \(type) means the entity's type, and hides another that apps use. "
        + "Another class (representedClassName) renames the type alone."
      let line = version.source.line(entity: entity.name, property: nil)
      return Warning(file: version.file, line: line, message: message)
    }
    return warnings.sorted { $0.line < $1.line }
  }

  private init(_ version: ModelBundle.Version) {
    self.version = version
    index = ModelIndex(version.source.model)
  }

  private mutating func refuse(_ entity: String?, _ property: String?, _ message: String) {
    let line = version.source.line(entity: entity, property: property)
    refusals.insert(Refusal(file: version.file, line: line, message: message))
  }

  /// The problems of all entities, and those of single configurations: each is a store of its own.
  private mutating func checkMirroring() {
    var problems = ModelValidator.problems(of: index)
    for name in index.model.configurations.keys.sorted() {
      let rules: Set<ModelProblem.Rule> = [.unknownMember, .configurationCrossing, .emptyModel]
      problems += ModelValidator.problems(of: index, configuration: name).filter { rules.contains($0.rule) }
    }
    for problem in problems { refuse(problem.entity, problem.property, "\(problem.message) \(problem.suggestion)") }
  }

  private mutating func checkFormerNames(beside earlier: [ObjectModel.ManagedObjectModel]) {
    for conflict in index.nameConflicts(beside: earlier, latest: earlier.last) {
      refuse(conflict.entity, conflict.property, "\(conflict.message) \(conflict.remedy)")
    }
  }

  private mutating func checkTypeNames() {
    var owners: [String: String] = [:]
    let remedy = "Choose another class for the entity in Xcode."
    for entity in index.entities {
      let type = version.source.typeName(of: entity.name)
      if SwiftNames.isUsed(type) {
        let message = "The type of \(entity.name) can't be called \(type): generated code needs that name."
        refuse(entity.name, nil, "\(message) \(remedy)")
      } else if let owner = owners.updateValue(entity.name, forKey: type) {
        refuse(entity.name, nil, "The types of \(owner) and \(entity.name) are both called \(type). \(remedy)")
      }
    }
  }

  private mutating func checkNames(of description: ObjectModel.EntityDescription) {
    let entity = description.entity
    for name in entity.attributes.map(\.name) + entity.relationships.map(\.name) where SwiftNames.isUnusable(name) {
      refuse(entity.name, name, "\(entity.name).\(name) can't be the name of a property in Swift. Rename it.")
    }
    for attribute in entity.attributes {
      for element in Self.elements(of: attribute) where SwiftNames.isUnusable(element.name) {
        let path = "\(entity.name).\(attribute.name).\(element.name)"
        refuse(entity.name, attribute.name, "\(path) can't be the name of a property in Swift. Rename it.")
      }
    }
    let names = Set(description.attributes.map(\.name) + description.relationships.map(\.name))
    if names.isSuperset(of: ["id", "idValue"]) {
      refuse(entity.name, "idValue", "\(entity.name).id is called idValue in Swift. Rename \(entity.name).idValue.")
    }
    // Columns of a table differ by more than case. The validator refuses equal names.
    var columns: [String: String] = [:]
    for name in description.attributes.map(\.name) + description.relationships.map(\.name) {
      guard let other = columns.updateValue(name, forKey: name.lowercased()), other != name else { continue }
      refuse(entity.name, name, "\(entity.name) has the properties \(other) and \(name). Rename one of them.")
    }
  }

  /// Texts that Foundation takes for no address: each new object of the app would end it.
  private mutating func checkAddresses(of entity: Entity) {
    for attribute in entity.attributes {
      let path = "\(entity.name).\(attribute.name)"
      let parts = [(path, attribute)] + Self.elements(of: attribute).map { ("\(path).\($0.name)", $0) }
      for (path, part) in parts where part.type == .uri {
        guard let text = part.defaultValue, URL(string: text) == nil else { continue }
        let message = "The default of \(path) is not a value of type URI. Correct the default value."
        refuse(entity.name, attribute.name, message)
      }
    }
  }

  private static func elements(of attribute: Attribute) -> [Attribute] {
    attribute.elements + attribute.elements.flatMap { elements(of: $0) }
  }

  private mutating func checkDerivations(of description: ObjectModel.EntityDescription) {
    let entity = description.entity
    for attribute in entity.attributes where attribute.isDerived {
      let path = "\(entity.name).\(attribute.name)"
      guard let text = version.source.entities[entity.name]?.properties[attribute.name]?.derivationExpression else {
        refuse(entity.name, attribute.name, "\(path) is derived from nothing. Write its derivation.")
        continue
      }
      guard !canDerive(text, in: description) else { continue }
      let known =
        "A path, a count (tags.@count), a sum (ratings.value.@sum), canonical:(name), uppercase:, lowercase: or now()"
      refuse(
        entity.name, attribute.name, "\(path) is derived from \(text), which no replica can compute. \(known) can be.")
    }
  }

  private func canDerive(_ text: String, in entity: ObjectModel.EntityDescription) -> Bool {
    if text == "now()" { return true }
    if let function = text.wholeMatch(of: /(?:canonical|uppercase|lowercase):\((\w+)\)/) {
      return entity.attribute(named: String(function.output.1)) != nil
    }
    let parts = text.split(separator: ".").map(String.init)
    guard parts.count >= 2, let relationship = entity.relationship(named: parts[0]) else { return false }
    if relationship.isToMany { return parts.count == 2 ? parts[1] == "@count" : parts.count == 3 && parts[2] == "@sum" }
    return parts.count == 2
  }
}
