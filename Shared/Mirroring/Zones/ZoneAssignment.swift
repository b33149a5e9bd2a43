// Which zone new objects go to: that of the objects they are connected with (E3, R16).

public import History
public import ObjectModel
public import Records

/// The zone of an object that a save names.
public enum ObjectHome: Hashable, Sendable {
  /// The object has a record in the zone, or was assigned to it.
  case zone(Zone.ID)
  /// The zone has the object's tombstone: nothing is connected with it, and a new insert may go to another zone.
  case tombstone(Zone.ID)
  /// Nobody knows the object, or its zone is not decided.
  case nowhere
}

/// Assigns the objects of saves to zones.
///
/// A component of the stored graph lies in one zone, so only the relationships that a save adds matter: they join
/// stored objects, which have a zone, with new ones, which get it. Objects that are named but unknown are assigned too:
/// the zone that points to them expects them.
public struct ZoneAssignment {
  /// The reason for refusing a save; nothing of it is assigned then.
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
          """
          \(place): Object graph corruption detected. Objects related to \(objectID) are assigned to multiple zones: \
          \(objectID) is in zone '\(zone.zoneName)', \(otherID) in zone '\(otherZone.zoneName)'
          """,
          cocoaErrorCode: .mirroring)
      case .noZone(let place, let objectID):
        RecordError(
          .badRequest,
          "\(place): Failed to assign an object to a record zone: \(objectID) is connected with no object that has one",
          cocoaErrorCode: .noZoneAssigned)
      }
    }
  }

  /// The zone of a component, with an object in it that has this zone.
  private struct Label {
    let objectID: String
    let zone: Zone.ID
  }

  private let model: ModelIndex
  /// The zone of unconnected objects; nil if they have none.
  private let defaultZone: Zone.ID?
  private let home: (String) throws -> ObjectHome

  private var homes: [String: ObjectHome] = [:]
  /// Union-find: each object's parent on the way to its component's representative.
  private var parents: [String: String] = [:]
  private var sizes: [String: Int] = [:]
  /// By the component's representative.
  private var labels: [String: Label] = [:]
  /// Objects without a zone in the order in which they were met, each with the place that named it.
  private var homeless: [(objectID: String, place: String)] = []
  private var inserted: Set<String> = []
  /// nil: nothing is noted.
  private var undo: Undo?

  /// What `settle` changes, so that a refused transaction costs what it changed and not what there is.
  private struct Undo {
    var homes: [String] = []
    var inserted: [String] = []
    /// With the earlier values, in order.
    var parents: [(key: String, earlier: String?)] = []
    var sizes: [(key: String, earlier: Int?)] = []
    var labels: [(key: String, earlier: Label?)] = []
    let homelessCount: Int
  }

  /// - Parameter home: finds an object's zone; called once for each object.
  public init(model: ModelIndex, defaultZone: Zone.ID?, home: @escaping (String) throws -> ObjectHome) {
    self.model = model
    self.defaultZone = defaultZone
    self.home = home
  }

  /// Adds a transaction's changes, or none of them when it is refused.
  /// - Parameter place: the transaction's place in its request, for a refusal.
  /// - Returns: the assignments of the objects that have had none until now, in the order in which they were met.
  /// - Throws: `Refusal`; errors of `home`.
  public mutating func settle(_ transaction: HistoryTransaction, place: String) throws -> [(
    objectID: String, zone: Zone.ID
  )] {
    undo = Undo(homelessCount: homeless.count)
    do {
      try add(transaction, place: place)
      let settled = try assignments()
      undo = nil
      homeless.removeAll(keepingCapacity: true)
      return settled
    } catch {
      takeBack()
      throw error
    }
  }

  private mutating func takeBack() {
    guard let undo else { return }
    self.undo = nil
    for change in undo.parents.reversed() { parents[change.key] = change.earlier }
    for change in undo.sizes.reversed() { sizes[change.key] = change.earlier }
    for change in undo.labels.reversed() { labels[change.key] = change.earlier }
    for objectID in undo.homes { homes[objectID] = nil }
    for objectID in undo.inserted { inserted.remove(objectID) }
    homeless.removeSubrange(undo.homelessCount...)
  }

  private mutating func setParent(_ parent: String, of objectID: String) {
    undo?.parents.append((objectID, parents[objectID]))
    parents[objectID] = parent
  }

  private mutating func setSize(_ size: Int, of objectID: String) {
    undo?.sizes.append((objectID, sizes[objectID]))
    sizes[objectID] = size
  }

  private mutating func setLabel(_ label: Label?, of objectID: String) {
    undo?.labels.append((objectID, labels[objectID]))
    labels[objectID] = label
  }

  /// Adds a transaction's changes. A refused one may be in it in part.
  /// - Parameter place: the transaction's place in its request, for a refusal.
  /// - Throws: `Refusal`; errors of `home`.
  public mutating func add(_ transaction: HistoryTransaction, place: String) throws {
    guard Exporter.exports(author: transaction.author) else { return }
    // Objects exist before relationships name them.
    for (index, change) in transaction.changes.enumerated()
    where change.changeType == .insert && inserted.insert(change.objectID).inserted {
      undo?.inserted.append(change.objectID)
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
    // An edit of a deleted object is lost, and its relationships with it.
    guard try meet(change.objectID, place), let entity = model.entity(named: change.entity) else { return }
    for named in change.relationships where entity.relationship(named: named.name)?.isMirrored == true {
      for target in named.value.added where try meet(target, place) { try join(change.objectID, target, place) }
    }
  }

  /// - Returns: false for a deleted object that this save does not insert.
  private mutating func meet(_ objectID: String, _ place: String) throws -> Bool {
    if let known = homes[objectID] { return !known.isTombstone || inserted.contains(objectID) }
    let found = try home(objectID)
    homes[objectID] = found
    undo?.homes.append(objectID)
    setParent(objectID, of: objectID)
    setSize(1, of: objectID)
    if case .zone(let zone) = found {
      setLabel(Label(objectID: objectID, zone: zone), of: objectID)
    } else if !found.isTombstone || inserted.contains(objectID) {
      homeless.append((objectID, place))
    }
    return !found.isTombstone || inserted.contains(objectID)
  }

  private mutating func root(of objectID: String) -> String {
    var current = objectID
    while let parent = parents[current], parent != current {
      // Halves the path for later calls.
      if let above = parents[parent], above != parent { setParent(above, of: current) }
      current = parent
    }
    return current
  }

  private mutating func join(_ a: String, _ b: String, _ place: String) throws(Refusal) {
    let (first, second) = (root(of: a), root(of: b))
    if first == second { return }
    let (mine, other) = (labels[first], labels[second])
    if let mine, let other, mine.zone != other.zone {
      throw .twoZones(
        place: place, objectID: mine.objectID, zone: mine.zone, otherID: other.objectID, otherZone: other.zone)
    }
    let (small, large) = sizes[first, default: 1] < sizes[second, default: 1] ? (first, second) : (second, first)
    setParent(large, of: small)
    setSize(sizes[first, default: 1] + sizes[second, default: 1], of: large)
    setLabel(mine ?? other, of: large)
    setLabel(nil, of: small)
  }

  /// The objects without a zone that are connected with one that has it, in the order in which they were met.
  public mutating func connected() -> [(objectID: String, zone: Zone.ID)] {
    homeless.compactMap { objectID, _ in labels[root(of: objectID)].map { (objectID, $0.zone) } }
  }

  /// The objects to assign, in the order in which they were met: those that go to a zone other than the default one,
  /// and those that have a tombstone in another zone.
  ///
  /// An unconnected object that is made again returns to its earlier zone.
  /// - Throws: `noZone`.
  public mutating func assignments() throws(Refusal) -> [(objectID: String, zone: Zone.ID)] {
    for (objectID, _) in homeless {
      guard case .tombstone(let zone)? = homes[objectID], labels[root(of: objectID)] == nil else { continue }
      setLabel(Label(objectID: objectID, zone: zone), of: root(of: objectID))
    }
    var assigned: [(objectID: String, zone: Zone.ID)] = []
    for (objectID, place) in homeless {
      guard let zone = labels[root(of: objectID)]?.zone ?? defaultZone else {
        throw .noZone(place: place, objectID: objectID)
      }
      // Without an entry, the object would be looked up in its earlier zone.
      if zone != defaultZone || homes[objectID] != .nowhere && homes[objectID] != .tombstone(zone) {
        assigned.append((objectID, zone))
      }
    }
    return assigned
  }
}

extension ObjectHome {
  fileprivate var isTombstone: Bool { if case .tombstone = self { true } else { false } }
}
