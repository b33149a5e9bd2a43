// The bound of one request's ways up and down hierarchies, which take the shard's writer.

import Records

/// Counts the records that a request passes. A chain of parents may be long, and trees of tombstones have no limit.
package final class HierarchyWalk {
  private var steps = CostBudget(limit: Limit.hierarchyStepCount)
  private var byteCount = 0

  package init() {}

  /// - Throws: `BAD_REQUEST` beyond the limit.
  package func pass(_ recordName: String) throws {
    do {
      try steps.spend()
    } catch is CostBudget.Exceeded {
      throw RecordError(
        .badRequest,
        """
        The request follows parents over more than \(Limit.hierarchyStepCount) records, deleted ones included, which \
        is its limit; the last is '\(recordName)'
        """)
    }
  }

  /// - Throws: `BAD_REQUEST` beyond the limit.
  func move(_ record: Record) throws {
    byteCount += record.fields.byteCount
    if byteCount > Limit.hierarchyByteCount {
      throw RecordError(
        .badRequest,
        """
        The records below those of the request have more than \(Limit.hierarchyByteCount >> 20) MB, which is the limit \
        of what one request moves into a share or out of one
        """)
    }
  }
}
