// Decisions of the object plane that need no store: which exports are drained, what tokens and events say.

import Mirroring
import RecordStore
import Records
import Testing

@testable import SyncWorker

private typealias Drain = ExportSchedule.Drain

@Test func `a store is drained once at a time, and again when more came meanwhile`() {
  var schedule = ExportSchedule()
  #expect(schedule.drains(after: .backlog(mirrorKey: 1)) == [Drain(mirrorKey: 1)])
  #expect(schedule.drains(after: .backlog(mirrorKey: 1)) == [])
  #expect(schedule.drains(after: .backlog(mirrorKey: 2)) == [Drain(mirrorKey: 2)])
  #expect(schedule.drains(after: .finished(mirrorKey: 1, moreComing: true, running: nil)) == [])
  #expect(schedule.drains(after: .drained(mirrorKey: 1)) == [Drain(mirrorKey: 1)])
  #expect(schedule.drains(after: .drained(mirrorKey: 1)) == [])
  #expect(schedule.drains(after: .finished(mirrorKey: 1, moreComing: false, running: nil)) == [])
}

@Test func `a batch that left more is continued with its event`() {
  var schedule = ExportSchedule()
  let running = RunningExport(event: StoredEvent(number: 5, identifier: "e", kind: .export, startedAt: 1))
  #expect(schedule.drains(after: .finished(mirrorKey: 1, moreComing: true, running: running)) == [Drain(mirrorKey: 1, running: running)])
}

@Test func `a failed export is tried again after the shard's next commits, ever more rarely, and afresh once it worked`() {
  var schedule = ExportSchedule()
  var attempts: [Int] = []
  _ = schedule.drains(after: .backlog(mirrorKey: 1))
  _ = schedule.drains(after: .failed(mirrorKey: 1))
  for commit in 1...40 where !schedule.drains(after: .finished(mirrorKey: 9, moreComing: false, running: nil)).isEmpty {
    attempts.append(commit)
    _ = schedule.drains(after: .failed(mirrorKey: 1))
  }
  #expect(attempts == [1, 3, 7, 15, 31])
  _ = schedule.drains(after: .backlog(mirrorKey: 1))
  #expect(schedule.drains(after: .drained(mirrorKey: 1)) == [])
  _ = schedule.drains(after: .failed(mirrorKey: 1))
  #expect(schedule.drains(after: .finished(mirrorKey: 9, moreComing: false, running: nil)) == [Drain(mirrorKey: 1)])
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
  #expect(throws: RecordError.self) { try ImportPosition(token, of: StoredDatabase(key: 1, id: id, incarnation: 78, sequence: 100)) }
  #expect(throws: RecordError.self) { try ImportPosition(token, of: StoredDatabase(key: 1, id: id, incarnation: 77, sequence: 59)) }
  for positions in [[], [SyncToken.Position(incarnation: 77, sequence: 1)], [.init(incarnation: 77, sequence: 1), .init(incarnation: 77, sequence: 3)]]
    as [[SyncToken.Position]]
  {
    #expect(throws: RecordError.self) { try ImportPosition(SyncToken(.importBatch, positions), of: database) }
  }
  position.zones = Dictionary(uniqueKeysWithValues: (0..<1000).map { (Int64($0), 1) })
  #expect(position.token(of: database).text.utf8.count < 1000, "a token has to fit into a URL")
}

@Test func `the journal makes one event of a run of pages`() async {
  let journal = ImportJournal()
  func note(_ saved: Int, moreComing: Bool, at now: Int64) async -> StoredEvent? {
    await journal.note(ImportedPage(savedCount: saved, moreComing: moreComing, sequence: now), of: 1, at: now, identifier: "i\(now)")
  }
  #expect(await note(0, moreComing: false, at: 1) == nil)
  let start = await note(5, moreComing: true, at: 2)
  #expect(start?.identifier == "i2" && start?.endedAt == nil && start?.number == 0)
  await journal.stored(9, of: 1)
  #expect(await note(5, moreComing: true, at: 3) == nil)
  let end = await note(0, moreComing: false, at: 4)
  #expect(end == StoredEvent(number: 9, identifier: "i2", kind: .import, startedAt: 2, endedAt: 4, succeeded: true, savedCount: 10))
  #expect(await journal.position(of: 1) == 4)
  await journal.forget(1)
  #expect(await journal.position(of: 1) == nil)
}
