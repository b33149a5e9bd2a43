// The models of runs, besides those that are read from files.

import Foundation
import MirroringWorld
import ObjectModel
import Records
import XCDataModel

package enum RunModels {
  private static func attribute(_ name: String, _ type: AttributeType, _ policy: ConflictPolicy) -> Attribute {
    Attribute(name: name, type: type, userInfo: [ReservedName.conflictPolicyKey: policy.rawValue])
  }

  /// Each conflict policy that resolves automatically, each kind of relationship, and an entity whose edits win over
  /// deletions.
  package static let policies = ModelShape(
    ManagedObjectModel(entities: [
      Entity(
        name: "Card",
        attributes: [
          Attribute(name: "title", type: .string), Attribute(name: "rank", type: .integer32, defaultValue: "3"),
          attribute("body", .string, .hlc),
          attribute("highest", .integer64, .max), attribute("earliest", .date, .min),
          attribute("likes", .integer32, .counter), attribute("labels", .string, .setUnion),
        ],
        relationships: [
          Sample.toOne("box", "Box", "cards"), Sample.toMany("marks", "Mark", "cards"),
          Sample.toOne("cover", "Cover", "card"),
          Sample.toMany("related", "Card", "related"),
        ]),
      Entity(
        name: "Cover", attributes: [Attribute(name: "isLarge", type: .boolean)],
        relationships: [Sample.toOne("card", "Card", "cover")]),
      Entity(
        name: "Pin", attributes: [Attribute(name: "title", type: .string)],
        relationships: [Sample.toOne("box", "Box", "pins"), Sample.toMany("marks", "Mark", "pins")],
        userInfo: [ReservedName.deletePolicyKey: DeletePolicy.editWins.rawValue]),
      Entity(
        name: "Box", attributes: [Attribute(name: "name", type: .string), Attribute(name: "weight", type: .double)],
        relationships: [Sample.toMany("cards", "Card", "box"), Sample.toMany("pins", "Pin", "box")]),
      Entity(
        name: "Mark", attributes: [Attribute(name: "name", type: .string)],
        relationships: [Sample.toMany("cards", "Card", "marks"), Sample.toMany("pins", "Pin", "marks")]),
    ]))

  /// The mirroring tests' model: inheritance, self-relationships, names in upper and lower case.
  package static let sample = ModelShape(Sample.model)
}

extension RunModels {
  /// A model by its name here, or read from an Xcode file; nil when there is none.
  package static func named(_ name: String) -> ModelShape? {
    switch name {
    case "policies": policies
    case "sample": sample
    default: try? ModelShape(currentVersion(of: URL(filePath: name)))
    }
  }

  private static func currentVersion(of bundle: URL) throws -> ManagedObjectModel {
    let versions = try FileManager.default.contentsOfDirectory(atPath: bundle.path).filter {
      $0.hasSuffix(".xcdatamodel")
    }.sorted()
    let plist = try? Data(contentsOf: bundle.appending(path: ".xccurrentversion"))
    let current = try plist.map { try ModelReader.currentVersion(fromPlist: Array($0)) }
    return try ModelReader.read(
      Array(try Data(contentsOf: bundle.appending(path: current ?? versions.last ?? "").appending(path: "contents"))))
  }
}
