// The changes that an export leaves out, kept to try them again, and the times of the tries (E9).

public import History
import Records

/// The cause for which an object's changes are held back; it decides when they are tried again. The raw value is
/// stored: never renumber.
public enum QuarantineCause: Int, Hashable, Sendable, CaseIterable {
  case other = 0
  /// The environment's schema lacks a type or field, or has it otherwise.
  case schema = 1
  /// The record would exceed the size limit.
  case size = 2
  /// The database would exceed its storage limit.
  case space = 3
  /// Another client's validating reference forbids the change.
  case reference = 4
  /// Nobody knows the object yet.
  case missing = 5
  /// The object is deleted, and edits do not bring it back.
  case deleted = 6
  /// The change needs stored data that cannot be read.
  case damaged = 7
  /// The content of an asset is missing.
  case asset = 8
  /// The user may not write the object: the change is undone, not held back.
  case permission = 9
  /// The object's zone has ended, and the store waits for its user's decision.
  case zonePaused = 10
  /// The object's zone has ended, and with it the object.
  case zoneEnded = 11

  public var name: String { "\(self)" }

  /// Milliseconds until the next attempt; nil if the cause does not go away with time.
  public func delay(afterAttempts count: Int) -> Int64? {
    switch self {
    case .deleted, .permission, .zonePaused, .zoneEnded: return nil
    // Nothing reports when others free space or an operator grants more.
    case .space: return Self.shortestDelay
    case .other, .schema, .size, .reference, .missing, .damaged, .asset: break
    }
    return min(Self.shortestDelay << Int64(min(max(count - 1, 0), 16)), Self.longestDelay)
  }

  private static let shortestDelay: Int64 = 60_000
  private static let longestDelay: Int64 = 6 * 3_600_000
}

/// What an export has to know of the transaction that a change came with, now and when it tries the change again.
public struct ChangeOrigin: Hashable, Sendable {
  /// The store had the object before, and sends it again (P8).
  public let isSentAgain: Bool
  public let edit: HistoryTransaction.Edit?

  public init(isSentAgain: Bool = false, edit: HistoryTransaction.Edit? = nil) {
    self.isSentAgain = isSentAgain
    self.edit = edit
  }

  public init(_ transaction: HistoryTransaction) {
    self.init(isSentAgain: transaction.isSentAgain, edit: transaction.edit)
  }

  /// A transaction of this origin, as a part of `HeldTransactions`.
  /// - Parameter timestamp: when the changes began to wait: milliseconds since 1970.
  public func part(_ changes: [HistoryChange], at timestamp: Int64 = 0) -> HistoryTransaction {
    var part = HistoryTransaction(
      transactionID: "", timestamp: timestamp, author: isSentAgain ? ReservedName.reuploadAuthor : nil, changes: changes
    )
    part.edit = edit
    return part
  }
}

/// A change, or a part of one, that an export leaves out.
public struct LeftOutChange: Hashable, Sendable {
  public let change: HistoryChange
  public let problem: MirroringProblem
  public let origin: ChangeOrigin

  public init(_ change: HistoryChange, _ problem: MirroringProblem, of origin: ChangeOrigin) {
    self.change = change
    self.problem = problem
    self.origin = origin
  }

  func with(_ change: HistoryChange) -> LeftOutChange { LeftOutChange(change, problem, of: origin) }
}

extension HistoryChange {
  /// This later insert together with those values of an earlier update that it does not set itself.
  func adding(_ earlier: HistoryChange) -> HistoryChange {
    let (named, related) = (Set(attributes.map(\.name)), Set(relationships.map(\.name)))
    return HistoryChange(
      changeType: changeType, entity: entity, objectID: objectID,
      attributes: (attributes + earlier.attributes.filter { !named.contains($0.name) }).sorted { $0.name < $1.name },
      relationships: (relationships + earlier.relationships.filter { !related.contains($0.name) }).sorted {
        $0.name < $1.name
      }, tombstone: tombstone)
  }

  /// An update that sets one relationship of this change.
  func only(_ relationship: String, _ value: RelationshipValue) -> HistoryChange {
    HistoryChange(
      changeType: .update, entity: entity, objectID: objectID,
      relationships: [NamedValue(name: relationship, value: value)])
  }
}

extension QuarantineCause {
  /// True if the only problem is that the object does not exist.
  var isAbsence: Bool { self == .missing || self == .deleted }
}

extension HistoryChange {
  /// The parts of this change that a later, applied one does not overwrite; nil if nothing remains.
  func superseded(by newer: HistoryChange) -> HistoryChange? {
    let attributeNames = Set(newer.attributes.map(\.name))
    let values = Dictionary(newer.relationships.map { ($0.name, $0.value) }, uniquingKeysWith: { _, last in last })
    let rest = HistoryChange(
      changeType: changeType, entity: entity, objectID: objectID,
      attributes: attributes.filter { !attributeNames.contains($0.name) },
      relationships: relationships.compactMap { relationship in
        guard let value = values[relationship.name] else { return relationship }
        return relationship.value.superseded(by: value).map { NamedValue(name: relationship.name, value: $0) }
      }, tombstone: tombstone)
    return rest.changeType == .update && rest.attributes.isEmpty && rest.relationships.isEmpty ? nil : rest
  }

  /// The change without one to-one pointer; nil if nothing remains.
  func without(_ pointer: NamedValue<RelationshipValue>) -> HistoryChange? {
    let rest = HistoryChange(
      changeType: changeType, entity: entity, objectID: objectID, attributes: attributes,
      relationships: relationships.filter { $0 != pointer }, tombstone: tombstone)
    return rest.changeType == .update && rest.attributes.isEmpty && rest.relationships.isEmpty ? nil : rest
  }
}

extension RelationshipValue {
  /// The part of this value that a later, applied one does not overwrite; nil if nothing remains.
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
