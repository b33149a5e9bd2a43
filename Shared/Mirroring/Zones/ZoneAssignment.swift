// Which zone new objects go to: that of the objects they are connected with (E3, R16).

public import History
public import ObjectModel
public import Records

/// Where an object is when a save names it.
public enum ObjectHome: Hashable, Sendable {
  /// It has a record in the zone, or was assigned to it.
  case zone(Zone.ID)
  /// All that is left of it is a tombstone: nothing is connected with it, and whoever makes it again may take it elsewhere.
  case tombstone(Zone.ID)
  /// Nobody has heard of it, or nobody has decided yet.
  case nowhere
}

/// Assigns the objects of saves to zones.
///
/// A component of the stored graph is wholly in one zone, so only the relationships that a save names are looked at: they join stored
/// objects, which have a zone, with new ones, which get it. What a save takes out of a relationship connects nothing. Objects that are
/// named and not known are assigned, too: they are expected where they are pointed to from.
public struct ZoneAssignment {
  /// Why a save is refused; nothing of it is assigned then.
  public enum Refusal: Error, Hashable, Sendable {
    /// Two objects of one connected graph are in two zones (134060).
    case twoZones(place: String, objectID: String, zone: Zone.ID, otherID: String, otherZone: Zone.ID)
    /// The database has no zone for objects that are connected with nothing (2988).
    case noZone(place: String, objectID: String)

    public var recordError: RecordError {
      switch self {
      case .twoZones(let place, let objectID, let zone, let otherID, let otherZone):
        RecordError(
          .badRequest,
          "\(place): Object graph corruption detected. Objects related to \(objectID) are assigned to multiple zones: \(objectID) is in zone '\(zone.zoneName)', \(otherID) in zone '\(otherZone.zoneName)'",
          cocoaErrorCode: .mirroring)
      case .noZone(let place, let objectID):
        RecordError(
          .badRequest, "\(place): Failed to assign an object to a record zone: \(objectID) is connected with no object that has one", cocoaErrorCode: .noZoneAssigned)
      }
    }
  }

  /// What a component is known by: an object in it that has a zone.
  private struct Label {
    let objectID: String
    let zone: Zone.ID
  }

  private let model: ModelIndex
  /// Where unconnected objects go; nil: nowhere.
  private let defaultZone: Zone.ID?
  private let home: (String) throws -> ObjectHome

  private var homes: [String: ObjectHome] = [:]
  /// Union-find: an object's representative, nearer to the component's.
  private var parents: [String: String] = [:]
  private var sizes: [String: Int] = [:]
  /// By the component's representative.
  private var labels: [String: Label] = [:]
  /// Objects without a zone, in the order they were met, with the places that named them.
  private var homeless: [(objectID: String, place: String)] = []
  private var inserted: Set<String> = []

  /// - Parameter home: where an object is; asked once for each.
  public init(model: ModelIndex, defaultZone: Zone.ID?, home: @escaping (String) throws -> ObjectHome) {
    self.model = model
    self.defaultZone = defaultZone
    self.home = home
  }

  /// Adds a transaction's changes.
  /// - Parameter place: of the transaction in its request, for the refusal.
  /// - Throws: `Refusal`; what `home` throws.
  public mutating func add(_ transaction: HistoryTransaction, place: String) throws {
    guard Exporter.exports(author: transaction.author) else { return }
    // Objects are made before any is related to them.
    for (index, change) in transaction.changes.enumerated() where change.changeType == .insert && inserted.insert(change.objectID).inserted {
      guard homes[change.objectID]?.isTombstone == true else { continue }
      homeless.append((change.objectID, Self.place(place, index, change)))
    }
    for (index, change) in transaction.changes.enumerated() where change.changeType != .delete {
      try add(change, Self.place(place, index, change))
    }
  }

  private static func place(_ transaction: String, _ index: Int, _ change: HistoryChange) -> String {
    "\(transaction): changes[\(index)]: \(change.entity) \(change.objectID)"
  }

  private mutating func add(_ change: HistoryChange, _ place: String) throws {
    // An edit of what was deleted is lost, with the relationships it names.
    guard try meet(change.objectID, place), let entity = model.entity(named: change.entity) else { return }
    for named in change.relationships where entity.relationship(named: named.name)?.isMirrored == true {
      for target in named.value.added where try meet(target, place) { try join(change.objectID, target, place) }
    }
  }

  /// - Returns: false for what was deleted.
  private mutating func meet(_ objectID: String, _ place: String) throws -> Bool {
    if let known = homes[objectID] { return !known.isTombstone || inserted.contains(objectID) }
    let found = try home(objectID)
    homes[objectID] = found
    parents[objectID] = objectID
    sizes[objectID] = 1
    if case .zone(let zone) = found {
      labels[objectID] = Label(objectID: objectID, zone: zone)
    } else if !found.isTombstone || inserted.contains(objectID) {
      homeless.append((objectID, place))
    }
    return !found.isTombstone || inserted.contains(objectID)
  }

  private mutating func root(of objectID: String) -> String {
    var current = objectID
    while let parent = parents[current], parent != current {
      // Halves the way for those who come after.
      parents[current] = parents[parent]
      current = parent
    }
    return current
  }

  private mutating func join(_ a: String, _ b: String, _ place: String) throws(Refusal) {
    let (first, second) = (root(of: a), root(of: b))
    if first == second { return }
    let (mine, other) = (labels[first], labels[second])
    if let mine, let other, mine.zone != other.zone {
      throw .twoZones(place: place, objectID: mine.objectID, zone: mine.zone, otherID: other.objectID, otherZone: other.zone)
    }
    let (small, large) = sizes[first, default: 1] < sizes[second, default: 1] ? (first, second) : (second, first)
    parents[small] = large
    sizes[large] = sizes[first, default: 1] + sizes[second, default: 1]
    labels[large] = mine ?? other
    labels[small] = nil
  }

  /// The objects without a zone that are connected with one that has it, in the order they were met.
  public mutating func connected() -> [(objectID: String, zone: Zone.ID)] {
    homeless.compactMap { objectID, _ in labels[root(of: objectID)].map { (objectID, $0.zone) } }
  }

  /// The objects that get a zone other than the default one, or than the one they were in before, in the order they were met.
  ///
  /// An object that is made again, connected with nothing, goes where it was.
  /// - Throws: `noZone`.
  public mutating func assignments() throws(Refusal) -> [(objectID: String, zone: Zone.ID)] {
    for (objectID, _) in homeless {
      guard case .tombstone(let zone)? = homes[objectID], labels[root(of: objectID)] == nil else { continue }
      labels[root(of: objectID)] = Label(objectID: objectID, zone: zone)
    }
    var assigned: [(objectID: String, zone: Zone.ID)] = []
    for (objectID, place) in homeless {
      guard let zone = labels[root(of: objectID)]?.zone ?? defaultZone else { throw .noZone(place: place, objectID: objectID) }
      // Where it was before, it would be looked for otherwise.
      if zone != defaultZone || homes[objectID] != .nowhere && homes[objectID] != .tombstone(zone) { assigned.append((objectID, zone)) }
    }
    return assigned
  }
}

extension ObjectHome {
  fileprivate var isTombstone: Bool { if case .tombstone = self { true } else { false } }
}
