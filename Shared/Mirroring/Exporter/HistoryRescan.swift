// A lost export position (H10): what a store's history tells of objects that the zone knows nothing of, to be exported
// again.

public import History

/// Finds the objects that have neither record nor tombstone, and divides them into rounds. Objects that have one are
/// left alone, because others may have changed them since.
///
/// It remembers names and numbers of missing objects alone. Their changes are read again, round by round.
public struct HistoryRescan: Sendable {
  private struct Missing: Sendable {
    let name: String
    /// The first and the last transaction that change it.
    let first: Int64
    var last: Int64
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
        missing.append(Missing(name: name, first: number, last: number))
      }
      guard let place = places[name] else { continue }
      missing[place].last = number
      // One transaction may have large objects beside many small ones, so a share of its length would say nothing.
      alone.changes = [change]
      missing[place].byteCount += alone.encoded().count
    }
  }

  public var missingCount: Int { missing.count }

  /// The next objects, whose changes are at most `byteLimit` long together, or a single one with longer changes; nil when
  /// none is left.
  /// - Parameter objectLimit: the most objects of a batch.
  public mutating func nextRound(objectLimit: Int, byteLimit: Int) -> Round? {
    guard next < missing.count else { return nil }
    let start = next
    var (last, byteCount) = (Int64.min, 0)
    repeat {
      last = max(last, missing[next].last)
      byteCount += missing[next].byteCount
      next += 1
    } while next < missing.count && byteCount + missing[next].byteCount <= byteLimit
    return Round(missing[start..<next].map(\.name), objectLimit, first: missing[start].first, last: last)
  }

  /// Some objects and their changes.
  public struct Round: Sendable {
    /// The part of the history that tells of them, in numbers of transactions.
    public let first: Int64
    public let last: Int64
    private let batchOf: [String: Int]
    /// The changes that were added. A batch has all changes of its objects, in order: each can be exported alone, and
    /// an interrupted rescan continues with the objects that are left.
    public private(set) var batches: [[HistoryTransaction]]

    fileprivate init(_ names: [String], _ objectLimit: Int, first: Int64, last: Int64) {
      self.first = first
      self.last = last
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
