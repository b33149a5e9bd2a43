// The model that the store's tests use: every kind of attribute and relationship once.

import FoundationEssentials
import ReplicaStore

enum Photos {
  static let entities = [
    EntityDescription(
      "Photo",
      attributes: [
        AttributeDescription("title", .string, defaultValue: "untitled"), AttributeDescription("size", .integer64),
        AttributeDescription("price", .decimal), AttributeDescription("taken", .date),
        AttributeDescription("isHidden", .boolean),
        AttributeDescription("score", .double), AttributeDescription("legacyID", .integer32, .preservedOnDeletion),
        AttributeDescription("note", .string, .notMirrored),
        AttributeDescription("tagCount", .integer64, .derived, derivation: "tags.@count"),
        AttributeDescription("image", .binary, .external),
      ],
      relationships: [
        RelationshipDescription("data", to: "PhotoData", inverse: "photo", isToMany: false, .cascade),
        RelationshipDescription("album", to: "Album", inverse: "photos", isToMany: false),
        RelationshipDescription("tags", to: "Tag", inverse: "photos", isToMany: true),
      ], fetchIndexes: [["title"]]),
    EntityDescription(
      "PhotoData", attributes: [AttributeDescription("bytes", .binary)],
      relationships: [RelationshipDescription("photo", to: "Photo", inverse: "data", isToMany: false)]),
    EntityDescription(
      "Album", attributes: [AttributeDescription("name", .string, .required, maximum: 40)],
      relationships: [RelationshipDescription("photos", to: "Photo", inverse: "album", isToMany: true)]),
    EntityDescription(
      "Tag", attributes: [AttributeDescription("name", .string)],
      relationships: [
        RelationshipDescription("photos", to: "Photo", inverse: "tags", isToMany: true),
        RelationshipDescription("related", to: "Tag", inverse: "related", isToMany: true),
      ]),
    EntityDescription("SmartTag", parent: "Tag", attributes: [AttributeDescription("rule", .string)]),
  ]

  static let model = ManagedObjectModel(hash: "photos-1", entities: entities)
}

/// A clock and identifiers that tests set.
final class World: Sendable {
  static func configuration(_ path: String?, isMirrored: Bool = true, seed: Int = 0) -> ReplicaConfiguration {
    let counter = Counter(seed)
    var configuration = ReplicaConfiguration(
      path: path, processID: "1", machineIdentifier: "machine", now: { Date(milliseconds: 1_000_000 + counter.next()) },
      makeIdentifier: { Counter.uuid(counter.next()) })
    configuration.isMirrored = isMirrored
    return configuration
  }

  /// A folder that is removed with the value.
  static func folder() throws -> Folder { try Folder() }
}

final class Folder: Sendable {
  let path: String

  init() throws {
    path = FileManager.default.temporaryDirectory.appending(path: "replica-\(UUID().uuidString)").path
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
  }

  deinit { try? FileManager.default.removeItem(atPath: path) }
}
