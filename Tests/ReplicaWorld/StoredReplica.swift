// The real replica as stories use it: edits are its own saves, and lines show what it has.

import Foundation
package import MirrorWire
package import ReplicaStore
import ReplicaSync

/// The real replica, in a file of its own.
package final class StoredReplica: JournalReplica {
  package let replica: Replica
  private let path: String
  private let modelHash: String
  private let isShared: Bool

  package var store: any MirroredStore { replica }

  package init(_ path: String, modelHash: String, isShared: Bool = false) async throws {
    self.path = path
    self.modelHash = modelHash
    self.isShared = isShared
    var configuration = ReplicaConfiguration(
      path: path, processID: "1", machineIdentifier: "machine", now: { Date.now }, makeIdentifier: { .random() })
    configuration.isMirrored = true
    configuration.isShared = isShared
    replica = try await Replica.open(configuration, ManagedObjectModel(hash: modelHash, entities: journalEntities))
  }

  package func reopened() async throws -> any JournalReplica {
    await close()
    return try await StoredReplica(path, modelHash: modelHash, isShared: isShared)
  }

  package func close() async { await replica.close() }

  package func save(_ edit: @escaping @Sendable (inout any JournalEdit) -> Void) async throws {
    _ = try await replica.save(SaveOptions()) { save in
      let stored = StoredEdit(save)
      var edits: any JournalEdit = stored
      edit(&edits)
      if let error = stored.error { throw error }
    }
  }

  package func shown() async throws -> [String] {
    try await replica.read { snapshot in
      var lines: [String] = []
      for entity in ["Post", "Cover", "Remark", "Tag"] {
        let columns = EntityDescription.columns(entity)
        try snapshot.forEach(Query(entity)) { row in
          var words: [String] = []
          for (place, column) in columns.enumerated() {
            switch row.literal(place + 1, isName: column.isToOne) {
            case .object(let target): words.append("\(column.name)→\(target)")
            case .text(let text): words.append("\(column.name)=\(AttributeValue.string(text).shown)")
            case .integer(let number): words.append("\(column.name)=\(AttributeValue.integer(number).shown)")
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
    let columns = EntityDescription.columns(id.entityName)
    return try save.snapshot.object(id) { row in
      columns.enumerated().map { row.literal($0 + 1, isName: $1.isToOne) }
    }
  }

  private func has(_ name: String) -> Bool { id(name).flatMap { try? values($0) } != nil }

  func names(_ entity: String) -> [String] {
    ((try? save.snapshot.objectIDs(Query(entity))) ?? []).map(\.recordName).sorted()
  }

  func insert(_ entity: String, _ name: String, _ attributes: [String: AttributeValue]) {
    attempt {
      let columns = EntityDescription.columns(entity)
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
      let columns = EntityDescription.columns(id.entityName)
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
  package init(_ value: AttributeValue) {
    self =
      switch value {
      case .string(let text): .text(text)
      case .integer(let number): .integer(number)
      default: .null
      }
  }
}
