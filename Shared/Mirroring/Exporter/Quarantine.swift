// What an export leaves out: the changes themselves, so that they can be held back and tried again, and when that is (E9).

public import History

/// Why an object's changes are held back, as far as it decides when they are tried again. The raw value is stored: never renumber.
public enum QuarantineCause: Int, Hashable, Sendable, CaseIterable {
  case other = 0
  /// The environment's schema lacks something, or has it otherwise.
  case schema = 1
  /// The record would be larger than a record can be.
  case size = 2
  /// The database would be larger than it may be.
  case space = 3
  /// A reference that another client validates against.
  case reference = 4
  /// Nobody has heard of the object yet.
  case missing = 5
  /// The object was deleted, which an edit does not undo.
  case deleted = 6
  /// Something stored that has to be read for it can't be.
  case damaged = 7
  /// The content of an asset is not there.
  case asset = 8
  /// The user may not write it: undone, and not held back.
  case permission = 9
  /// The object's zone is gone, and the store waits for its user's decision.
  case zonePaused = 10
  /// The object's zone is gone, and its objects with it.
  case zoneEnded = 11

  public var name: String { "\(self)" }

  /// Milliseconds until the next try after so many; nil: time alone does not solve it.
  public func delay(afterAttempts count: Int) -> Int64? {
    switch self {
    case .deleted, .permission, .zonePaused, .zoneEnded: return nil
    // Others make room, or an operator gives more, and nobody tells.
    case .space: return Self.shortestDelay
    case .other, .schema, .size, .reference, .missing, .damaged, .asset: break
    }
    return min(Self.shortestDelay << Int64(min(max(count - 1, 0), 16)), Self.longestDelay)
  }

  private static let shortestDelay: Int64 = 60_000
  private static let longestDelay: Int64 = 6 * 3_600_000
}

/// A change, or a part of one, that is not exported.
public struct LeftOutChange: Hashable, Sendable {
  public let change: HistoryChange
  public let problem: MirroringProblem

  public init(_ change: HistoryChange, _ problem: MirroringProblem) {
    self.change = change
    self.problem = problem
  }
}

extension HistoryChange {
  /// A later insert of the object with what an earlier update says and this one does not.
  func adding(_ earlier: HistoryChange) -> HistoryChange {
    let (named, related) = (Set(attributes.map(\.name)), Set(relationships.map(\.name)))
    return HistoryChange(
      changeType: changeType, entity: entity, objectID: objectID,
      attributes: (attributes + earlier.attributes.filter { !named.contains($0.name) }).sorted { $0.name < $1.name },
      relationships: (relationships + earlier.relationships.filter { !related.contains($0.name) }).sorted { $0.name < $1.name }, tombstone: tombstone)
  }

  /// An update with one relationship of this change.
  func only(_ relationship: String, _ value: RelationshipValue) -> HistoryChange {
    HistoryChange(changeType: .update, entity: entity, objectID: objectID, relationships: [NamedValue(name: relationship, value: value)])
  }
}

extension QuarantineCause {
  /// Whether all that is wrong is that there is no such object.
  var isAbsence: Bool { self == .missing || self == .deleted }
}

extension HistoryChange {
  /// What is left of this change when a later one has gone through; nil: nothing.
  func superseded(by newer: HistoryChange) -> HistoryChange? {
    let attributeNames = Set(newer.attributes.map(\.name))
    let values = Dictionary(newer.relationships.map { ($0.name, $0.value) }, uniquingKeysWith: { _, last in last })
    let rest = HistoryChange(
      changeType: changeType, entity: entity, objectID: objectID, attributes: attributes.filter { !attributeNames.contains($0.name) },
      relationships: relationships.compactMap { relationship in
        guard let value = values[relationship.name] else { return relationship }
        return relationship.value.superseded(by: value).map { NamedValue(name: relationship.name, value: $0) }
      }, tombstone: tombstone)
    return rest.changeType == .update && rest.attributes.isEmpty && rest.relationships.isEmpty ? nil : rest
  }

  /// Without one to-one relationship to one object; nil: nothing is left.
  func without(_ pointer: NamedValue<RelationshipValue>) -> HistoryChange? {
    let rest = HistoryChange(
      changeType: changeType, entity: entity, objectID: objectID, attributes: attributes, relationships: relationships.filter { $0 != pointer }, tombstone: tombstone)
    return rest.changeType == .update && rest.attributes.isEmpty && rest.relationships.isEmpty ? nil : rest
  }
}

extension RelationshipValue {
  /// What is left of this value when a later one has gone through; nil: nothing.
  fileprivate func superseded(by newer: RelationshipValue) -> RelationshipValue? {
    guard case .toManyDelta(let added, let removed) = newer else { return nil }
    let named = Set(added + removed)
    switch self {
    case .toOne: return nil
    case .toMany: return newer.after(self)
    case .toManyDelta(let earlierAdded, let earlierRemoved):
      let (adds, removes) = (earlierAdded.filter { !named.contains($0) }, earlierRemoved.filter { !named.contains($0) })
      return adds.isEmpty && removes.isEmpty ? nil : .toManyDelta(add: adds, remove: removes)
    }
  }
}
