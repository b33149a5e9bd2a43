// The struct of an entity: inherited properties included, so that a row of a table is a value of one type.

import ObjectModel
import XCDataModel

/// Writes an entity's type.
struct EntityType {
  private let entity: ObjectModel.EntityDescription
  private let typeName: String
  private let attributes: [AttributeProperty]
  private let toOnes: [RelationshipProperty]
  private let toManys: [RelationshipProperty]
  /// Without columns.
  private let transients: [AttributeProperty]
  private let typeNames: Set<String>
  /// Types of superentities, nearest first.
  private let superTypes: [String]

  init(_ entity: ObjectModel.EntityDescription, in source: ModelSource, _ index: ModelIndex) {
    self.entity = entity
    typeName = source.typeName(of: entity.name)
    typeNames = Set(index.entities.map { source.typeName(of: $0.name) })
    superTypes = entity.superentityNames.map { source.typeName(of: $0) }
    // The store's columns: inherited properties first, in the order of the file.
    let declaring = entity.superentityNames.reversed().compactMap { index.entity(named: $0)?.entity } + [entity.entity]
    let names = typeNames
    let properties = declaring.flatMap { entity in
      entity.attributes.map { attribute in
        AttributeProperty(attribute, source.entities[entity.name]?.properties[attribute.name], typeNames: names)
      }
    }
    attributes = properties.filter { !$0.attribute.isTransient }
    transients = properties.filter(\.attribute.isTransient)
    let relationships = declaring.flatMap(\.relationships).filter { !$0.isTransient }.map { relationship in
      RelationshipProperty(
        relationship: relationship, name: SwiftNames.property(relationship.name),
        type: source.typeName(of: relationship.destinationName))
    }
    toOnes = relationships.filter { !$0.relationship.isToMany }
    toManys = relationships.filter(\.relationship.isToMany)
  }

  func write(to text: inout SwiftText) {
    text.line(
      "/// \(entity.isAbstract ? "Objects of the subentities of" : "An object of the entity") `\(entity.name)`.")
    text.block("public struct \(typeName): ManagedObject {") { text in
      writeColumns(to: &text)
      text.line()
      text.line("public static let entityName = \(SwiftNames.literal(entity.name))")
      text.line("public static let columns = Columns()")
      text.line()
      writeProperties(to: &text)
      text.line()
      writeInitializers(to: &text)
      for property in attributes + transients where property.attribute.type == .composite {
        text.line()
        CompositeType(property, typeNames: typeNames).write(to: &text)
      }
    }
    guard !superTypes.isEmpty else { return }
    text.line()
    writeCasts(to: &text)
  }

  private func writeColumns(to text: inout SwiftText) {
    text.block("public struct Columns: Sendable {") { text in
      for property in attributes {
        text.line(
          """
          public let \(property.name) = Attribute<\(property.swiftType)>(\(SwiftNames.literal(property.attribute.name)))
          """
        )
      }
      for property in toOnes {
        text.line(
          "public let \(property.name) = ToOne<\(property.type)>(\(SwiftNames.literal(property.relationship.name)))")
      }
      for property in toManys {
        text.line(
          "public let \(property.name) = ToMany<\(property.type)>(\(SwiftNames.literal(property.relationship.name)))")
      }
    }
  }

  private func writeProperties(to text: inout SwiftText) {
    text.line("public let id: ObjectID<\(typeName)>")
    for property in attributes {
      if property.isReadOnly { text.line("/// Derived: the store computes it.") }
      if entity.attribute(named: property.attribute.name)?.isEncrypted == true {
        text.line("/// The server has it encrypted.")
      }
      text.line("public \(property.isReadOnly ? "let" : "var") \(property.name): \(property.swiftType)")
    }
    for property in toOnes { text.line("public var \(property.name): ObjectID<\(property.type)>?") }
    for property in transients {
      text.line("/// Transient: the value is this copy's alone, and no store keeps it.")
      text.line("public var \(property.name): \(property.swiftType) = \(property.defaultValue)")
    }
    guard !toManys.isEmpty else { return }
    text.line()
    for property in toManys {
      let name = SwiftNames.literal(property.relationship.name)
      text.line(
        "public var \(property.name): FetchRequest<\(property.type)> { FetchRequest(related: \(name), of: id.any) }")
    }
  }

  private func writeInitializers(to text: inout SwiftText) {
    if !entity.isAbstract {
      let writable = attributes.filter { !$0.isReadOnly }
      text.block("public init(", closing: ") {") { text in
        var parameters = ["id: ObjectID<\(typeName)> = ObjectID()"]
        parameters += writable.map { "\($0.name): \($0.swiftType) = \($0.defaultValue)" }
        parameters += toOnes.map { "\($0.name): ObjectID<\($0.type)>? = nil" }
        for (place, parameter) in parameters.enumerated() {
          text.line(parameter + (place < parameters.count - 1 ? "," : ""))
        }
      }
      text.indented { text in
        text.line("self.id = id")
        for property in attributes {
          text.line("self.\(property.name) = \(property.isReadOnly ? "nil" : property.name)")
        }
        for property in toOnes { text.line("self.\(property.name) = \(property.name)") }
      }
      text.line("}")
      text.line()
    }
    // Properties may be called as a parameter is, so `self` comes before each.
    text.block("public init(_ row: borrowing Row) {") { text in
      text.line("self.id = row.objectID(\(typeName).self)")
      for (column, property) in attributes.enumerated() {
        text.line("self.\(property.name) = \(read(property, column + 1))")
      }
      for (place, property) in toOnes.enumerated() {
        text.line("self.\(property.name) = row.toOne(\(attributes.count + place + 1))")
      }
    }
    text.line()
    text.block("public func write(to row: inout RowWriter) {") { text in
      for (column, property) in attributes.enumerated() where !property.isReadOnly {
        text.line("row.value(\(column + 1), self.\(property.name))")
      }
      for (place, property) in toOnes.enumerated() {
        text.line("row.toOne(\(attributes.count + place + 1), self.\(property.name))")
      }
    }
  }

  /// A number without a value, which only other clients write, reads as the default.
  private func read(_ property: AttributeProperty, _ column: Int) -> String {
    guard !property.isOptional else { return "row.value(\(column))" }
    return "row.isNull(\(column)) ? \(property.defaultValue) : row.value(\(column))"
  }

  private func writeCasts(to text: inout SwiftText) {
    for (place, type) in superTypes.enumerated() {
      if place > 0 { text.line() }
      text.block("extension ObjectID<\(type)> {") { text in
        text.line("/// The same object as one of its superentity.")
        text.line("public static func of(_ id: ObjectID<\(typeName)>) -> Self { Self(recordName: id.recordName) }")
      }
    }
  }
}

/// Writes the type of a composite attribute.
private struct CompositeType {
  private let name: String
  private let elements: [AttributeProperty]
  private let typeNames: Set<String>

  init(_ property: AttributeProperty, typeNames: Set<String>) {
    name = property.type
    self.typeNames = typeNames
    elements = property.attribute.elements.map { AttributeProperty($0, nil, typeNames: typeNames, isElement: true) }
  }

  func write(to text: inout SwiftText) {
    text.block("public struct \(name): Composite {") { text in
      for element in elements {
        text.line("public var \(element.name): \(element.swiftType) = \(element.defaultValue)")
      }
      text.line()
      text.line("public init() {}")
      writeInitializer(to: &text)
      let hasDecimals = elements.contains { $0.attribute.type == .decimal }
      if hasDecimals || elements.contains(where: { !$0.isOptional }) { writeDecoding(to: &text) }
      if hasDecimals { writeEncoding(to: &text) }
      for element in elements where element.attribute.type == .composite {
        text.line()
        CompositeType(element, typeNames: typeNames).write(to: &text)
      }
    }
  }

  private func writeInitializer(to text: inout SwiftText) {
    guard !elements.isEmpty else { return }
    let parameters = elements.map { "\($0.name): \($0.swiftType) = \($0.defaultValue)" }.joined(separator: ", ")
    text.line()
    text.block("public init(\(parameters)) {") { text in
      for element in elements { text.line("self.\(element.name) = \(element.name)") }
    }
  }

  /// An element that another client has left out has its default.
  private func writeDecoding(to text: inout SwiftText) {
    text.line()
    text.block("public init(from decoder: any Decoder) throws {") { text in
      text.line("let container = try decoder.container(keyedBy: CodingKeys.self)")
      for element in elements {
        let isDecimal = element.attribute.type == .decimal
        let type = isDecimal ? "String" : element.type
        let value = "try container.decodeIfPresent(\(type).self, forKey: .\(element.name))"
        let fallback = element.isOptional ? "" : " ?? self.\(element.name)"
        text.line("self.\(element.name) = \(value)\(isDecimal ? ".flatMap { Decimal(string: $0) }" : "")\(fallback)")
      }
    }
  }

  /// The server takes a Decimal as a text, because JSON's numbers are binary for most readers.
  private func writeEncoding(to text: inout SwiftText) {
    text.line()
    // Swift makes them for types alone that leave one of the two directions to it.
    text.line("private enum CodingKeys: String, CodingKey { case \(elements.map(\.name).joined(separator: ", ")) }")
    text.line()
    text.block("public func encode(to encoder: any Encoder) throws {") { text in
      text.line("var container = encoder.container(keyedBy: CodingKeys.self)")
      for element in elements {
        let optional = element.isOptional ? "?" : ""
        let value = "self.\(element.name)" + (element.attribute.type == .decimal ? "\(optional).description" : "")
        let call = element.isOptional ? "encodeIfPresent" : "encode"
        text.line("try container.\(call)(\(value), forKey: .\(element.name))")
      }
    }
  }
}
