// The oracle's redirects: one dictionary a zone, searched from end to end.

import Indexing
import RecordStore
import Records

extension InMemoryTransaction {
  func hasRedirects(in database: Int64) throws -> Bool {
    rows.redirects.contains { zone, redirects in !redirects.isEmpty && rows.zones[zone]?.databaseKey == database }
  }

  func redirect(of recordName: String, in zone: Int64) throws -> StoredRedirect? { rows.redirects[zone]?[recordName] }

  func redirects(to recordName: String, in zone: Int64, limit: Int) throws -> [StoredRedirect] {
    sortedRedirects(in: zone).filter { $0.survivor == recordName }.first(limit)
  }

  func pendingRedirects(in zone: Int64, afterName recordName: String?, limit: Int) throws -> [StoredRedirect] {
    let pending = sortedRedirects(in: zone).filter { redirect in
      redirect.isPending && recordName.map { RecordNameOrder.precedes($0, redirect.loser) } ?? true
    }
    return pending.first(limit)
  }

  func zonesWithPendingRedirects(in database: Int64?, afterKey key: Int64, limit: Int) throws -> [StoredZone] {
    let zones = rows.zones.values.filter { zone in
      !zone.isDeleted && zone.key > key && (database == nil || zone.databaseKey == database)
        && rows.redirects[zone.key]?.values.contains(where: \.isPending) == true
    }
    return zones.sorted { $0.key < $1.key }.first(limit)
  }

  func indexedNames(of index: Int64, in zone: Int64, range: IndexRange, limit: Int) throws -> [String] {
    entries(of: index, in: zone, range: range).sorted { $0.precedes($1) }.map(\.stored.record.recordName).first(limit)
  }

  func sharedKeys(of index: Int64, in zone: Int64, after key: [UInt8], limit: Int) throws -> [[UInt8]] {
    var counts: [[UInt8]: Int] = [:]
    for entry in entries(
      of: index, in: zone, range: IndexRange(lower: key + [0], upper: Array(repeating: .max, count: 512)))
    { counts[entry.key, default: 0] += 1 }
    return counts.filter { $0.value > 1 }.keys.sorted { $0.lexicographicallyPrecedes($1) }.first(limit)
  }

  private func sortedRedirects(in zone: Int64) -> [StoredRedirect] {
    (rows.redirects[zone] ?? [:]).values.sorted { RecordNameOrder.precedes($0.loser, $1.loser) }
  }

  func put(_ redirect: StoredRedirect, in zone: Int64) throws {
    try write {
      guard let row = rows.zones[zone], !row.isDeleted else { throw ContradictingWrite("no zone \(zone)") }
      var redirect = redirect
      redirect.survivor = rows.redirects[zone]?[redirect.survivor]?.survivor ?? redirect.survivor
      if redirect.survivor == redirect.loser {
        throw ContradictingWrite("a record of zone \(zone) would stand for itself")
      }
      rows.redirects[zone, default: [:]][redirect.loser] = redirect
      for (name, other) in rows.redirects[zone] ?? [:] where other.survivor == redirect.loser {
        rows.redirects[zone]?[name]?.survivor = redirect.survivor
      }
    }
  }

  func removeRedirect(of recordName: String, in zone: Int64) throws {
    try write { rows.redirects[zone]?[recordName] = nil }
  }

  func note(_ progress: StoredRedirect.Progress, ofPendingRedirectsBefore time: Int64, in zone: Int64) throws {
    try write {
      for (name, redirect) in rows.redirects[zone] ?? [:] where redirect.isPending && redirect.since < time {
        rows.redirects[zone]?[name]?.progress.formUnion(progress)
      }
    }
  }
}
