// Duplicates that the server refuses: what leads to them leads to the objects that it prefers (K14).

import FoundationEssentials
import MirrorWire

extension Replica {
  package func adopt(_ winners: [AnyObjectID: String], for identifiers: [String]) async throws(StoreError) {
    do {
      var options = SaveOptions()
      options.author = MirroringAuthor.adoption
      options.isPlaceAccepted = true
      _ = try await save(options) { save in
        let names = Dictionary(winners.map { ($0.recordName, $1) }, uniquingKeysWith: { first, _ in first })
        // Before the pointers, which also lead from objects that these transactions make.
        for identifier in identifiers {
          _ = try RejectedRow(identifier, save.snapshot, save.tables)?.enqueue { transaction in
            transaction.changes = transaction.changes.compactMap { $0.replacing(names) }
          }
        }
        for (loser, winner) in winners.sorted(by: { $0.key.recordName < $1.key.recordName }) {
          try save.movePointers(from: loser, to: AnyObjectID(entityName: loser.entityName, recordName: winner))
        }
      }
    } catch StoreError.validation, StoreError.missing {
      // Tried again it would be refused again, and nothing would be sent or imported any more.
      for identifier in identifiers { try await revert(identifier) }
    } catch { throw storeError(error) }
  }
}

extension ObjectChange {
  /// The change with other names of the objects that it leads to.
  /// - Returns: nil: it is one of a duplicate itself.
  fileprivate func replacing(_ winners: [String: String]) -> ObjectChange? {
    if winners[objectID] != nil { return nil }
    guard let relationships else { return self }
    var change = self
    change.relationships = relationships.mapValues { value in
      switch value {
      case .toOne(let target): .toOne(target.map { winners[$0] ?? $0 })
      case .toMany(let targets): .toMany(targets.replacing(winners))
      case .toManyEdits(let add, let remove):
        // The server has no pair of a duplicate that it could end.
        .toManyEdits(add: add.replacing(winners), remove: remove.filter { winners[$0] == nil })
      }
    }
    return change
  }
}

extension [String] {
  fileprivate func replacing(_ winners: [String: String]) -> [String] {
    var seen: Set<String> = []
    return map { winners[$0] ?? $0 }.filter { seen.insert($0).inserted }
  }
}

extension SaveTransaction {
  /// Makes everything that refers to one object refer to another, and deletes the first.
  func movePointers(from loser: AnyObjectID, to winner: AnyObjectID) throws {
    guard let found = try snapshot.find(loser.recordName), found.state == Tables.State.here,
      let entity = schema.entitiesByKey[found.entity]
    else { return }
    _ = try tables.key(of: winner.recordName, entity)
    for relationship in entity.relationships {
      let destination = try schema.entity(relationship.destination)
      for member in try tables.members(of: relationship, entity, found.key, destination) {
        guard let (id, target) = try snapshot.object(member), target.state == Tables.State.here else { continue }
        if destination.column(relationship.inverse) != nil {
          let edit = try edit(member)
          if let place = edit.entity.columnPlaces[relationship.inverse] { try setToOne(edit, place, winner.recordName) }
        } else {
          try setPair(relationship.inverse, of: id, with: loser, isLinked: false)
          try setPair(relationship.inverse, of: id, with: winner, isLinked: true)
        }
      }
    }
    try delete(loser)
  }
}
