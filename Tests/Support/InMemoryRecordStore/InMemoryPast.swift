// The oracle's past states: one list in the order of the replacements.

import Indexing
import RecordStore
import Records

extension InMemoryTransaction {
  func horizon(of zone: Int64) throws -> Int64? {
    rows.zones[zone].flatMap { $0.isDeleted ? nil : rows.horizons[zone] ?? 0 }
  }

  private func pastStates(of recordName: String, in zone: Int64) -> [PastState] {
    rows.past.filter { $0.zone == zone && $0.state.stored.record.recordName == recordName }.map(\.state).sorted {
      $0.until < $1.until
    }
  }

  func pastStates(of recordName: String, in zone: Int64, after sequence: Int64, limit: Int, byteLimit: Int) throws
    -> [PastState]
  {
    let states = pastStates(of: recordName, in: zone).filter { $0.until > sequence }.first(limit)
    var byteCount = 0
    let count = states.prefix { state in
      byteCount += state.stored.record.fields.byteCount
      return byteCount <= byteLimit
    }.count
    return states.first(max(1, count))
  }

  func pastState(of recordName: String, in zone: Int64, replacedAfter time: Int64) throws -> PastState? {
    pastStates(of: recordName, in: zone).first { $0.replacedAt > time }
  }

  func firstReplacement(in zone: Int64, after time: Int64) throws -> Int64? {
    rows.past.filter { $0.zone == zone && $0.state.replacedAt > time }.map(\.state.until).min()
  }

  func oldestReplacement() throws -> Int64? { rows.past.first?.state.replacedAt }

  func records(in zone: Int64, afterName recordName: String?, limit: Int, byteLimit: Int) throws
    -> RowPage<StoredRecord>
  {
    let all = (rows.records[zone] ?? [:]).values.map(\.stored).filter { stored in
      recordName.map { RecordNameOrder.precedes($0, stored.record.recordName) } ?? true
    }
    return all.sorted { RecordNameOrder.precedes($0.record.recordName, $1.record.recordName) }.page(limit, byteLimit)
  }

  func forgetPast(replacedBefore cutoff: Int64, limit: Int) throws -> Int {
    let old = rows.past.first(limit).prefix { $0.state.replacedAt < cutoff }
    for row in old { rows.horizons[row.zone] = max(rows.horizons[row.zone] ?? 0, row.state.until) }
    rows.past.removeFirst(old.count)
    try countAssets()
    return old.count
  }
}
