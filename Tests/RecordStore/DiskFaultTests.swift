import CSQLite
import Foundation
import RecordStore
import Records
import Testing

/// A disk that fails at every possible step: acknowledged bodies survive, and no body is torn.
struct DiskFaultTests {
  /// Numbered bodies with their fates. Each stores an outcome under its number and a note with the number as its title.
  struct Ledger {
    var sent: [Int] = []
    var acknowledged: [Int] = []

    static let noteCount = 7

    /// Sends `count` bodies, two at a time, and continues after failures, as clients do.
    mutating func write(_ count: Int, to shard: any ShardStore) async {
      guard let place = try? await Place(in: shard) else { return }
      for _ in 0..<count / 2 {
        let numbers = [sent.count, sent.count + 1]
        sent += numbers
        let pending = numbers.map { number in
          shard.enqueue { transaction in
            let title = "\(number)" + String(repeating: ".", count: number * 997 % 6000)
            try transaction.save(Sample.note("note \(number % Self.noteCount)", title: title), in: place)
            try transaction.putOutcome([1], of: "\(number)", at: Int64(number))
          }
        }
        for (number, commit) in zip(numbers, pending) where (try? await commit.value) != nil {
          acknowledged.append(number)
        }
      }
    }

    /// Contradictions between the shard and the ledger.
    func problems(in shard: any ShardStore) async throws -> [String] {
      let sent = sent
      let (present, titles) = try await shard.read { snapshot in
        let present = try sent.filter { try snapshot.outcome(of: "\($0)") != nil }
        var titles: [String: String] = [:]
        for database in try snapshot.databases(afterKey: 0, limit: 9) {
          for zone in try snapshot.zones(in: database.key, after: 0, limit: 9) {
            for stored in try snapshot.changes(in: zone.key, after: 0, limit: 1000) {
              titles[stored.record.recordName] = stored.record.fields.string("CD_title").map {
                String($0.prefix { $0 != "." })
              }
            }
          }
        }
        return (present, titles)
      }
      var problems = Set(acknowledged).subtracting(present).sorted().map { "\($0) was acknowledged and is gone" }
      var expected: [String: String] = [:]
      for number in present { expected["note \(number % Self.noteCount)"] = "\(number)" }
      if titles != expected { problems.append("notes \(titles), outcomes say \(expected)") }
      problems += try await #require(shard as? SQLiteShardStore).verify().problems
      return problems
    }
  }

  /// A log with twelve bodies, and all files as a power cut leaves them behind the last commit.
  private struct WrittenLog {
    let rig: Rig
    let ledger: Ledger
    let whole: [String: [UInt8]]
    let path: String
    let log: [UInt8]
    /// The bytes of a frame.
    static let frame = 24 + 4096

    init() async throws {
      rig = try Rig(checkpointPages: 1000)
      var ledger = Ledger()
      let shard = try await rig.open()
      await ledger.write(12, to: shard)
      self.ledger = ledger
      whole = rig.disk.contentAfterPowerCut(seed: nil)
      await shard.close()
      path = rig.folder.path + "/shard-0.sqlite-wal"
      log = try #require(whole[path])
    }

    /// The offset at which the log's prepared zeros begin.
    var end: Int {
      let last = log.lastIndex { $0 != 0 } ?? 0
      return 32 + (last - 32 + Self.frame) / Self.frame * Self.frame
    }
  }

  struct Rig {
    let folder: TemporaryFolder
    let disk: SimulatedDisk
    private let store: SQLiteRecordStore

    /// - Parameter checkpointPages: a small number makes frequent checkpoints, a large one none.
    init(checkpointPages: Int, isWritebackStuck: Bool = false, synchronous: String = "FULL") throws {
      folder = try TemporaryFolder()
      disk = SimulatedDisk(folder.path)
      var options = SQLiteRecordStore.Options()
      options.checkpointPages = checkpointPages
      options.isWritebackStuck = isWritebackStuck
      options.synchronous = synchronous
      store = try SQLiteRecordStore(SQLiteConfiguration(directory: folder.path, options: options), shardCount: 1)
    }

    func open() async throws -> any ShardStore { try await store.open(shard: 0) }

    /// Opens, writes and closes; with `powerCut` the power ends before the close.
    func run(_ ledger: inout Ledger, count: Int, powerCut: Bool = false, seed: UInt64? = nil) async throws {
      let shard = try await open()
      await ledger.write(count, to: shard)
      let left = powerCut ? disk.contentAfterPowerCut(seed: seed) : nil
      await shard.close()
      if let left { try disk.restart(with: left) }
    }

    func problems(of ledger: Ledger) async throws -> [String] {
      let shard = try await open()
      let problems = try await ledger.problems(in: shard)
      await shard.close()
      return problems
    }
  }

  /// The first steps one by one, then with growing gaps.
  static func next(_ count: Int) -> Int { count + 1 + count / 3 }

  @Test(arguments: SimulatedDisk.Fault.Kind.allCases, [false, true])
  func
    `whichever step fails, once or for good, nothing acknowledged is lost, nothing is torn, and the shard serves again`(
      _ kind: SimulatedDisk.Fault.Kind, isLasting: Bool
    ) async throws
  {
    var count = 1
    var hasFailed = true
    while hasFailed {
      let rig = try Rig(checkpointPages: count % 3 == 0 ? 1000 : 15)
      var ledger = Ledger()
      let isFull = kind != .sync && count % 5 == 0
      rig.disk.set(
        SimulatedDisk.Fault(
          kind: kind, count: count, isLasting: isLasting, writeError: isFull ? SQLITE_FULL : SQLITE_IOERR | 3 << 8))
      // Dropped because a shard that can't be opened has acknowledged nothing.
      try? await rig.run(&ledger, count: 12, powerCut: count % 2 == 0, seed: count % 4 == 0 ? UInt64(count) : nil)
      hasFailed = rig.disk.hasFailed
      rig.disk.set(nil)
      let before = ledger.acknowledged.count
      // Later bodies build on the state that the failure left.
      try await rig.run(&ledger, count: 6, powerCut: true, seed: count % 4 == 1 ? UInt64(count) : nil)
      #expect(ledger.acknowledged.count == before + 6, "\(kind) \(count)")
      #expect(try await rig.problems(of: ledger) == [], "\(kind) \(count)")
      #expect(rig.disk.problems == [], "\(kind) \(count)")
      count = Self.next(count)
    }
    #expect(count > 2)
  }

  @Test func `a log that ends anywhere opens to what was committed up to there, and takes commits again`() async throws
  {
    let written = try await WrittenLog()
    let (rig, ledger, whole, path, log) = (written.rig, written.ledger, written.whole, written.path, written.log)
    let frame = WrittenLog.frame
    let end = written.end
    #expect(ledger.acknowledged.count == 12 && end < log.count)
    var present = 0
    var cuts = [0, 1, 31, 32]
    // Cuts in a frame's header, between header and page, in the page, and behind it, for one frame after the other.
    for (index, end) in stride(from: 32 + frame, through: end, by: 2 * frame).enumerated() {
      cuts.append(end - [frame - 5, frame - 24, 700, 0][index % 4])
    }
    // Behind the last frame, and in the zeros prepared for the next ones.
    cuts += [end, end + 10, end + frame + 30, log.count]
    for (index, cut) in cuts.enumerated() {
      for isGarbage in index % 5 == 0 ? [false, true] : [false] {
        var contents = whole
        // A file system may leave nothing behind the cut, or the sectors' earlier content.
        contents[path] =
          Array(log[..<cut]) + (isGarbage ? (cut..<max(cut, end)).map { UInt8(truncatingIfNeeded: $0 &* 31) } : [])
        try rig.disk.restart(with: contents)
        let shard = try await rig.open()
        let found = try await shard.read { snapshot in try (0..<12).filter { try snapshot.outcome(of: "\($0)") != nil }
        }
        #expect(found == Array(0..<found.count) && found.count >= (isGarbage ? 0 : present), "cut at \(cut)")
        if !isGarbage { present = found.count }
        var rest = Ledger()
        rest.sent = ledger.sent
        rest.acknowledged = found
        await rest.write(2, to: shard)
        #expect(rest.acknowledged.count == found.count + 2)
        #expect(try await rest.problems(in: shard) == [], "cut at \(cut)")
        await shard.close()
      }
    }
    #expect(present == 12)
  }

  /// Only damage in the last commit looks the same as a power cut during its write.
  @Test func `a log with a flipped byte is refused, or has everything that was acknowledged but the last commit`()
    async throws
  {
    let written = try await WrittenLog()
    let (rig, whole, path, log) = (written.rig, written.whole, written.path, written.log)
    var (refusals, losses) = (0, 0)
    // In the log's header, in frames' headers, and in their pages.
    let places =
      [0, 9, 17, 25]
      + stride(from: 32, to: written.end, by: WrittenLog.frame).enumerated().map {
        $1 + [5, 13, 18, 200, 4000][$0 % 5]
      }
    for place in places {
      var contents = whole
      contents[path]?[place] ^= 0x10
      try rig.disk.restart(with: contents)
      do {
        let shard = try await rig.open()
        let found = try await shard.read { snapshot in try (0..<12).filter { try snapshot.outcome(of: "\($0)") != nil }
        }
        await shard.close()
        // Each commit has two bodies.
        #expect(found.count >= 10 && found == Array(0..<found.count), "flipped at \(place) of \(log.count): \(found)")
        losses += found.count < 12 ? 1 : 0
      } catch StoreError.corrupt {
        refusals += 1
      }
    }
    #expect(refusals + losses == places.count && refusals > losses)
  }

  @Test func `a log with a flipped byte in the head of a commit's last frame is refused, if another commit follows`()
    async throws
  {
    let written = try await WrittenLog()
    let (rig, whole, path, log) = (written.rig, written.whole, written.path, written.log)
    let ends = stride(from: 32, to: written.end, by: WrittenLog.frame).filter { start in
      log[start + 4..<start + 8].contains { $0 != 0 } && log[start + 8..<start + 16] == log[16..<24]
    }
    #expect(ends.count >= 6)
    // In the size that marks the end, in both salts, and in the checksum.
    for start in ends.dropLast() {
      for place in [5, 9, 13, 18] {
        var contents = whole
        contents[path]?[start + place] ^= 0x10
        try rig.disk.restart(with: contents)
        await #expect {
          let shard = try await rig.open()
          await shard.close()
        } throws: {
          if case StoreError.corrupt = $0 { true } else { false }
        }
      }
    }
  }

  @Test
  func `after a sync of the log that failed the shard acknowledges nothing and shows nothing until it is opened anew`()
    async throws
  {
    let rig = try Rig(checkpointPages: 1000)
    let shard = try await rig.open()
    var ledger = Ledger()
    await ledger.write(4, to: shard)
    #expect(ledger.acknowledged.count == 4)
    rig.disk.set(SimulatedDisk.Fault(kind: .sync, count: 1))
    await ledger.write(6, to: shard)
    #expect(ledger.acknowledged.count == 4)
    await #expect(throws: StoreError.self) { try await shard.read { try $0.counts() } }
    await shard.close()
    rig.disk.set(nil)
    try await rig.run(&ledger, count: 4, powerCut: true)
    #expect(ledger.acknowledged.count == 8)
    #expect(try await rig.problems(of: ledger) == [])
  }
}
