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

  public var name: String { "\(self)" }

  /// Milliseconds until the next try after so many; nil: only a client or an operator can solve it.
  public func delay(afterAttempts count: Int) -> Int64? {
    if self == .deleted { return nil }
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

/// Changes of one object that are held back together.
public enum HeldChanges {
  /// The same in fewer changes: what a later one overwrites is dropped, so that their length is bounded by the object's.
  public static func compacted(_ changes: [HistoryChange]) -> [HistoryChange] {
    var result: [HistoryChange] = []
    for change in changes {
      if let last = result.last, let both = last.merged(with: change) { result[result.count - 1] = both } else { result.append(change) }
    }
    return result
  }
}

extension HistoryChange {
  /// This change and an update after it as one; nil where they have to stay two.
  fileprivate func merged(with update: HistoryChange) -> HistoryChange? {
    guard update.changeType == .update, changeType != .delete, objectID == update.objectID, entity == update.entity else { return nil }
    let related = Set(relationships.map(\.name))
    for relationship in update.relationships where related.contains(relationship.name) {
      // It adds to what is there.
      if case .toManyDelta = relationship.value { return nil }
    }
    let newer = HistoryChange(
      changeType: changeType, entity: entity, objectID: objectID, attributes: update.attributes, relationships: update.relationships, tombstone: tombstone)
    return newer.adding(self)
  }
}
