// Transactions of a shared store, taken apart by the owners whose objects they change; what concerns an owner who is away waits.

import History
import Mirroring
import ObjectModel
import RecordStore
import Records

/// A saved transaction on its way to owners, or what is left of one.
struct OutgoingTransaction: Sendable {
  /// Its row among what waits at home; nil: it comes from the history.
  var waiting: StoredQuarantine?
  let number: Int64
  let transaction: HistoryTransaction
}

/// What each owner gets of some transactions, in their order.
struct SharedParts: Sendable {
  /// An owner's part of a transaction.
  struct Part: Sendable {
    /// The transaction's place.
    let place: Int
    /// The changes' places in it, ascending.
    let changes: [Int]
  }

  let outgoing: [OutgoingTransaction]
  private(set) var parts: [String: [Part]] = [:]
  /// By transaction: places of changes that wait because nobody who answers has their objects, or behind others that wait.
  private(set) var held: [Int: [Int]] = [:]
  /// What nobody takes, with what is to be said of it: the zone, where it is known which that was.
  private(set) var lost: [(change: HistoryChange, timestamp: Int64, zone: Zone.ID?, reason: String)] = []

  private static let ambiguousReason = "two owners share an object of that name: it can't be told whose is meant"
  static let leftReason = "the object's zone is not shared with the store's user any more"

  /// - Parameter isComplete: all owners have answered: what is found nowhere is nowhere.
  init(_ outgoing: [OutgoingTransaction], _ places: SharedPlaces, isComplete: Bool, model: ModelIndex) {
    self.outgoing = outgoing
    var assignment = SharedAssignment(places, model: model)
    var waiting = WaitingNames()
    for (place, item) in outgoing.enumerated() {
      let changes = item.transaction.changes
      var going = Array(changes.indices)
      if !isComplete {
        let stays = waiting.places(in: changes, assignment)
        if !stays.isEmpty {
          held[place] = stays.sorted()
          going.removeAll { stays.contains($0) }
        }
      }
      if going.isEmpty { continue }
      var part = item.transaction
      part.changes = going.map { changes[$0] }
      do {
        try assignment.add(part, place: "transaction \(part.transactionID)")
      } catch let refusal as ZoneAssignment.Refusal {
        for change in part.changes { lost.append((change, part.timestamp, assignment.zone(of: change.objectID), refusal.recordError.reason)) }
        continue
      } catch {
        // Dropped because nothing else is asked that could throw.
        continue
      }
      split(place, going, assignment)
    }
  }

  private mutating func split(_ place: Int, _ going: [Int], _ assignment: SharedAssignment) {
    let transaction = outgoing[place].transaction
    var byOwner: [String: [Int]] = [:]
    for index in going {
      let change = transaction.changes[index]
      if assignment.places.isAmbiguous(change.objectID) {
        lost.append((change, transaction.timestamp, nil, Self.ambiguousReason))
      } else if let zone = assignment.zone(of: change.objectID), !assignment.isLost(change.objectID) {
        byOwner[zone.ownerName, default: []].append(index)
      } else if change.changeType != .delete, Exporter.exports(author: transaction.author) {
        // The deletion of what is not there is done.
        lost.append((change, transaction.timestamp, assignment.zone(of: change.objectID), Self.leftReason))
      }
    }
    for (owner, changes) in byOwner { parts[owner, default: []].append(Part(place: place, changes: changes)) }
  }

  /// A part as its owner gets it.
  func transaction(_ part: Part) -> HistoryTransaction {
    var transaction = outgoing[part.place].transaction
    transaction.changes = part.changes.map { transaction.changes[$0] }
    return transaction
  }
}

/// Objects of which something waits: what follows waits behind it.
private struct WaitingNames {
  private var objects: Set<String> = []

  /// Which changes of a transaction wait: of objects of which something waits or that nobody who answers has, and of new ones that are
  /// connected with such. What is where an owner answers goes to him, whatever it points to.
  mutating func places(in changes: [HistoryChange], _ assignment: SharedAssignment) -> Set<Int> {
    let made = Set(changes.lazy.filter { $0.changeType == .insert }.map(\.objectID))
    func isNew(_ name: String) -> Bool { made.contains(name) && !assignment.isKnown(name) }
    var near = Set(changes.flatMap(\.names).filter { objects.contains($0) || (!made.contains($0) && !assignment.isKnown($0)) })
    var stays: Set<Int> = []
    var hasGrown = !near.isEmpty
    while hasGrown {
      hasGrown = false
      for (index, change) in changes.enumerated() where !stays.contains(index) {
        let name = change.objectID
        guard objects.contains(name) || (!assignment.isKnown(name) && change.names.contains(where: near.contains)) else { continue }
        stays.insert(index)
        near.formUnion(change.names.filter { $0 == name || isNew($0) })
        hasGrown = true
      }
    }
    for index in stays { objects.insert(changes[index].objectID) }
    return stays
  }
}
