// Pages of zones' feeds that several devices of a user ask for: written once, and sent to each.

import RecordStore
import Records
package import ServiceKit
import Synchronization

/// The written pages of owners' feeds, for the devices that ask for the same one while its zone stays as it is.
///
/// A ping reaches a user's devices at one moment, so that they ask for one page together. A page is kept when it is
/// asked for again: a single device costs nothing more. Every request still finds the zone in a snapshot of its own,
/// and gets a page only if the zone has the state that the page was written in. What depends on the caller or on the
/// time is in no kept page: shares, and the addresses of assets.
package final class SharedPages: Sendable {
  /// The request for a page.
  struct Key: Hashable, Sendable {
    let shard: Int
    /// The epoch of the shard's owner: another one may have brought back an older state.
    let epoch: Int64
    let database: DatabaseID
    let zoneName: String
    /// The sequence behind which the page begins.
    let start: Int64
    let limit: Int
    let numbersAsStrings: Bool
  }

  /// Each change of a zone's records raises its sequence.
  struct ZoneState: Hashable, Sendable {
    let key: Int64
    let incarnation: UInt64
    let sequence: Int64

    init(_ zone: StoredZone) { (key, incarnation, sequence) = (zone.key, zone.incarnation, zone.sequence) }
  }

  struct Page: Sendable {
    let zone: ZoneState
    /// A JSON array.
    let records: [UInt8]
    let token: String
    let moreComing: Bool
  }

  /// The requests and pages of some seconds.
  private struct Generation {
    /// Hashes of requests.
    var asked: Set<Int> = []
    /// Hashes of those that were made more than once.
    var askedAgain: Set<Int> = []
    var pages: [Key: Page] = [:]
    var byteCount = 0

    var isEmpty: Bool { asked.isEmpty && askedAgain.isEmpty && pages.isEmpty }
  }

  private struct State {
    var present = Generation()
    var former = Generation()
    var isAging = false

    mutating func turn() {
      former = present
      present = Generation()
    }
  }

  private let state = Mutex(State())
  private let byteLimit: Int
  private let pause: @Sendable (Duration) async -> Void
  /// The pages that were sent again.
  package let sentAgain = Counter()

  /// Pages and requests are dropped after one to two of these.
  private static let age: Duration = .seconds(3)
  private static let askedLimit = 4096

  /// - Parameters:
  ///   - byteLimit: the most that kept pages take.
  ///   - pause: waits for a time.
  package init(byteLimit: Int = 16 << 20, pause: @escaping @Sendable (Duration) async -> Void) {
    self.byteLimit = byteLimit
    self.pause = pause
  }

  /// The bytes that kept pages take.
  var byteCount: Int { state.withLock { $0.present.byteCount + $0.former.byteCount } }

  func page(for key: Key) -> Page? { state.withLock { $0.present.pages[key] ?? $0.former.pages[key] } }

  /// Notes a request that begins.
  func note(_ key: Key) {
    let hash = key.hashValue
    let mustAge = state.withLock { state in
      if state.present.asked.contains(hash) || state.former.asked.contains(hash) {
        state.present.askedAgain.insert(hash)
      } else {
        if state.present.asked.count >= Self.askedLimit { state.turn() }
        state.present.asked.insert(hash)
      }
      defer { state.isAging = true }
      return !state.isAging
    }
    if mustAge { Task { await age() } }
  }

  /// True if the request was made more than once, so that its page is worth keeping.
  func isAskedAgain(_ key: Key) -> Bool {
    let hash = key.hashValue
    return state.withLock { $0.present.askedAgain.contains(hash) || $0.former.askedAgain.contains(hash) }
  }

  func keep(_ page: Page, for key: Key) {
    let count = page.records.count
    guard count <= byteLimit / 2 else { return }
    state.withLock { state in
      if state.present.byteCount + count > byteLimit / 2 { state.turn() }
      if let replaced = state.present.pages.updateValue(page, forKey: key) {
        state.present.byteCount -= replaced.records.count
      }
      state.present.byteCount += count
    }
  }

  /// Drops what is old, until nothing is left.
  private func age() async {
    while true {
      await pause(Self.age)
      let isOver = state.withLock { state in
        state.turn()
        state.isAging = !state.former.isEmpty
        return !state.isAging
      }
      if isOver || Task.isCancelled { return }
    }
  }
}
