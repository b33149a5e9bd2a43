// The properties of an entity's struct: names and types in Swift, and the columns that the store has for them.

import ObjectModel
import Records
import XCDataModel

/// An attribute as a property.
struct AttributeProperty {
  let attribute: Attribute
  /// The property's name in Swift, with backticks where they are needed.
  let name: String
  /// Without its question mark.
  let type: String
  let isOptional: Bool
  /// What a new object has.
  let defaultValue: String

  /// Derived attributes are the store's to write.
  var isReadOnly: Bool { attribute.isDerived }
  var swiftType: String { isOptional ? type + "?" : type }

  /// - Parameters:
  ///   - typeNames: names of the model's types, which a composite's type must not hide.
  ///   - isElement: the attribute is one of a composite.
  init(
    _ attribute: Attribute, _ source: ModelSource.PropertySource?, typeNames: Set<String>, isElement: Bool = false
  ) {
    self.attribute = attribute
    name = isElement ? SwiftNames.identifier(attribute.name) : SwiftNames.property(attribute.name)
    type = attribute.type == .composite ? SwiftNames.composite(attribute.name, besides: typeNames) : attribute.swiftType
    let initial = attribute.defaultLiteral
    // Xcode's classes have a number for such an attribute, and none of them can be nil.
    let isNumber = source?.usesScalarValueType == true && initial != nil
    isOptional = attribute.isDerived || initial == nil || (attribute.isOptional && !isNumber)
    defaultValue = attribute.isDerived ? "nil" : initial ?? "nil"
  }
}

/// A relationship as a property.
struct RelationshipProperty {
  let relationship: Relationship
  let name: String
  /// The destination's type.
  let type: String
}

extension Attribute {
  /// The type of the attribute's values; a composite's is its own.
  fileprivate var swiftType: String {
    switch type {
    case .integer16: "Int16"
    case .integer32: "Int32"
    case .integer64: "Int64"
    case .decimal: "Decimal"
    case .double: "Double"
    case .float: "Float"
    case .string: "String"
    case .boolean: "Bool"
    case .date: "Date"
    case .uuid: "UUID"
    case .uri: "URL"
    case .binary where allowsExternalBinaryDataStorage: "ExternalData"
    case .binary, .transformable: "Data"
    // The validator refuses both.
    case .composite, .undefined, .objectID: "Never"
    }
  }

  /// The model's default as an expression; nil if there is none.
  fileprivate var defaultLiteral: String? {
    guard let text = defaultValue, defaultFieldValue != nil else { return nil }
    switch type {
    case .integer16, .integer32, .integer64: return text
    case .boolean: return defaultFieldValue == .int64(1) ? "true" : "false"
    case .double, .float: return Double(text).map { "\($0)" }
    case .decimal: return "Decimal(string: \(SwiftNames.literal(text))) ?? 0"
    case .date: return "Date(timeIntervalSinceReferenceDate: \(text))"
    case .string: return SwiftNames.literal(text)
    case .uuid: return "UUID(uuidString: \(SwiftNames.literal(text)))!"
    case .uri: return "URL(string: \(SwiftNames.literal(text)))!"
    case .binary, .transformable, .composite, .undefined, .objectID: return nil
    }
  }

  /// Whether the type is Foundation's.
  var needsFoundation: Bool {
    switch type {
    case .decimal, .date, .uuid, .uri, .transformable: true
    case .binary: !allowsExternalBinaryDataStorage
    case .composite: elements.contains(where: \.needsFoundation)
    default: false
    }
  }
}
