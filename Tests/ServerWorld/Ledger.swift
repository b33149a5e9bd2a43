// The acknowledged writes, from which it computes the required final state. It knows only that requests were answered.

import ObjectModel

/// Counts each acknowledged write once, in the order of the acknowledgements.
struct Ledger {
  private struct Entry {
    let entity: String
    var isDeleted = false
    /// The latest values, as JSON.
    var values: [String: String] = [:]
    /// Attributes whose final value can't be known: a right or a zone ended, or the order of a write is unknown.
    var uncertain: Set<String> = []
    var isUncertain = false
  }

  private var entries: [String: Entry] = [:]
  private var accepted: Set<String> = []
  let shape: ModelShape

  init(_ shape: ModelShape) { self.shape = shape }

  /// - Parameter transactionID: a second acceptance of the same transaction has no effect.
  mutating func accept(_ transactionID: String, _ changes: [Change]) {
    guard accepted.insert(transactionID).inserted else { return }
    for change in changes {
      switch change.kind {
      case .insert:
        if entries[change.objectID] == nil { entries[change.objectID] = Entry(entity: change.entity) }
        entries[change.objectID]?.values.merge(change.attributes) { $1 }
      case .update: entries[change.objectID]?.values.merge(change.attributes) { $1 }
      case .delete: entries[change.objectID]?.isDeleted = true
      }
    }
  }

  func hasAccepted(_ transactionID: String) -> Bool { accepted.contains(transactionID) }

  /// These changes may have been stored and may be acknowledged later.
  mutating func doubt(_ changes: [Change]) {
    for change in changes {
      entries[change.objectID]?.uncertain.formUnion(change.attributes.keys)
      if change.kind != .update { doubt(change.objectID) }
    }
  }

  /// The fate of this object is unknown from now on.
  mutating func doubt(_ objectID: String) { entries[objectID, default: Entry(entity: "")].isUncertain = true }

  var objectIDs: [String] { entries.keys.sorted() }

  /// The differences between the final state and the required one.
  func problems(in picture: Replica.Picture) -> [String] {
    entries.sorted { $0.key < $1.key }.flatMap { id, entry -> [String] in
      if entry.isUncertain || shape.deletePolicy(of: entry.entity) == .editWins { return [] }
      guard let object = picture.objects[id] else {
        return entry.isDeleted ? [] : ["\(entry.entity) \(id) was acknowledged and nobody deleted it: it is gone"]
      }
      if entry.isDeleted { return ["\(entry.entity) \(id) was deleted, and is there"] }
      return shape.attributes(of: entry.entity).compactMap { attribute in
        guard shape.policy(of: attribute) == .arrival, !entry.uncertain.contains(attribute.name),
          let value = entry.values[attribute.name]
        else { return nil }
        let there = object.attributes[attribute.name] ?? "null"
        return there == value
          ? nil : "\(entry.entity) \(id).\(attribute.name) was last acknowledged as \(value), and is \(there)"
      }
    }
  }
}
