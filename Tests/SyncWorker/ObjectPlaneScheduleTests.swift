// Decisions of the object plane that need no store: the exports to drain, and the content of tokens and events.

import Mirroring
@testable import ObjectPlane
import RecordStore
import Records
import Testing

private typealias Drain = ExportSchedule.Drain

extension ExportSchedule {
  fileprivate mutating func drains(after signal: ExportSignal) -> [Drain] { drains(after: signal, at: 0, jitter: 0) }
}

@Test func `a store is drained once at a time, and again when more came meanwhile`() {
  var schedule = ExportSchedule()
  #expect(schedule.drains(after: .backlog(mirrorKey: 1)) == [Drain(mirrorKey: 1)])
  #expect(schedule.drains(after: .backlog(mirrorKey: 1)) == [])
  #expect(schedule.drains(after: .backlog(mirrorKey: 2)) == [Drain(mirrorKey: 2)])
  #expect(schedule.drains(after: .finished(mirrorKey: 1, moreComing: true, running: nil, retryAt: nil)) == [])
  #expect(schedule.drains(after: .drained(mirrorKey: 1, retryAt: nil)) == [Drain(mirrorKey: 1)])
  #expect(schedule.drains(after: .drained(mirrorKey: 1, retryAt: nil)) == [])
  #expect(schedule.drains(after: .finished(mirrorKey: 1, moreComing: false, running: nil, retryAt: nil)) == [])
}

@Test func `a batch that left more is continued with its event`() {
  var schedule = ExportSchedule()
  let running = ExportProgress(event: StoredEvent(number: 5, identifier: "e", kind: .export, startedAt: 1))
  let drains = schedule.drains(after: .finished(mirrorKey: 1, moreComing: true, running: running, retryAt: nil))
  #expect(drains == [Drain(mirrorKey: 1, running: running)])
}

@Test func `T-E11 a store that failed is left alone until its time, is tried once then, and goes on with its event`() {
  var schedule = ExportSchedule()
  let running = ExportProgress(event: StoredEvent(number: 5, identifier: "e", kind: .export, startedAt: 1))
  _ = schedule.drains(after: .backlog(mirrorKey: 1), at: 1000, jitter: 0)
  let failure = ExportSignal.failed(mirrorKey: 1, .transient(retryAfter: 30), running: running, isDrain: true)
  #expect(schedule.drains(after: failure, at: 1000, jitter: 0) == [])
  #expect(schedule.wakeAt == 31_000 && schedule.throttled == [1: 31_000])
  let changes = [schedule.takeThrottlesChange(), schedule.takeThrottlesChange()]
  #expect(changes == [true, false])
  for signal in [
    ExportSignal.backlog(mirrorKey: 1), .finished(mirrorKey: 1, moreComing: true, running: nil, retryAt: nil), .tick,
  ] {
    #expect(schedule.drains(after: signal, at: 30_999, jitter: 0) == [], "nobody tries before")
  }
  #expect(schedule.drains(after: .backlog(mirrorKey: 2), at: 5000, jitter: 0) == [Drain(mirrorKey: 2)], "others go on")
  #expect(schedule.drains(after: .tick, at: 31_000, jitter: 0) == [Drain(mirrorKey: 1, running: running)])
  #expect(schedule.drains(after: .tick, at: 31_001, jitter: 0) == [])
  let changed = schedule.takeThrottlesChange()
  #expect(schedule.throttled.isEmpty && changed)
  #expect(schedule.drains(after: .drained(mirrorKey: 1, retryAt: nil), at: 31_002, jitter: 0) == [])
  #expect(schedule.wakeAt == nil)
}

@Test func `somebody else's failure throttles a store, too, and a drain under way ends before the next begins`() {
  var schedule = ExportSchedule()
  #expect(
    schedule.drains(
      after: .failed(mirrorKey: 1, .transient(retryAfter: nil), running: nil, isDrain: false), at: 0, jitter: 50) == [])
  #expect(schedule.throttled == [1: 1050])
  #expect(schedule.drains(after: .tick, at: 1050, jitter: 0) == [Drain(mirrorKey: 1)])
  #expect(
    schedule.drains(after: .failed(mirrorKey: 1, .poisoned, running: nil, isDrain: false), at: 1060, jitter: 0) == [])
  #expect(
    schedule.drains(after: .failed(mirrorKey: 1, .gone, running: nil, isDrain: true), at: 1070, jitter: 0) == [
      Drain(mirrorKey: 1)
    ])
  // A failure that even a drain can't take apart is retried after ever longer delays.
  var delays: [Int64] = []
  var now: Int64 = 2000
  for _ in 0..<12 {
    _ = schedule.drains(after: .failed(mirrorKey: 1, .poisoned, running: nil, isDrain: true), at: now, jitter: 0)
    delays.append((schedule.wakeAt ?? 0) - now)
    now = schedule.wakeAt ?? 0
    #expect(schedule.drains(after: .tick, at: now, jitter: 0) == [Drain(mirrorKey: 1)])
  }
  #expect(delays == [2000, 4000, 8000, 16_000, 32_000, 64_000, 128_000, 256_000, 300_000, 300_000, 300_000, 300_000])
}

@Test func `a shard runs a few drains at once, and the others in their order`() {
  var schedule = ExportSchedule()
  let begun = (1...40).flatMap { schedule.drains(after: .backlog(mirrorKey: $0)) }
  #expect(begun.map(\.mirrorKey) == Array(1...16))
  #expect(schedule.drains(after: .backlog(mirrorKey: 40)) == [], "is waiting already")
  #expect(schedule.drains(after: .drained(mirrorKey: 3, retryAt: nil)) == [Drain(mirrorKey: 17)])
  var ended: [Int64] = []
  var running = begun.map(\.mirrorKey).filter { $0 != 3 } + [17]
  while !running.isEmpty {
    let key = running.removeFirst()
    ended.append(key)
    running += schedule.drains(after: .drained(mirrorKey: key, retryAt: nil)).map(\.mirrorKey)
    #expect(running.count <= ExportSchedule.drainLimit)
  }
  #expect(ended.sorted() == (1...40).filter { $0 != 3 })
}

@Test func `a held-back change wakes its shard when it is due`() {
  var schedule = ExportSchedule()
  _ = schedule.drains(after: .finished(mirrorKey: 1, moreComing: false, running: nil, retryAt: 500))
  _ = schedule.drains(after: .retryDue(at: 900))
  _ = schedule.drains(after: .drained(mirrorKey: 2, retryAt: StoredQuarantine.never))
  #expect(schedule.wakeAt == 500)
  let isDue = [499, 500, 501].map { schedule.takeRetryIsDue(at: $0) }
  #expect(isDue == [false, true, false])
  #expect(schedule.wakeAt == nil)
}

@Test func `an import position survives its token, and refuses another database's`() throws {
  let id = DatabaseID(container: ObjectPlaneWorld.container, environment: .development, owner: "_alice")
  let database = StoredDatabase(key: 1, id: id, incarnation: 77, sequence: 100)
  var position = ImportPosition()
  position.sequence = 60
  position.firstUnseen = 40
  position.zones = [ImportPosition.hash(of: "a"): 5, ImportPosition.hash(of: "b"): 6]
  let token = position.token(of: database)
  #expect(try ImportPosition(try SyncToken(token.text, as: .importBatch), of: database) == position)
  #expect(throws: RecordError.self) {
    try ImportPosition(token, of: StoredDatabase(key: 1, id: id, incarnation: 78, sequence: 100))
  }
  #expect(throws: RecordError.self) {
    try ImportPosition(token, of: StoredDatabase(key: 1, id: id, incarnation: 77, sequence: 59))
  }
  for positions in [
    [], [SyncToken.Position(incarnation: 77, sequence: 1)],
    [.init(incarnation: 77, sequence: 1), .init(incarnation: 77, sequence: 3)],
  ]
    as [[SyncToken.Position]]
  {
    #expect(throws: RecordError.self) { try ImportPosition(SyncToken(.importBatch, positions), of: database) }
  }
  position.zones = Dictionary(uniqueKeysWithValues: (0..<1000).map { (Int64($0), 1) })
  #expect(position.token(of: database).text.utf8.count < 1000, "a token has to fit into a URL")
}

@Test func `the journal makes one event of a run of pages`() async {
  let journal = ImportJournal()
  let store = HeldMirror(mirror: MirrorID(shard: 0, key: 1), epoch: 1)
  func note(_ saved: Int, after start: Int64, to end: Int64, moreComing: Bool, at now: Int64) async -> StoredEvent? {
    await journal.note(
      ImportedPage(savedCount: saved, moreComing: moreComing, sequence: end), after: start, of: store, at: now,
      identifier: "i\(now)")
  }
  #expect(await note(0, after: 0, to: 0, moreComing: false, at: 1) == nil)
  let start = await note(5, after: 0, to: 5, moreComing: true, at: 2)
  #expect(start?.identifier == "i2" && start?.endedAt == nil && start?.number == 0)
  await journal.stored(9, of: store)
  #expect(
    await note(5, after: 0, to: 5, moreComing: true, at: 3) == nil, "the page that is asked for twice counts once")
  #expect(await note(5, after: 5, to: 10, moreComing: true, at: 3) == nil)
  let end = await note(0, after: 10, to: 12, moreComing: false, at: 4)
  #expect(
    end
      == StoredEvent(
        number: 9, identifier: "i2", kind: .import, startedAt: 2, endedAt: 4, succeeded: true, savedCount: 10))
  #expect(await journal.position(of: store) == 12)
  #expect(await note(5, after: 5, to: 12, moreComing: false, at: 5) == nil, "T-V03")
  #expect(
    await note(5, after: 5, to: 12, moreComing: false, at: 100_000)?.identifier == "i100000",
    "much later it is another import")
  #expect(
    await journal.position(of: HeldMirror(mirror: MirrorID(shard: 1, key: 1), epoch: 1)) == nil,
    "another shard's store of the same key is another one")
  #expect(await journal.confirm(12, of: store, stored: 0))
  #expect(await journal.confirm(12, of: store, stored: 0) == false)
  #expect(await journal.confirmed(of: store) == 12)
  await journal.forget(store)
  #expect(await journal.position(of: store) == nil)
}
