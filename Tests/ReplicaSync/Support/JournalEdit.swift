// Edits of the journal, in a naive replica and in a real one.

import Foundation
import MirrorWire

@testable import ReplicaStore

/// What an app does in one save.
protocol JournalEdit {
  /// Objects of an entity, ascending.
  func names(_ entity: String) -> [String]
  mutating func insert(_ entity: String, _ name: String, _ attributes: [String: AttributeValue])
  mutating func set(_ attribute: String, of name: String, _ value: AttributeValue)
  mutating func point(_ relationship: String, of name: String, to target: String?)
  mutating func pair(_ post: String, _ tag: String, isMade: Bool)
  mutating func delete(_ name: String)
}

/// A replica of a test, with its file.
protocol JournalReplica: Sendable {
  var store: any MirroredStore { get }
  func save(_ edit: @escaping @Sendable (inout any JournalEdit) -> Void) async throws
  func shown() async throws -> [String]
  /// Another process with the same file, after the former one ended.
  func reopened() async throws -> any JournalReplica
}

extension NaiveReplica: JournalReplica {
  var store: any MirroredStore { self }
  func shown() async throws -> [String] {
    var file = file
    file.applyLatePage(broken)
    return file.graph.shown
  }
  func reopened() async throws -> any JournalReplica { afterDeath() }
}

/// The journal as code.
let journalEntities = [
  EntityDescription(
    "Post",
    attributes: [
      AttributeDescription("title", .string), AttributeDescription("score", .integer64),
      AttributeDescription("photo", .binary, .external),
    ],
    relationships: [
      RelationshipDescription("cover", to: "Cover", inverse: "post", isToMany: false),
      RelationshipDescription("remarks", to: "Remark", inverse: "post", isToMany: true),
      RelationshipDescription("tags", to: "Tag", inverse: "posts", isToMany: true),
    ]),
  EntityDescription(
    "Cover", attributes: [AttributeDescription("name", .string)],
    relationships: [RelationshipDescription("post", to: "Post", inverse: "cover", isToMany: false)]),
  EntityDescription(
    "Remark", attributes: [AttributeDescription("text", .string)],
    relationships: [RelationshipDescription("post", to: "Post", inverse: "remarks", isToMany: false)]),
  EntityDescription(
    "Tag", attributes: [AttributeDescription("name", .string)],
    relationships: [RelationshipDescription("posts", to: "Post", inverse: "tags", isToMany: true)]),
]

/// The real replica, in a file of its own.
final class StoredReplica: JournalReplica {
  let replica: Replica
  private let path: String
  private let modelHash: String
  private let isShared: Bool

  var store: any MirroredStore { replica }

  init(_ path: String, modelHash: String, isShared: Bool = false) async throws {
    self.path = path
    self.modelHash = modelHash
    self.isShared = isShared
    var configuration = ReplicaConfiguration(
      path: path, processID: "1", machineIdentifier: "machine", now: { Date.now }, makeIdentifier: { UUID() })
    configuration.isMirrored = true
    configuration.isShared = isShared
    replica = try await Replica.open(configuration, ManagedObjectModel(hash: modelHash, entities: journalEntities))
  }

  func reopened() async throws -> any JournalReplica {
    await replica.close()
    return try await StoredReplica(path, modelHash: modelHash, isShared: isShared)
  }

  func save(_ edit: @escaping @Sendable (inout any JournalEdit) -> Void) async throws {
    _ = try await replica.save(SaveOptions()) { save in
      let stored = StoredEdit(save)
      var edits: any JournalEdit = stored
      edit(&edits)
      if let error = stored.error { throw error }
    }
  }

  func shown() async throws -> [String] {
    try await replica.read { snapshot in
      var lines: [String] = []
      for entity in ["Post", "Cover", "Remark", "Tag"] {
        let columns = try snapshot.schema.entity(entity).columns
        try snapshot.forEach(Query(entity)) { row in
          var words: [String] = []
          for (place, column) in columns.enumerated() {
            switch row.literal(place + 1, isName: column.toOne != nil) {
            case .object(let target): words.append("\(column.name)→\(target)")
            case .text(let text): words.append("\(column.name)=\(AttributeValue.string(text))")
            case .integer(let number): words.append("\(column.name)=\(AttributeValue.integer(number))")
            default: break
            }
          }
          lines.append("\(entity) \(row.recordName(0)): " + words.sorted().joined(separator: " "))
        }
      }
      for post in try snapshot.objectIDs(Query("Post")) {
        var query = Query("Tag")
        query.related = .init("tags", of: post)
        for tag in try snapshot.objectIDs(query) { lines.append("\(post.recordName)–\(tag.recordName)") }
      }
      return lines.sorted()
    }
  }
}

/// Edits by the real replica's own saves.
private final class StoredEdit: JournalEdit {
  private let save: SaveTransaction
  private(set) var error: (any Error)?

  init(_ save: SaveTransaction) { self.save = save }

  private func attempt(_ body: () throws -> Void) {
    do { try body() } catch { self.error = self.error ?? error }
  }

  private func id(_ name: String) -> AnyObjectID? {
    guard let entity = ["p": "Post", "c": "Cover", "r": "Remark", "t": "Tag"][name.prefix(1)] else { return nil }
    return AnyObjectID(entityName: entity, recordName: name)
  }

  private func values(_ id: AnyObjectID) throws -> [Literal]? {
    let columns = try save.schema.entity(id.entityName).columns
    return try save.snapshot.object(id) { row in
      columns.enumerated().map { row.literal($0 + 1, isName: $1.toOne != nil) }
    }
  }

  private func has(_ name: String) -> Bool { id(name).flatMap { try? values($0) } != nil }

  func names(_ entity: String) -> [String] {
    ((try? save.snapshot.objectIDs(Query(entity))) ?? []).map(\.recordName).sorted()
  }

  func insert(_ entity: String, _ name: String, _ attributes: [String: AttributeValue]) {
    attempt {
      let columns = try save.schema.entity(entity).columns
      let values = columns.map { attributes[$0.name].map(Literal.init) ?? .null }
      try save.insert(AnyObjectID(entityName: entity, recordName: name), values)
    }
  }

  func set(_ attribute: String, of name: String, _ value: AttributeValue) {
    change(attribute, of: name, Literal(value))
  }

  func point(_ relationship: String, of name: String, to target: String?) {
    change(relationship, of: name, target.map { .object($0) } ?? .null)
  }

  private func change(_ property: String, of name: String, _ value: Literal) {
    attempt {
      guard let id = id(name), let old = try values(id) else { return }
      let columns = try save.schema.entity(id.entityName).columns
      try save.update(id, from: old, to: columns.enumerated().map { $1.name == property ? value : old[$0] })
    }
  }

  func pair(_ post: String, _ tag: String, isMade: Bool) {
    attempt {
      guard let post = id(post), let tag = id(tag), has(post.recordName), has(tag.recordName) else { return }
      try save.setPair("tags", of: post, with: tag, isLinked: isMade)
    }
  }

  func delete(_ name: String) { attempt { if let id = id(name), has(name) { try save.delete(id) } } }
}

extension Literal {
  init(_ value: AttributeValue) {
    self =
      switch value {
      case .string(let text): .text(text)
      case .integer(let number): .integer(number)
      default: .null
      }
  }
}
