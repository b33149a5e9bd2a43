// Splits a transaction into steps, so that one too large for a batch is exported in slices; each slice knows where it
// begins.

public import History
import Records

/// One step of a transaction: an object's insert, update or delete, or a part of one relationship.
///
/// Steps of objects come before steps of relationships: an object may point to one that is inserted further down.
public struct ExportStep: Hashable, Sendable {
  public enum Work: Hashable, Sendable {
    case object
    /// A relationship of the change, by its index, and the part of its value.
    case relationship(Int, Part)
  }

  /// The part of a relationship's value that a step sets.
  public enum Part: Hashable, Sendable {
    case whole
    /// Removes the objects that a whole set no longer contains.
    case removals
    /// A range of the objects that a delta removes.
    case removing(Range<Int>)
    /// A range of the objects that are added.
    case adding(Range<Int>)
  }

  /// The change's index in the transaction.
  public let change: Int
  public let work: Work
  /// Estimates of the records that the step touches and of their bytes.
  public let itemCount: Int
  public let byteCount: Int
}

/// The limits of one batch.
public struct ExportLimits: Hashable, Sendable {
  public var itemCount: Int
  public var byteCount: Int

  public init(itemCount: Int, byteCount: Int) {
    self.itemCount = itemCount
    self.byteCount = byteCount
  }

  public static let standard = ExportLimits(itemCount: Limit.exportItemCount, byteCount: Limit.exportByteCount)
}

/// The steps of a transaction, in order. They depend on the transaction alone, so that a place among them can be
/// stored.
public struct ExportSteps: Sendable {
  public let steps: [ExportStep]

  /// The number of a set's members that one step sets.
  static let memberCount = 200

  public init(_ transaction: HistoryTransaction) {
    var steps: [ExportStep] = []
    steps.reserveCapacity(transaction.changes.count)
    for (index, change) in transaction.changes.enumerated() {
      let byteCount = change.attributes.reduce(change.objectID.utf8.count) {
        $0 + $1.name.utf8.count + $1.value.byteCount
      }
      steps.append(ExportStep(change: index, work: .object, itemCount: 1, byteCount: byteCount))
    }
    for (index, change) in transaction.changes.enumerated() where change.changeType != .delete {
      for (place, relationship) in change.relationships.enumerated() {
        func add(_ part: ExportStep.Part, _ members: Int) {
          // At least one: the step touches its object's record.
          let count = max(1, members)
          steps.append(
            ExportStep(
              change: index, work: .relationship(place, part), itemCount: count, byteCount: count * Self.linkByteCount))
        }
        func add(_ part: (Range<Int>) -> ExportStep.Part, upTo count: Int) {
          for start in stride(from: 0, to: count, by: Self.memberCount) {
            let range = start..<min(start + Self.memberCount, count)
            add(part(range), range.count)
          }
        }
        switch relationship.value {
        case .toOne: add(.whole, 0)
        case .toMany(let targets) where targets.count > Self.memberCount:
          add(.removals, 0)
          add(ExportStep.Part.adding, upTo: targets.count)
        case .toMany(let targets): add(.whole, targets.count)
        case .toManyDelta(let added, let removed) where added.count + removed.count > Self.memberCount:
          add(ExportStep.Part.removing, upTo: removed.count)
          add(ExportStep.Part.adding, upTo: added.count)
        case .toManyDelta(let added, let removed): add(.whole, added.count + removed.count)
        }
      }
    }
    self.steps = steps
  }

  /// The approximate size of a link record.
  private static let linkByteCount = 200

  /// The steps from `start` on that fit into a batch; at least one, if any are left.
  public func slice(from start: Int, limits: ExportLimits) -> Range<Int> {
    let start = min(start, steps.count)
    var (items, bytes, end) = (0, 0, start)
    for step in steps[start...] {
      items += step.itemCount
      bytes += step.byteCount
      if end > start, items > limits.itemCount || bytes > limits.byteCount { break }
      end += 1
    }
    return start..<end
  }
}

extension ExportStep {
  /// The step as a change. An object's step stands for the whole change, relationships included: if it is left out, all
  /// of it is.
  public func part(of change: HistoryChange) -> HistoryChange {
    guard case .relationship(let place, _) = work else { return change }
    let relationship = change.relationships[place]
    return change.only(relationship.name, value(of: relationship.value) ?? relationship.value)
  }

  /// The part of the relationship's value that the step sets; nil for `removals`, which need the whole set.
  func value(of relationship: RelationshipValue) -> RelationshipValue? {
    guard case .relationship(_, let part) = work else { return nil }
    switch (part, relationship) {
    case (.removals, _): return nil
    case (.adding(let range), .toMany(let targets)): return .toManyDelta(add: Array(targets[range]), remove: [])
    case (.adding(let range), .toManyDelta(let added, _)): return .toManyDelta(add: Array(added[range]), remove: [])
    case (.removing(let range), .toManyDelta(_, let removed)):
      return .toManyDelta(add: [], remove: Array(removed[range]))
    default: return relationship
    }
  }
}

extension AttributeValue {
  /// The approximate size of the value in a record.
  fileprivate var byteCount: Int {
    switch self {
    case .null: 0
    case .integer, .double, .boolean, .date: 8
    case .decimal(let text), .string(let text), .uuid(let text), .uri(let text): text.utf8.count
    case .binary(let bytes): bytes.count
    case .asset: 64
    case .composite(let elements): elements.reduce(0) { $0 + $1.name.utf8.count + $1.value.byteCount }
    }
  }
}
