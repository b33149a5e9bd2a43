// Knows how large each open shard is and how busy it was lately, so that operators can spread shards over clusters.

import RecordStore
import ServiceKit
import Synchronization
import ZoneCommit

/// The size of a shard, and its saves and reads a second.
struct ShardLoad: Hashable, Sendable {
  /// Live records; nil before the first measurement.
  var recordCount: Int?
  /// Bytes of tables and indexes; nil before the first measurement.
  var byteCount: Int64?
  /// Over the last minutes; nil for half a minute after the opening.
  var savesPerSecond, readsPerSecond: Double?
}

/// The counts of a shard at the looks of the last minutes, without store or clock.
struct LoadWindow: Sendable {
  private struct Look {
    let time: Int64
    let saves, reads: Double
  }

  /// Milliseconds.
  static let length: Int64 = 300_000
  private var looks: [Look] = []

  /// Adds a look.
  /// - Parameter time: milliseconds since 1970. A clock that was set back makes the window begin anew.
  mutating func add(saves: Double, reads: Double, at time: Int64) {
    if let last = looks.last, last.time >= time { looks = [] }
    looks.append(Look(time: time, saves: saves, reads: reads))
    // One look that is older stays, so that the rest covers the whole length.
    while looks.count > 2, looks[1].time <= time - Self.length { looks.removeFirst() }
  }

  /// Saves and reads a second from the first look to the last one; nil for a single look.
  var rates: (saves: Double, reads: Double)? {
    guard let first = looks.first, let last = looks.last, last.time > first.time else { return nil }
    let seconds = Double(last.time - first.time) / 1000
    return ((last.saves - first.saves) / seconds, (last.reads - first.reads) / seconds)
  }
}

/// Looks at the counters of every open shard repeatedly, and measures a shard now and then if it was written to.
final class ShardLoads: ShardWork {
  private let clock: any WallClock
  private let log: Log
  private let pause: @Sendable (Duration) async -> Void
  private let loads = Mutex<[Int: ShardLoad]>([:])

  /// Time between two looks at a shard's counters.
  static let interval = Duration.seconds(5)
  /// The looks before rates are counted. An opening reads much, which is no load: shards that have just moved would
  /// move again for it.
  static let openingLooks = 6
  /// The looks from one measurement to the next: a measurement asks about every file of the shard.
  static let looksPerMeasurement = 12

  /// - Parameter pause: returns after that time, or early when its task is cancelled.
  init(clock: any WallClock, log: Log, pause: @escaping @Sendable (Duration) async -> Void) {
    self.clock = clock
    self.log = log
    self.pause = pause
  }

  /// The open shards' loads as they were last seen, by shard.
  var all: [Int: ShardLoad] { loads.withLock { $0 } }

  func run(on store: any ShardStore) async {
    var (window, load, look) = (LoadWindow(), ShardLoad(), 0)
    var measured: Double?
    while !Task.isCancelled {
      let counts = Dictionary(store.statistics.map { ($0.name, $0.value) }) { $1 }
      if look >= Self.openingLooks {
        window.add(saves: counts["bodies_total"] ?? 0, reads: counts["reads_total"] ?? 0, at: clock.now)
      }
      (load.savesPerSecond, load.readsPerSecond) = (window.rates?.saves, window.rates?.reads)
      let commits = counts["commits_total"] ?? 0
      if look % Self.looksPerMeasurement == 0, measured != commits {
        do {
          let (counts, bytes) = try await store.read { (try $0.counts(), try $0.byteCount()) }
          (load.recordCount, load.byteCount, measured) = (counts.records, bytes, commits)
        } catch {
          report("a shard could not be measured", error, on: store, to: log)
        }
      }
      look += 1
      loads.withLock { [load] in $0[store.shard] = load }
      await pause(Self.interval)
    }
    loads.withLock { $0[store.shard] = nil }
  }
}
