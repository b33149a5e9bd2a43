// Reads Xcode's model files. A module of its own, so that only its users link the XML library and all of Foundation.

public import ObjectModel
import Records
import XML

/// Turns the bytes of a model file into a model. The caller opens the files: this module opens none.
public enum ModelReader {
  /// Reads `<name>.xcdatamodel/contents`.
  /// - Throws: `ModelReadingError` with the line, for malformed XML, another kind of file, or values that no model has.
  public static func read(_ contents: [UInt8]) throws(ModelReadingError) -> ManagedObjectModel {
    try model(in: root(of: contents))
  }

  /// The root element of a model file.
  private static func tree(_ bytes: [UInt8]) throws(ModelReadingError) -> XMLNode {
    guard bytes.count <= Limit.requestByteCount else {
      throw ModelReadingError("The file has \(bytes.count) bytes; a model file has at most \(Limit.requestByteCount).")
    }
    do throws(XMLError) {
      return try XMLTree.parse(bytes)
    } catch {
      throw ModelReadingError(error.reason, line: error.line)
    }
  }

  static func root(of contents: [UInt8]) throws(ModelReadingError) -> XMLNode {
    let root = try tree(contents)
    guard root.name == "model" else {
      throw ModelReadingError("The root element is '\(root.name)'; a model's is 'model'.", line: root.line)
    }
    return root
  }

  static func model(in root: XMLNode) throws(ModelReadingError) -> ManagedObjectModel {
    let composites = try CompositeReader(
      definitions: root.children(named: "composite") + root.children(named: "compositeAttribute"))
    var entities: [Entity] = []
    var configurations: [String: [String]] = [:]
    for node in root.children {
      switch node.name {
      case "entity": entities.append(try EntityReader(node: node, composites: composites).read())
      case "configuration": configurations[try node.required("name"), default: []] += try members(of: node)
      // Fetch requests, diagram positions, composite definitions, and anything that later versions of Xcode add.
      default: break
      }
    }
    return ManagedObjectModel(entities: entities, configurations: configurations.mapValues { Set($0).sorted() })
  }

  /// The current version's folder, such as `Photos 2.xcdatamodel`, from an `.xccurrentversion` property list in XML.
  public static func currentVersion(fromPlist bytes: [UInt8]) throws(ModelReadingError) -> String {
    let root = try tree(bytes)
    guard root.name == "plist", let dictionary = root.children(named: "dict").first else {
      throw ModelReadingError("The file is not a property list with a dictionary.", line: root.line)
    }
    for (key, value) in zip(dictionary.children, dictionary.children.dropFirst())
    where key.name == "key" && key.text == "_XCCurrentVersionName" {
      // The name becomes part of a path and must stay inside its folder.
      guard value.name == "string", !value.text.isEmpty, !value.text.contains("/"), value.text != ".." else {
        throw ModelReadingError("'_XCCurrentVersionName' is not the name of a model version.", line: value.line)
      }
      return value.text
    }
    throw ModelReadingError("The property list does not have '_XCCurrentVersionName'.", line: root.line)
  }

  private static func members(of configuration: XMLNode) throws(ModelReadingError) -> [String] {
    var names: [String] = []
    for member in configuration.children(named: "memberEntity") { names.append(try member.required("name")) }
    return names
  }
}

/// Reads one `<entity>`.
private struct EntityReader {
  let node: XMLNode
  let composites: CompositeReader

  func read() throws(ModelReadingError) -> Entity {
    let name = try node.required("name")
    var entity = Entity(
      name: name, parentName: node.attributes["parentEntity"], isAbstract: node.flag("isAbstract"),
      isSyncable: node.attributes["syncable"] != "NO", userInfo: node.userInfo)
    entity.renamingIdentifier = node.attributes["elementID"]
    for child in node.children {
      switch child.name {
      case "attribute": entity.attributes.append(try composites.attribute(child, of: name))
      case "relationship": entity.relationships.append(try relationship(child, of: name))
      case "uniquenessConstraints": entity.uniquenessConstraints += uniquenessConstraints(child)
      case "fetchIndex": entity.fetchIndexes.append(try child.required("name"))
      // Fetched properties are not mirrored; `userInfo` is read above.
      default: break
      }
    }
    return entity
  }

  private func relationship(_ node: XMLNode, of entity: String) throws(ModelReadingError) -> Relationship {
    let name = try node.required("name")
    var rule = DeleteRule.nullify
    if let text = node.attributes["deletionRule"] {
      guard let known = DeleteRule(rawValue: text) else {
        throw ModelReadingError(
          "\(entity).\(name) has the unknown delete rule '\(text)'.", line: node.line, entity: entity, property: name)
      }
      rule = known
    }
    let minCount = try node.count("minCount", of: entity, name)
    let maxCount = try node.count("maxCount", of: entity, name)
    let isToMany = node.flag("toMany") || maxCount.map { $0 != 1 } ?? false
    var relationship = Relationship(
      name: name, destinationName: node.attributes["destinationEntity"] ?? "",
      inverseName: node.attributes["inverseName"],
      inverseEntityName: node.attributes["inverseEntity"], isToMany: isToMany, minCount: minCount ?? 0,
      maxCount: isToMany ? maxCount ?? 0 : 1,
      isOrdered: node.flag("ordered"), isOptional: node.flag("optional"), isTransient: node.flag("transient"),
      deleteRule: rule,
      userInfo: node.userInfo)
    relationship.renamingIdentifier = node.attributes["elementID"]
    return relationship
  }

  private func uniquenessConstraints(_ node: XMLNode) -> [[String]] {
    node.children(named: "uniquenessConstraint").map {
      $0.children(named: "constraint").compactMap { $0.attributes["value"] }
    }
  }
}

/// Reads attributes, and the elements of composite attributes.
struct CompositeReader {
  /// Composite definitions of the model by name.
  private let definitions: [String: XMLNode]
  /// The keys with which an attribute names its composite definition: they differ between versions of Xcode.
  private static let referenceKeys = ["compositeName", "compositeType", "compositeAttributeName", "elementName"]
  private static let nestingLimit = 8

  init(definitions nodes: [XMLNode]) throws(ModelReadingError) {
    var definitions: [String: XMLNode] = [:]
    for node in nodes {
      let name = try node.required("name")
      guard definitions.updateValue(node, forKey: name) == nil else {
        throw ModelReadingError("The composite '\(name)' is defined twice.", line: node.line)
      }
    }
    self.definitions = definitions
  }

  func attribute(_ node: XMLNode, of entity: String, nesting: Int = 0) throws(ModelReadingError) -> Attribute {
    let name = try node.required("name")
    let typeName = node.attributes["attributeType"] ?? AttributeType.undefined.rawValue
    guard let type = AttributeType(rawValue: typeName) else {
      throw ModelReadingError(
        "\(entity).\(name) has the unknown attribute type '\(typeName)'.", line: node.line, entity: entity,
        property: name)
    }
    var attribute = Attribute(
      name: name, type: type, isOptional: node.flag("optional"), isTransient: node.flag("transient"),
      isDerived: node.flag("derived"),
      defaultValue: node.attributes[type == .date ? "defaultDateTimeInterval" : "defaultValueString"],
      allowsCloudEncryption: node.flag("allowsCloudEncryption"),
      allowsExternalBinaryDataStorage: node.flag("allowsExternalBinaryDataStorage"),
      preservesValueOnDeletion: node.flag("preserveAfterDeletion"),
      usesMergeableStorage: node.flag("usesMergeableStorage"),
      valueTransformerName: node.attributes["valueTransformerName"],
      elements: type == .composite ? try elements(of: node, entity, name, nesting) : [], userInfo: node.userInfo)
    attribute.renamingIdentifier = node.attributes["elementID"]
    return attribute
  }

  private func elements(of node: XMLNode, _ entity: String, _ name: String, _ nesting: Int) throws(ModelReadingError)
    -> [Attribute]
  {
    // Composites may hold composites; without the limit, one that holds itself would never end.
    guard nesting < Self.nestingLimit else {
      throw ModelReadingError(
        "\(entity).\(name) nests composites more than \(Self.nestingLimit) deep.", line: node.line, entity: entity,
        property: name)
    }
    var source = node
    if let reference = Self.referenceKeys.lazy.compactMap({ node.attributes[$0] }).first {
      guard let definition = definitions[reference] else {
        throw ModelReadingError(
          "\(entity).\(name) is a composite '\(reference)' that is not defined.", line: node.line, entity: entity,
          property: name)
      }
      source = definition
    }
    var elements: [Attribute] = []
    for child in source.children(named: "attribute") {
      elements.append(try attribute(child, of: "\(entity).\(name)", nesting: nesting + 1))
    }
    return elements
  }
}

extension XMLNode {
  fileprivate func required(_ key: String) throws(ModelReadingError) -> String {
    guard let value = attributes[key], !value.isEmpty else {
      throw ModelReadingError("The element '\(name)' does not have '\(key)'.", line: line)
    }
    return value
  }

  func flag(_ key: String) -> Bool {
    switch attributes[key] {
    case "YES", "true", "1": true
    default: false
    }
  }

  fileprivate func count(_ key: String, of entity: String, _ property: String) throws(ModelReadingError) -> Int? {
    guard let text = attributes[key] else { return nil }
    // Old files write -1 for "no limit".
    guard let count = Int(text), count >= -1 else {
      throw ModelReadingError(
        "\(entity).\(property) has '\(key)' = '\(text)', which is not a count.", line: line, entity: entity,
        property: property)
    }
    return max(count, 0)
  }

  fileprivate var userInfo: [String: String] {
    var entries: [String: String] = [:]
    for entry in children(named: "userInfo").flatMap({ $0.children(named: "entry") }) {
      guard let key = entry.attributes["key"] else { continue }
      entries[key] = entry.attributes["value"] ?? ""
    }
    return entries
  }
}
