// The generated text: against kept files, and against a naive reading of each model.

import Foundation
import ModelTypes
import ObjectModel
import Testing
import XCDataModel

struct GeneratedTextTests {
  @Test(arguments: [ModelFiles.everything, ModelFiles.zoo, ModelFiles.sample])
  func `the types of a model are those that were kept`(model: URL) throws {
    let text = try ModelTypes.source(of: model.path)
    let name = model.deletingPathExtension().lastPathComponent
    let file = ModelFiles.root.appending(path: "Tests/ModelTypes/Golden/\(name).txt")
    if ProcessInfo.processInfo.environment["REWRITE"] == "1" { try Data(text.utf8).write(to: file) }
    #expect(try String(contentsOf: file, encoding: .utf8) == text, "REWRITE=1 writes \(file.lastPathComponent)")
  }

  @Test(arguments: ModelFiles.all) func `every entity, attribute and relationship of a model is in its types`(
    model: URL
  ) throws {
    let text = try ModelTypes.source(of: model.path)
    let contents = try Self.contents(of: model)
    let naive = NaiveModel(contents)
    #expect(!naive.entities.isEmpty)
    for entity in naive.entities {
      let type = try #require(text.firstRange(of: "public struct \(entity.type): ManagedObject {"), "\(entity.type)")
      let body = text[type.upperBound...]
      let end = try #require(body.firstRange(of: "\n}\n")).lowerBound
      for declaration in naive.declarations(of: entity) {
        #expect(body[..<end].contains(declaration), "\(entity.name) does not declare: \(declaration)")
      }
    }
    #expect(text.contains("hash: \"\(ModelIndex(try ModelReader.read([UInt8](contents.utf8))).modelHash)\""))
  }

  @Test func `a subentity's identifier becomes one of each superentity`() throws {
    let text = try ModelTypes.source(of: ModelFiles.everything.path)
    for (above, below) in [("Thing", "Animal"), ("Thing", "Dog"), ("Animal", "Dog")] {
      #expect(text.contains("extension ObjectID<\(above)> {"))
      #expect(text.contains("public static func of(_ id: ObjectID<\(below)>) -> Self"))
    }
  }

  @Test(arguments: ["Date", "UUID", "URI", "Decimal", "Transformable"])
  func `a type of Foundation is imported, also for a transient attribute alone`(type: String) throws {
    let attribute = "<attribute name='a' optional='YES' transient='YES' attributeType='\(type)'/>"
    let bundle = try TemporaryBundle(["Test": "<model><entity name='A'>\(attribute)</entity></model>"])
    #expect(try ModelTypes.source(of: bundle.url.path).contains("public import Foundation"))
  }

  @Test func `versions come in the order in which Xcode numbers them`() throws {
    let model = "<model><entity name='A%'><attribute name='a' optional='YES' attributeType='String'/></entity></model>"
    let names = ["Test", "Test 2", "Test 3", "Test 9", "Test 10"]
    let versions = names.enumerated().map { ($1, Optional(model.replacing("%", with: "\($0)"))) }
    let bundle = try TemporaryBundle(Dictionary(uniqueKeysWithValues: versions), current: "Test 3")
    let text = try ModelTypes.source(of: bundle.url.path)
    let entities = text.matches(of: /EntityDescription\(\n *"(A\d)"/).map { String($0.output.1) }
    #expect(entities == ["A2", "A0", "A1", "A3", "A4"])
    #expect(text.contains("earlierVersions: [testVersion1, testVersion2, testVersion9, testVersion10]"))
  }

  @Test func `an earlier version keeps the name of its constant, and an app can name it`() throws {
    let model = "<model><entity name='A%'><attribute name='a' optional='YES' attributeType='String'/></entity></model>"
    let names = ["Test", "Test 3", "Old Test", "Test 4"]
    let versions = names.enumerated().map { ($1, Optional(model.replacing("%", with: "\($0)"))) }
    let bundle = try TemporaryBundle(Dictionary(uniqueKeysWithValues: versions), current: "Test 4")
    let text = try ModelTypes.source(of: bundle.url.path)
    for (name, constant) in [("Test", "testVersion1"), ("Test 3", "testVersion3"), ("Old Test", "oldTestVersion")] {
      let comment = "/// The earlier version `\(name)`: what a migration step begins from."
      #expect(text.contains("\(comment)\n  public static let \(constant) = ManagedObjectModel("))
    }
  }

  private static func contents(of model: URL) throws -> String {
    let plist = (try? String(contentsOf: model.appending(path: ".xccurrentversion"), encoding: .utf8)) ?? ""
    let current = plist.firstMatch(of: /<string>(.*)<\/string>/).map { String($0.output.1) }
    let version = current ?? model.deletingPathExtension().lastPathComponent + ".xcdatamodel"
    return try String(contentsOf: model.appending(path: "\(version)/contents"), encoding: .utf8)
  }
}

/// What a person who reads the file line by line expects of the types.
private struct NaiveModel {
  struct Entity {
    let name: String
    let type: String
    let parent: String?
    let lines: [Substring]
  }

  let entities: [Entity]

  init(_ contents: String) {
    entities = contents.matches(of: /<entity (name=[^>]*)>([\s\S]*?)<\/entity>/).map { match in
      let head = match.output.1
      let name = Self.value("name", head) ?? ""
      let type = Self.value("representedClassName", head).map { $0.replacing(".", with: "") } ?? name
      return Entity(
        name: name, type: type, parent: Self.value("parentEntity", head), lines: match.output.2.split(separator: "\n"))
    }
  }

  private static func value(_ key: String, _ line: Substring) -> String? {
    line.firstRange(of: "\(key)=\"").map { String(line[$0.upperBound...].prefix { $0 != "\"" }) }
  }

  /// Own and inherited ones.
  func declarations(of entity: Entity) -> [String] {
    let inherited = entities.first { $0.name == entity.parent }.map { declarations(of: $0) } ?? []
    return inherited + entity.lines.compactMap { declaration(String($0)[...]) }
  }

  private func declaration(_ line: Substring) -> String? {
    guard var name = Self.value("name", line) else { return nil }
    if ["in", "class", "default"].contains(name) { name = "`\(name)`" }
    if name == "id" { name = "idValue" }
    if line.contains("<relationship ") {
      let destination = Self.value("destinationEntity", line)
      let type = entities.first { $0.name == destination }?.type ?? ""
      return line.contains("toMany=\"YES\"")
        ? "public var \(name): FetchRequest<\(type)> {" : "public var \(name): ObjectID<\(type)>?"
    }
    guard line.contains("<attribute "), let kind = Self.value("attributeType", line) else { return nil }
    let types = [
      "Integer 16": "Int16", "Integer 32": "Int32", "Integer 64": "Int64", "Double": "Double", "Float": "Float",
      "Decimal": "Decimal",
      "Boolean": "Bool", "Date": "Date", "UUID": "UUID", "URI": "URL", "String": "String", "Transformable": "Data",
      "Binary": line.contains("allowsExternalBinaryDataStorage=\"YES\"") ? "ExternalData" : "Data",
      "Composite": name.prefix(1).uppercased() + name.dropFirst(),
    ]
    guard let type = types[kind] else { return nil }
    if line.contains("derived=\"YES\"") { return "public let \(name): \(type)?" }
    let isNumber = line.contains("usesScalarValueType=\"YES\"") && line.contains("default")
    return "public var \(name): \(type)\(line.contains("optional=\"YES\"") && !isNumber ? "?" : "")"
  }
}
