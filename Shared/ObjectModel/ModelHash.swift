// A hash that is equal for equal models, regardless of the tool that wrote the file.

import Crypto
import Records

extension ModelIndex {
  /// SHA-256 of the mirrored shape in a stable order, 64 lower-case hex digits.
  ///
  /// It covers everything that decides how objects become records and back: hierarchies, mirrored attributes with
  /// types, defaults and encryption, relationships with their inverses, configurations. It leaves out transient,
  /// derived and ignored attributes, delete rules, class names and diagrams, which only clients use.
  public var modelHash: String {
    var text = CanonicalText()
    text.add("aquifer-model-1")
    for entity in entities {
      text.add("entity", entity.name, entity.entity.parentName ?? "", entity.isAbstract)
      let own = entity.name
      for attribute in entity.mirroredAttributes where attribute.declaringEntityName == own {
        add(attribute.attribute, attribute.isEncrypted, to: &text)
      }
      for relationship in entity.relationships where relationship.declaringEntityName == own && relationship.isMirrored
      {
        text.add(
          "relationship", relationship.name, relationship.isToMany, relationship.destinationName,
          relationship.inverse?.name ?? "")
        text.add(relationship.inverse?.declaringEntityName ?? "", relationship.relationship.isOptional)
      }
    }
    for (name, members) in model.configurations.sorted(by: { $0.key < $1.key }) {
      text.add("configuration", name)
      for member in members.sorted() { text.add(member) }
    }
    return Hex.encode(SHA256.hash(text.bytes))
  }

  private func add(_ attribute: Attribute, _ isEncrypted: Bool, to text: inout CanonicalText) {
    text.add(
      "attribute", attribute.name, attribute.type.rawValue, attribute.isOptional, isEncrypted,
      attribute.defaultValue != nil)
    text.add(
      attribute.defaultValue ?? "", attribute.preservesValueOnDeletion, attribute.allowsExternalBinaryDataStorage,
      attribute.elements.count)
    for element in attribute.elements { add(element, false, to: &text) }
    // Added only where it is set, so that models without it keep their hashes.
    if attribute.isExactDecimal { text.add(ReservedName.exactDecimalKey) }
  }
}

/// A sequence of values, each with its length, so that no two sequences have the same bytes.
private struct CanonicalText {
  private(set) var bytes: [UInt8] = []

  mutating func add(_ values: any CustomStringConvertible...) {
    for value in values {
      let text = value.description
      bytes += Array("\(text.utf8.count):".utf8)
      bytes += Array(text.utf8)
    }
  }
}
