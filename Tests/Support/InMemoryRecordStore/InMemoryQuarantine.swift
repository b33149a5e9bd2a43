// The oracle's quarantine: a list that each call filters and sorts.

import RecordStore
import Records

extension InMemoryTransaction {
  func quarantined(_ name: String, of mirror: Int64) throws -> StoredQuarantine? {
    rows.quarantine.first { $0.object.mirror == mirror && $0.object.name == name }?.object
  }

  func quarantined(of mirror: Int64, afterKey key: Int64, limit: Int) throws -> [StoredQuarantine] {
    rows.quarantine.map(\.object).filter { $0.mirror == mirror && $0.key > key }.first(limit)
  }

  func quarantined(of mirror: Int64, dueBy time: Int64, limit: Int) throws -> [StoredQuarantine] {
    let due = rows.quarantine.map(\.object).filter { $0.mirror == mirror && $0.dueAt <= time }
    return due.sorted { ($0.dueAt, $0.key) < ($1.dueAt, $1.key) }.first(limit)
  }

  func quarantinedChanges(_ key: Int64) throws -> [UInt8]? { rows.quarantine.first { $0.object.key == key }?.changes }

  func mirrorsWithQuarantine(afterKey key: Int64, limit: Int) throws -> [Int64] {
    Set(rows.quarantine.map(\.object.mirror)).filter { $0 > key }.sorted().first(limit)
  }

  func nextQuarantineDue() throws -> Int64? { rows.quarantine.map(\.object.dueAt).min() }

  func putQuarantined(_ object: StoredQuarantine, changes: [UInt8], assets: [Asset]) throws {
    try write {
      guard rows.mirrors[object.mirror] != nil else { throw ContradictingWrite("no mirror \(object.mirror)") }
      var stored = object
      if let index = rows.quarantine.firstIndex(where: {
        $0.object.mirror == object.mirror && $0.object.name == object.name
      }) {
        stored.key = rows.quarantine[index].object.key
        rows.quarantine[index] = InMemoryRows.QuarantineRow(object: stored, changes: changes, assets: Set(assets))
      } else {
        stored.key = (rows.quarantine.last?.object.key ?? 0) + 1
        rows.quarantine.append(InMemoryRows.QuarantineRow(object: stored, changes: changes, assets: Set(assets)))
      }
      try countQuarantine(of: object.mirror)
    }
  }

  func removeQuarantined(_ name: String, of mirror: Int64) throws {
    try write {
      guard rows.mirrors[mirror] != nil else { throw ContradictingWrite("no mirror \(mirror)") }
      rows.quarantine.removeAll { $0.object.mirror == mirror && $0.object.name == name }
      try countQuarantine(of: mirror)
    }
  }

  func retryQuarantined(_ selection: QuarantineSelection, of mirror: Int64, at time: Int64) throws -> Int {
    try write {
      guard rows.mirrors[mirror] != nil else { throw ContradictingWrite("no mirror \(mirror)") }
      var count = 0
      for index in rows.quarantine.indices
      where rows.quarantine[index].object.mirror == mirror && selection.contains(rows.quarantine[index].object) {
        rows.quarantine[index].object.dueAt = time
        count += 1
      }
      return count
    }
  }

  private func countQuarantine(of mirror: Int64) throws {
    let count = rows.quarantine.count { $0.object.mirror == mirror }
    rows.mirrors[mirror]?.quarantinedCount = count
    try countAssets()
  }
}

extension QuarantineSelection {
  fileprivate func contains(_ object: StoredQuarantine) -> Bool {
    switch self {
    case .all: true
    case .names(let names): names.contains(object.name)
    case .cause(let cause): object.cause == cause
    case .otherSchema(let version): object.schemaVersion != version
    }
  }
}
