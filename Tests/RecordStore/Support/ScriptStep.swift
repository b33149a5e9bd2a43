// The steps of random scripts, and the generator that draws them.

import Indexing
import Records

@testable import RecordStore

/// SplitMix64: the same seed gives the same run.
struct SeededGenerator: RandomNumberGenerator {
  private var state: UInt64
  init(seed: UInt64) { state = seed }

  mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var value = state
    value = (value ^ value >> 30) &* 0xbf58_476d_1ce4_e5b9
    value = (value ^ value >> 27) &* 0x94d0_49bb_1331_11eb
    return value ^ value >> 31
  }
}

/// One step of a body. Places have names, not keys, so that a script means the same in both stores.
enum ScriptStep: Sendable {
  case makeDatabase(owner: Int)
  case makeZone(owner: Int, zone: Int)
  case deleteZone(owner: Int, zone: Int)
  case save(owner: Int, zone: Int, name: Int, type: Int, targets: [Int], origin: Int64, looksFirst: Bool)
  case delete(owner: Int, zone: Int, name: Int)
  case saveAsNew(owner: Int, zone: Int, name: Int)
  case subscribe(owner: Int, user: Int, identifier: Int, payload: Int)
  case unsubscribe(owner: Int, position: Int)
  case makeMirror(owner: Int, mirror: Int)
  case deleteMirror(owner: Int, mirror: Int)
  case append(owner: Int, mirror: Int, id: Int)
  case exported(owner: Int, mirror: Int)
  case purge(owner: Int, mirror: Int, keep: Int64)
  case consume(owner: Int, mirror: Int, name: Int, number: Int64?)
  case event(owner: Int, mirror: Int, kind: Int, ends: Int64)
  case quarantine(owner: Int, mirror: Int, name: Int, at: Int64)
  case release(owner: Int, mirror: Int, name: Int)
  case retry(owner: Int, mirror: Int, which: Int, at: Int64)
  case conflict(owner: Int, name: Int, state: Int, at: Int64)
  case settle(owner: Int, position: Int, at: Int64)
  case forgetConflicts(before: Int64, limit: Int)
  case resetMirror(owner: Int, mirror: Int)
  case redirect(owner: Int, zone: Int, loser: Int, survivor: Int, at: Int64)
  case share(owner: Int, zone: Int, number: Int, user: Int, choice: Int)
  case makeIndex(owner: Int, index: Int)
  case dropIndex(owner: Int, index: Int)
  case outcome(key: Int, at: Int64)
  case forget(before: Int64, limit: Int)
  case forgetPast(before: Int64)
  case readZones(owner: Int)
  case readCounts
  case fail
}
