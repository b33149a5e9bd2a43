// The model as a constant: what the store needs of it, without XML at run time.

import ObjectModel
import XCDataModel

/// Writes `ManagedObjectModel.photos`, and its earlier versions beside it.
struct ModelConstant {
  private let bundle: ModelBundle
  private let name: String

  init(_ bundle: ModelBundle) {
    self.bundle = bundle
    name = SwiftNames.constant(bundle.name)
  }

  func write(to text: inout SwiftText) {
    let earlier = bundle.earlier.map { SwiftNames.version($0.name, of: bundle.name) }
    text.block("extension ManagedObjectModel {") { text in
      text.line("/// The model `\(bundle.name)`, as the server knows it by its hash.")
      write(bundle.current.source, as: "public static let \(name)", earlier: earlier, to: &text)
      for (version, name) in zip(bundle.earlier, earlier) {
        text.line()
        text.line("/// The earlier version `\(version.name)`: what a migration step begins from.")
        write(version.source, as: "public static let \(name)", earlier: [], to: &text)
      }
    }
  }

  private func write(_ source: ModelSource, as declaration: String, earlier: [String], to text: inout SwiftText) {
    let index = ModelIndex(source.model)
    text.block("\(declaration) = ManagedObjectModel(", closing: ")") { text in
      text.line("hash: \(SwiftNames.literal(index.modelHash)),")
      let configurations = source.model.configurations.sorted { $0.key < $1.key }
      text.block("entities: [", closing: configurations.isEmpty && earlier.isEmpty ? "]" : "],") { text in
        for entity in index.entities { write(entity, source.entities[entity.name], to: &text) }
      }
      if !configurations.isEmpty {
        text.block("configurations: [", closing: earlier.isEmpty ? "]" : "],") { text in
          for (name, members) in configurations { text.line("\(SwiftNames.literal(name)): [\(list(members))],") }
        }
      }
      if !earlier.isEmpty { text.line("earlierVersions: [\(earlier.joined(separator: ", "))]") }
    }
  }

  private func write(
    _ entity: ObjectModel.EntityDescription, _ source: ModelSource.EntitySource?, to text: inout SwiftText
  ) {
    let own = entity.entity
    var head = SwiftNames.literal(own.name)
    if let parent = own.parentName { head += ", parent: \(SwiftNames.literal(parent))" }
    var parts: [String] = []
    if own.isAbstract { parts.append("isAbstract: true") }
    if let indexes = source?.fetchIndexes, !indexes.isEmpty {
      parts.append("fetchIndexes: [\(indexes.map { "[\(list($0))]" }.joined(separator: ", "))]")
    }
    if let identifier = own.renamingIdentifier { parts.append("renamingIdentifier: \(SwiftNames.literal(identifier))") }
    let relationships = own.relationships.filter { !$0.isTransient }
    text.block("EntityDescription(", closing: "),") { text in
      text.line(head + (own.attributes.isEmpty && relationships.isEmpty && parts.isEmpty ? "" : ","))
      if !own.attributes.isEmpty {
        text.block("attributes: [", closing: relationships.isEmpty && parts.isEmpty ? "]" : "],") { text in
          for attribute in own.attributes {
            text.line(description(attribute, entity, source?.properties[attribute.name]) + ",")
          }
        }
      }
      if !relationships.isEmpty {
        text.block("relationships: [", closing: parts.isEmpty ? "]" : "],") { text in
          for relationship in relationships {
            text.line(description(relationship, source?.properties[relationship.name]) + ",")
          }
        }
      }
      if !parts.isEmpty { text.line(parts.joined(separator: ", ")) }
    }
  }

  private func description(
    _ attribute: Attribute, _ entity: ObjectModel.EntityDescription, _ source: ModelSource.PropertySource?
  ) -> String {
    var parts = [SwiftNames.literal(attribute.name), ".\(attribute.type.constant)"]
    let traits = traits(of: attribute, entity)
    if !traits.isEmpty { parts.append(traits.count == 1 ? traits[0] : "[\(traits.joined(separator: ", "))]") }
    if let value = attribute.defaultValue, attribute.defaultFieldValue != nil {
      parts.append("defaultValue: \(SwiftNames.literal(value))")
    }
    if let identifier = attribute.renamingIdentifier {
      parts.append("renamingIdentifier: \(SwiftNames.literal(identifier))")
    }
    if attribute.isDerived, let derivation = source?.derivationExpression {
      parts.append("derivation: \(SwiftNames.literal(derivation))")
    }
    if let minimum = source?.minimum.flatMap(Double.init) { parts.append("minimum: \(minimum)") }
    if let maximum = source?.maximum.flatMap(Double.init) { parts.append("maximum: \(maximum)") }
    return "AttributeDescription(\(parts.joined(separator: ", ")))"
  }

  private func traits(of attribute: Attribute, _ entity: ObjectModel.EntityDescription) -> [String] {
    var traits: [String] = []
    if attribute.isTransient { traits.append(".transient") }
    if attribute.isDerived { traits.append(".derived") }
    if attribute.type == .binary, attribute.allowsExternalBinaryDataStorage { traits.append(".external") }
    let description = entity.attribute(named: attribute.name)
    if description?.isEncrypted == true { traits.append(".encrypted") }
    if attribute.preservesValueOnDeletion { traits.append(".preservedOnDeletion") }
    if description?.isMirrored != true, !attribute.isTransient, !attribute.isDerived { traits.append(".notMirrored") }
    if !attribute.isOptional, !attribute.isTransient, !attribute.isDerived { traits.append(".required") }
    return traits
  }

  private func description(_ relationship: Relationship, _ source: ModelSource.PropertySource?) -> String {
    var parts = [SwiftNames.literal(relationship.name), "to: \(SwiftNames.literal(relationship.destinationName))"]
    parts.append("inverse: \(SwiftNames.literal(relationship.inverseName ?? ""))")
    parts.append("isToMany: \(relationship.isToMany)")
    switch relationship.deleteRule {
    case .cascade: parts.append(".cascade")
    case .noAction: parts.append(".noAction")
    // The validator refuses Deny.
    case .nullify, .deny: break
    }
    if let identifier = source?.renamingIdentifier {
      parts.append("renamingIdentifier: \(SwiftNames.literal(identifier))")
    }
    return "RelationshipDescription(\(parts.joined(separator: ", ")))"
  }

  private func list(_ names: [String]) -> String { names.map(SwiftNames.literal).joined(separator: ", ") }
}

extension AttributeType {
  /// The case of the client's type.
  fileprivate var constant: String {
    switch self {
    case .integer16: "integer16"
    case .integer32: "integer32"
    case .integer64: "integer64"
    case .decimal: "decimal"
    case .double: "double"
    case .float: "float"
    case .string: "string"
    case .boolean: "boolean"
    case .date: "date"
    case .uuid: "uuid"
    case .uri: "uri"
    case .binary: "binary"
    case .composite: "composite"
    case .transformable, .undefined, .objectID: "transformable"
    }
  }
}
