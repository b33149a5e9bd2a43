// A lost export position (H10): what a store's history tells of objects that the zone knows nothing of, to be exported
// again.

public import History

/// Finds the objects that have neither record nor tombstone, and divides them into rounds. Objects that have one are
/// left alone, because others may have changed them since.
///
/// It remembers the names of missing objects and the numbers of their transactions. Their changes are read again, round
/// by round.
public struct HistoryRescan: Sendable {
  private struct Missing: Sendable {
    let name: String
    /// The transactions that change it, ascending.
    var numbers: [Int64] = []
    /// The length of its changes.
    var byteCount = 0
  }

  /// In the order in which the history first names them.
  private var missing: [Missing] = []
  /// Their places in `missing`.
  private var places: [String: Int] = [:]
  /// The place of the first object that no round has.
  private var next = 0

  public init() {}

  /// Notes the objects of the history's next transaction.
  /// - Parameter hasRecord: whether the zone has a record or tombstone of that name.
  public mutating func note(_ transaction: HistoryTransaction, number: Int64, hasRecord: (String) throws -> Bool)
    rethrows
  {
    if case .skip = Exporter.Treatment(author: transaction.author) { return }
    var alone = transaction
    for change in transaction.changes {
      let name = change.objectID
      if places[name] == nil, try !hasRecord(name) {
        places[name] = missing.count
        missing.append(Missing(name: name))
      }
      guard let place = places[name] else { continue }
      if missing[place].numbers.last != number { missing[place].numbers.append(number) }
      // One transaction may have large objects beside many small ones, so a share of its length would say nothing.
      alone.changes = [change]
      missing[place].byteCount += alone.encoded().count
    }
  }

  public var missingCount: Int { missing.count }

  /// The next objects, whose changes are at most `byteLimit` long together, or a single one with longer changes; nil
  /// when none is left.
  /// - Parameter objectLimit: the most objects of a batch.
  public mutating func nextRound(objectLimit: Int, byteLimit: Int) -> Round? {
    guard next < missing.count else { return nil }
    let start = next
    var byteCount = 0
    var numbers: Set<Int64> = []
    repeat {
      byteCount += missing[next].byteCount
      numbers.formUnion(missing[next].numbers)
      missing[next].numbers = []
      next += 1
    } while next < missing.count && byteCount + missing[next].byteCount <= byteLimit
    return Round(missing[start..<next].map(\.name), objectLimit, spans: Self.spans(of: numbers.sorted()))
  }

  /// Transactions between two of a round that are read with them, because a further read costs more.
  private static let gap: Int64 = 20

  private static func spans(of numbers: [Int64]) -> [ClosedRange<Int64>] {
    var spans: [ClosedRange<Int64>] = []
    for number in numbers {
      if let last = spans.last, number - last.upperBound <= gap {
        spans[spans.count - 1] = last.lowerBound...number
      } else {
        spans.append(number...number)
      }
    }
    return spans
  }

  /// Some objects and their changes.
  public struct Round: Sendable {
    /// The parts of the history that tell of them, in numbers of transactions, ascending.
    public let spans: [ClosedRange<Int64>]
    private let batchOf: [String: Int]
    /// The changes that were added. A batch has all changes of its objects, in order: each can be exported alone, and
    /// an interrupted rescan continues with the objects that are left.
    public private(set) var batches: [[HistoryTransaction]]

    fileprivate init(_ names: [String], _ objectLimit: Int, spans: [ClosedRange<Int64>]) {
      self.spans = spans
      batchOf = Dictionary(uniqueKeysWithValues: names.enumerated().map { ($1, $0 / objectLimit) })
      batches = Array(repeating: [], count: (names.count + objectLimit - 1) / objectLimit)
    }

    /// Takes the changes of the round's objects out of the history's next transaction.
    public mutating func add(_ transaction: HistoryTransaction) {
      if case .skip = Exporter.Treatment(author: transaction.author) { return }
      var changes: [Int: [HistoryChange]] = [:]
      for change in transaction.changes {
        if let batch = batchOf[change.objectID] { changes[batch, default: []].append(change) }
      }
      for (batch, changes) in changes {
        var part = transaction
        part.changes = changes
        batches[batch].append(part)
      }
    }
  }
}
