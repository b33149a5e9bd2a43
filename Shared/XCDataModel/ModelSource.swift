// A model file with what only code generators need of it: lines for errors, and what stays on the device.

public import ObjectModel
import XML

/// A model, and where its file says what.
public struct ModelSource: Sendable {
  /// An entity's element.
  public struct EntitySource: Sendable {
    public let line: Int
    /// The class that Xcode writes for the entity, without its module; the entity's name if the file names none.
    public let className: String
    /// The properties of each fetch index, in order.
    public var fetchIndexes: [[String]] = []
    /// By name; where two properties have one name, the first of them.
    public var properties: [String: PropertySource] = [:]
  }

  /// An attribute's or a relationship's element.
  public struct PropertySource: Sendable {
    public let line: Int
    /// A derived attribute's expression, such as `tags.@count`.
    public let derivationExpression: String?
    /// The smallest and largest number, or length of a string, as the file spells it.
    public let minimum: String?
    public let maximum: String?
    /// The property's name in earlier versions (`elementID`); nil if the name never changed.
    public let renamingIdentifier: String?
    /// Xcode's own classes have a number, not an object, for the attribute.
    public let usesScalarValueType: Bool
  }

  public let model: ManagedObjectModel
  /// By name; where two entities have one name, the first of them.
  public let entities: [String: EntitySource]
  /// Lines of configurations by name.
  public let configurationLines: [String: Int]

  /// The Swift type of an entity's objects.
  public func typeName(of entity: String) -> String { entities[entity]?.className ?? entity }

  /// The line of a property, of an entity, or of the model: of the innermost that the file has. Counted from 1.
  public func line(entity: String?, property: String?) -> Int {
    guard let entity, let source = entities[entity] else { return 1 }
    return property.flatMap { source.properties[$0]?.line } ?? source.line
  }
}

extension ModelReader {
  /// Reads `<name>.xcdatamodel/contents` with lines and what clients alone need.
  /// - Throws: what `read` throws.
  public static func source(_ contents: [UInt8]) throws(ModelReadingError) -> ModelSource {
    let root = try root(of: contents)
    let model = try model(in: root)
    var entities: [String: ModelSource.EntitySource] = [:]
    for node in root.children(named: "entity") {
      guard let name = node.attributes["name"], entities[name] == nil else { continue }
      // `.Photo` stands for a class of the app's own module, and NSManagedObject for no class of the entity's own.
      let declared = node.attributes["representedClassName"]?.split(separator: ".").last.map(String.init)
      var entity = ModelSource.EntitySource(
        line: node.line, className: declared == "NSManagedObject" ? name : declared ?? name)
      for child in node.children { read(child, into: &entity) }
      entities[name] = entity
    }
    let lines = root.children(named: "configuration").compactMap { node in
      node.attributes["name"].map { ($0, node.line) }
    }
    return ModelSource(
      model: model, entities: entities, configurationLines: Dictionary(lines, uniquingKeysWith: { first, _ in first }))
  }

  private static func read(_ node: XMLNode, into entity: inout ModelSource.EntitySource) {
    switch node.name {
    case "attribute", "relationship":
      guard let name = node.attributes["name"], entity.properties[name] == nil else { return }
      entity.properties[name] = ModelSource.PropertySource(
        line: node.line, derivationExpression: node.attributes["derivationExpression"],
        minimum: node.attributes["minValueString"],
        maximum: node.attributes["maxValueString"], renamingIdentifier: node.attributes["elementID"],
        usesScalarValueType: node.flag("usesScalarValueType"))
    case "fetchIndex":
      // An element without a property is an expression, which a replica has no index for.
      let elements = node.children(named: "fetchIndexElement").map { $0.attributes["property"] }
      if !elements.contains(nil) { entity.fetchIndexes.append(elements.compactMap { $0 }) }
    default: break
    }
  }
}
