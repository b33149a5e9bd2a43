// Models, schemas and graphs of the tests of the object plane.

import Assets
import Crypto
import Foundation
import History
import InMemoryRecordStore
import JSON
import Mirroring
import ObjectModel
import Records
import ServiceBus
import ServiceKit
import Synchronization
import Testing
import WebServices

@testable import ObjectPlane
@testable import RecordPlane
@testable import RecordStore
@testable import SharedStores
@testable import WorkerHost
@testable import ZoneActions
@testable import ZoneCommit

/// A directory of models; a model's schema is deployed with it.
final class ModelSchemas: SchemaSource {
  private let models: Mutex<[Environment: [ManagedObjectModel]]>
  private let schemas: Mutex<[Environment: Schema]>
  private let version = Mutex<Int64>(1)

  init(_ models: [Environment: [ManagedObjectModel]]) {
    self.models = Mutex(models)
    schemas = Mutex(
      models.mapValues {
        $0.reduce(Schema.initial) { $0.merging(SchemaGenerator.schema(for: ModelIndex($1)), replacesConflicts: false) }
      })
  }

  func schema(of container: ContainerID, _ environment: Environment) async throws(RecordError) -> EnvironmentSchema {
    let known = models.withLock { $0[environment] ?? [] }
    let byHash = Dictionary(known.map { (ModelIndex($0).modelHash, $0) }, uniquingKeysWith: { first, _ in first })
    return EnvironmentSchema(
      version: version.withLock { $0 }, schema: schemas.withLock { $0[environment] ?? Schema.initial }, models: byHash,
      latestModelHash: known.last.map { ModelIndex($0).modelHash }, userRoles: userRoles.withLock { $0 },
      rules: rules.withLock { $0 })
  }

  private let rules = Mutex<EnvironmentRules>(.none)

  /// Declares unique constraints as an operator does.
  func declare(_ unique: EnvironmentRules.Unique...) {
    rules.withLock { $0 = EnvironmentRules(unique: unique) }
    version.withLock { $0 += 1 }
  }

  /// Custom roles by user, as an operator granted them.
  let userRoles = Mutex<[String: [String]]>([:])

  /// Quotas by user, as an operator set them.
  let userQuotas = Mutex<[String: Int64]>([:])

  func standing(of userRecordName: String, _ container: ContainerID, _ environment: Environment) async -> UserStanding?
  {
    userQuotas.withLock { $0[userRecordName] }.map { UserStanding(quotaByteCount: $0) }
  }

  let extended = Mutex<[ExtendSchema.SchemaField]>([])

  func extend(_ container: ContainerID, with fields: [ExtendSchema.SchemaField]) async throws(RecordError) {
    extended.withLock { $0 += fields }
  }

  /// As if every model had been forgotten.
  func forgetModels(in environment: Environment) { models.withLock { $0[environment] = [] } }

  /// A further model, deployed with its schema.
  func add(_ model: ManagedObjectModel, to environment: Environment) {
    models.withLock { $0[environment, default: []].append(model) }
    schemas.withLock {
      $0[environment] = ($0[environment] ?? Schema.initial).merging(
        SchemaGenerator.schema(for: ModelIndex(model)), replacesConflicts: false)
    }
  }

  /// The schema as if an operator had replaced it.
  func replaceSchema(_ schema: Schema, in environment: Environment) {
    schemas.withLock { $0[environment] = schema }
    version.withLock { $0 += 1 }
  }
}

enum SecureRandomName {
  static func make() -> String { UUID().uuidString }
}

/// Photo, PhotoData, Rating, Tag, Thumbnail: a graph with every kind of relationship.
enum PhotoModel {
  static let model = ManagedObjectModel(
    entities: [
      Entity(
        name: "Photo",
        attributes: [
          Attribute(name: "displayName", type: .string), Attribute(name: "taken", type: .date),
          Attribute(name: "views", type: .integer32, defaultValue: "0"),
          Attribute(name: "price", type: .decimal), Attribute(name: "ratio", type: .float),
          Attribute(name: "isFavorite", type: .boolean),
          Attribute(name: "place", type: .composite, elements: [Attribute(name: "city", type: .string)]),
          Attribute(name: "uuid", type: .uuid),
        ],
        relationships: [
          relationship("photoData", "PhotoData", "photo"), relationship("ratings", "Rating", "photo", isToMany: true),
          relationship("tags", "Tag", "photos", isToMany: true),
        ]),
      Entity(
        name: "PhotoData", attributes: [Attribute(name: "data", type: .binary)],
        relationships: [relationship("photo", "Photo", "photoData")]),
      Entity(
        name: "Rating",
        attributes: [Attribute(name: "value", type: .integer16, defaultValue: "0", preservesValueOnDeletion: true)],
        relationships: [relationship("photo", "Photo", "ratings")]),
      Entity(
        name: "Tag",
        attributes: [
          Attribute(name: "name", type: .string), Attribute(name: "photoCount", type: .integer64, isDerived: true),
        ],
        relationships: [relationship("photos", "Photo", "tags", isToMany: true)]),
      Entity(name: "Abstract", isAbstract: true),
    ], configurations: ["Cloud": ["Photo", "Tag"]])

  private static func relationship(_ name: String, _ destination: String, _ inverse: String, isToMany: Bool = false)
    -> Relationship
  {
    Relationship(
      name: name, destinationName: destination, inverseName: inverse, inverseEntityName: destination, isToMany: isToMany
    )
  }
}

/// A device's naive state after import batches: objects by ID with their properties as JSON, and links.
struct DeviceGraph: Equatable {
  private(set) var objects: [String: [String: String]] = [:]
  private(set) var links: Set<String> = []

  mutating func apply(_ change: JSONValue) {
    let id = change["objectID"]?.string ?? ""
    switch change["changeType"]?.string {
    case "save":
      var properties = ["entity": change["entity"]?.string ?? ""]
      for key in ["attributes", "relationships"] {
        for (name, value) in change[key]?.members ?? [] {
          var writer = JSONWriter()
          writer.value(value)
          properties[name] = String(decoding: writer.bytes, as: UTF8.self)
        }
      }
      objects[id] = properties
    case "delete": objects[id] = nil
    case "link": links.insert(Self.link(change))
    case "unlink": links.remove(Self.link(change))
    default: break
    }
  }

  private static func link(_ change: JSONValue) -> String {
    """
    \(change["entity"]?.string ?? "").\(change["relationship"]?.string ?? "") \
    \(change["objectID"]?.string ?? "")→\(change["target"]?["objectID"]?.string ?? "")
    """
  }
}
