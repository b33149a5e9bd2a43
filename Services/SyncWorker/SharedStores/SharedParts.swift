// Splits a shared store's transactions by the owners of the changed objects; parts for absent owners wait.

import History
import Mirroring
import ObjectModel
import ObjectPlane
import RecordStore
import Records

/// A saved transaction on its way to owners, or the waiting rest of one.
struct OutgoingTransaction: Sendable {
  /// Its row among the waiting parts at home; nil: it comes from the history.
  var waiting: StoredQuarantine?
  let number: Int64
  let transaction: HistoryTransaction
}

/// The parts of transactions for each owner, in the order of the transactions.
struct SharedParts: Sendable {
  /// An owner's part of a transaction.
  struct Part: Sendable {
    /// The index of the transaction in `outgoing`.
    let place: Int
    /// The indices of the changes in the transaction, ascending.
    let changes: [Int]
  }

  let outgoing: [OutgoingTransaction]
  private(set) var parts: [String: [Part]] = [:]
  /// By transaction: indices of changes that wait, as no answering owner has their objects or earlier changes wait.
  private(set) var held: [Int: [Int]] = [:]
  /// Changes that no owner takes, with the reason, and the zone where it is known.
  private(set) var lost: [(change: HistoryChange, timestamp: Int64, zone: Zone.ID?, reason: String)] = []

  /// New objects that no owner takes: connected changes go without the connection.
  private var gone: Set<String> = []
  /// By transaction: changes that lose their relationships and keep their attributes.
  private var cut: [Int: Set<Int>] = [:]
  private let places: SharedPlaces

  private static let ambiguousReason =
    "two owners share an object of that name: the server can't tell which one the change means"
  static let leftReason = "the object's zone is no longer shared with the store's user"

  /// - Parameter isComplete: every owner has answered, so an object not found exists nowhere.
  init(_ outgoing: [OutgoingTransaction], _ places: SharedPlaces, isComplete: Bool, model: ModelIndex) {
    self.outgoing = outgoing
    self.places = places
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
      if refusal(of: going.map { Piece(index: $0, change: changes[$0].without(isGone)) }, place, &assignment) != nil {
        going = assignOneByOne(going, place, &assignment)
      }
      split(place, going, assignment)
    }
  }

  /// An object that the user lost counts as deleted.
  private func isGone(_ name: String) -> Bool { gone.contains(name) || places.objects[name]?.isLost == true }

  /// Assigns changes together.
  /// - Returns: the reason when they can't be assigned together, and nothing is assigned; nil when they are.
  private func refusal(of pieces: [Piece], _ place: Int, _ assignment: inout SharedAssignment) -> String? {
    var part = outgoing[place].transaction
    part.changes = pieces.map(\.change)
    do {
      try assignment.add(part, place: "transaction \(part.transactionID)")
      return nil
    } catch let refusal as ZoneAssignment.Refusal {
      return refusal.recordError.reason
    } catch {
      // Dropped because the assignment throws only refusals here.
      return nil
    }
  }

  /// Finds the changes that keep a transaction from being assigned. New objects that are connected go together or not
  /// at all; a known object leaves behind only its connections to another zone.
  /// - Returns: the indices of the changes that go, ascending.
  private mutating func assignOneByOne(_ going: [Int], _ place: Int, _ assignment: inout SharedAssignment) -> [Int] {
    let transaction = outgoing[place].transaction
    let changes = transaction.changes
    let known = Set(going.map { changes[$0].objectID }.filter(assignment.isKnown))
    let (old, new) = (
      going.filter { known.contains(changes[$0].objectID) }, going.filter { !known.contains(changes[$0].objectID) }
    )
    let groups = NewObjects.groups(
      of: new.map { Piece(index: $0, change: changes[$0].without(isGone)) }, isKnown: assignment.isKnown)
    var around = Array(repeating: [Piece](), count: groups.count)
    let group = Dictionary(
      groups.indices.flatMap { index in groups[index].names.map { ($0, index) } },
      uniquingKeysWith: { first, _ in first })
    for index in old {
      for (number, change) in changes[index].divided(by: group) {
        around[number].append(Piece(index: index, change: change))
      }
    }
    var left: Set<Int> = []
    for (number, reason) in refused(zip(groups, around).map { $0.pieces + $1 }, place, &assignment) {
      for index in groups[number].pieces.map(\.index) {
        let change = changes[index]
        let names = change.names
        lose(change, transaction, names.contains(where: isGone) ? Self.leftReason : reason, assignment)
        left.insert(index)
      }
      // Marked only after the reasons are found, which depend on the connections.
      for index in groups[number].pieces.map(\.index) where places.objects[changes[index].objectID] == nil {
        gone.insert(changes[index].objectID)
      }
    }
    for (number, reason) in refused(
      old.map { [Piece(index: $0, change: changes[$0].without(isGone))] }, place, &assignment)
    {
      lose(changes[old[number]].relationshipsOnly, transaction, reason, assignment)
      cut[place, default: []].insert(old[number])
    }
    return going.filter { !left.contains($0) }
  }

  /// Assigns as many pieces as possible; halving finds the few refused ones quickly.
  /// - Parameter pieces: each is assigned or refused as a whole.
  /// - Returns: the indices of the refused pieces, with the reasons.
  private func refused(_ pieces: [[Piece]], _ place: Int, _ assignment: inout SharedAssignment, from first: Int = 0)
    -> [(number: Int, reason: String)]
  {
    guard !pieces.isEmpty, let reason = refusal(of: pieces.flatMap(\.self), place, &assignment) else { return [] }
    if pieces.count == 1 { return [(first, reason)] }
    let middle = pieces.count / 2
    let early = refused(Array(pieces[..<middle]), place, &assignment, from: first)
    return early + refused(Array(pieces[middle...]), place, &assignment, from: first + middle)
  }

  private mutating func lose(
    _ change: HistoryChange, _ transaction: HistoryTransaction, _ reason: String, _ assignment: SharedAssignment
  ) {
    lost.append((change, transaction.timestamp, change.names.compactMap { assignment.zone(of: $0) }.first, reason))
  }

  private mutating func split(_ place: Int, _ going: [Int], _ assignment: SharedAssignment) {
    let transaction = outgoing[place].transaction
    var byOwner: [String: [Int]] = [:]
    for index in going {
      let change = transaction.changes[index]
      if places.isAmbiguous(change.objectID) {
        lost.append((change, transaction.timestamp, nil, Self.ambiguousReason))
      } else if let zone = assignment.zone(of: change.objectID), !assignment.isLost(change.objectID) {
        byOwner[zone.ownerName, default: []].append(index)
      } else if change.changeType != .delete, Exporter.exports(author: transaction.author) {
        // Deleting an object that is nowhere needs no work.
        if places.objects[change.objectID] == nil { gone.insert(change.objectID) }
        lose(change, transaction, Self.leftReason, assignment)
      }
    }
    for (owner, changes) in byOwner { parts[owner, default: []].append(Part(place: place, changes: changes)) }
  }

  /// A part in the form that its owner gets.
  func transaction(_ part: Part) -> HistoryTransaction {
    var transaction = outgoing[part.place].transaction
    transaction.changes = part.changes.map { index in
      let change = transaction.changes[index]
      return cut[part.place]?.contains(index) == true ? change.attributesOnly : change.without(isGone)
    }
    return transaction
  }
}

/// A change on its way to an assignment.
private struct Piece {
  /// Its index in its transaction.
  let index: Int
  /// The portion of it that is assigned.
  let change: HistoryChange
}

/// New objects of a transaction that are connected with one another.
private struct NewObjects {
  private(set) var pieces: [Piece] = []
  private(set) var names: Set<String> = []

  /// - Parameter changes: of objects that no owner has yet.
  static func groups(of changes: [Piece], isKnown: (String) -> Bool) -> [NewObjects] {
    var parents: [String: String] = [:]
    func root(of name: String) -> String {
      var name = name
      while let parent = parents[name], parent != name {
        parents[name] = parents[parent]
        name = parent
      }
      return name
    }
    for piece in changes {
      for name in piece.change.names where !isKnown(name) {
        if parents[name] == nil { parents[name] = name }
        parents[root(of: name)] = root(of: piece.change.objectID)
      }
    }
    var groups: [NewObjects] = []
    var places: [String: Int] = [:]
    for piece in changes {
      let root = root(of: piece.change.objectID)
      let place = places[root] ?? groups.count
      if place == groups.count { groups.append(NewObjects()) }
      places[root] = place
      groups[place].pieces.append(piece)
      groups[place].names.formUnion(piece.change.names.filter { !isKnown($0) })
    }
    return groups
  }
}

/// Objects with waiting changes: later changes wait behind them.
private struct WaitingNames {
  private var objects: Set<String> = []

  /// Returns the indices of the changes that wait: those of objects with waiting changes or unknown to every answering
  /// owner, and those of new objects connected with them. An object with an answering owner goes to that owner,
  /// whatever it refers to.
  mutating func places(in changes: [HistoryChange], _ assignment: SharedAssignment) -> Set<Int> {
    let made = Set(changes.lazy.filter { $0.changeType == .insert }.map(\.objectID))
    func isNew(_ name: String) -> Bool { made.contains(name) && !assignment.isKnown(name) }
    var stays: Set<Int> = []
    // Names that changes of unknown objects wait for, and those changes.
    var near: [String] = []
    var waiting: [String: [Int]] = [:]
    for (index, change) in changes.enumerated() {
      for name in change.names where objects.contains(name) || (!made.contains(name) && !assignment.isKnown(name)) {
        near.append(name)
      }
      if objects.contains(change.objectID) {
        stays.insert(index)
      } else if !assignment.isKnown(change.objectID) {
        for name in change.names { waiting[name, default: []].append(index) }
      }
    }
    for index in stays { near += changes[index].names.filter { $0 == changes[index].objectID || isNew($0) } }
    while let name = near.popLast() {
      for index in waiting.removeValue(forKey: name) ?? [] where stays.insert(index).inserted {
        near += changes[index].names.filter { waiting[$0] != nil && ($0 == changes[index].objectID || isNew($0)) }
      }
    }
    for index in stays { objects.insert(changes[index].objectID) }
    return stays
  }
}

extension HistoryChange {
  /// For each group that the change's references lead to, the change with these references alone.
  fileprivate func divided(by group: [String: Int]) -> [Int: HistoryChange] {
    var found: [Int: [NamedValue<RelationshipValue>]] = [:]
    for relationship in relationships {
      for (number, targets) in Dictionary(grouping: relationship.value.added, by: { group[$0] }) {
        guard let number else { continue }
        let value = RelationshipValue.toManyDelta(add: targets, remove: [])
        found[number, default: []].append(NamedValue(name: relationship.name, value: value))
      }
    }
    return found.mapValues {
      HistoryChange(changeType: changeType, entity: entity, objectID: objectID, relationships: $0)
    }
  }

  fileprivate var attributesOnly: HistoryChange {
    HistoryChange(changeType: changeType, entity: entity, objectID: objectID, attributes: attributes)
  }
  fileprivate var relationshipsOnly: HistoryChange {
    HistoryChange(changeType: changeType, entity: entity, objectID: objectID, relationships: relationships)
  }
}
