// Keeps import events: one for a run of pages, however many calls it takes, and none for polls that bring nothing.

package import Mirroring
package import RecordStore
import Records
import WebServices

/// The results of one page.
package struct ImportedPage: Sendable {
  package var savedCount = 0
  package var deletedCount = 0
  package var problems: [MirroringProblem] = []
  package var moreComing = false
  /// The position in the page's token.
  package var sequence: Int64 = 0
  /// The sequence of the last end of a zone that the page tells.
  var lastEnd: Int64 = 0
  /// Zones for which the store begins to wait.
  var holds: [StoredZoneHold] = []
  /// Records that are left out, and those that no longer are.
  var leftOut: [StoredUnimported] = []
  var settled: [RecordPlace] = []
  /// With this page the store has everything for the first time.
  package var completesFirstImport = false
  /// The client had not had everything before.
  package var isFirstRun = false
  /// The presented token covers everything that there was at the last reset.
  package var completesReset = false

  package init(savedCount: Int = 0, moreComing: Bool = false, sequence: Int64 = 0) {
    self.savedCount = savedCount
    self.moreComing = moreComing
    self.sequence = sequence
  }

  /// The first import has an event even if it delivers nothing (T-I01).
  var endsFirstRun: Bool { completesFirstImport && isFirstRun }
  var isEmpty: Bool { savedCount + deletedCount == 0 && problems.isEmpty }
  /// The page leaves out rows that its token passes, so they are lost unless they are noted.
  var mustBeNoted: Bool { !holds.isEmpty || !leftOut.isEmpty }
  /// The page changes stored state besides its event.
  var isNoteworthy: Bool {
    completesFirstImport || completesReset || !holds.isEmpty || !leftOut.isEmpty || !settled.isEmpty
  }
}

/// The import positions of a store, as far as the server can tell.
package struct Delivery: Hashable, Sendable {
  let confirmed: Int64
  let sent: Int64
  /// Milliseconds since 1970.
  let sentAt: Int64

  /// The sequence that an edit knew of: an edit made before a page was sent did not know that page. A client that
  /// needs it exactly sends its import token.
  /// - Parameters:
  ///   - time: of the edit, in milliseconds since 1970.
  ///   - start: when the store was set up; an earlier `time` is a wrong clock's and counts as made after the page.
  package func position(at time: Int64, storeSetUpAt start: Int64) -> Int64 {
    time >= sentAt || time < start ? max(sent, confirmed) : confirmed
  }
}

/// A store for as long as this worker holds its shard: when the shard is opened again, earlier runs have been ended.
package struct HeldMirror: Hashable, Sendable {
  let mirror: MirrorID
  /// The epoch of the shard.
  let epoch: Int64
}

/// Remembers which stores are importing and how far each has come, while this worker holds their shards.
package actor ImportJournal {
  fileprivate struct Run {
    var event: StoredEvent
    var problems: [MirroringProblem] = []
    /// The end of its last page; a page that ends no further was counted before.
    var reached: Int64
    /// The last end of a zone that its pages told: further ones come before the run gets on.
    var lastEnd: Int64 = 0
  }

  private struct Progress {
    /// The position of the token that the client presented last: its store has everything up to there.
    var confirmed: Int64
    /// The end of the last page that was sent, and when it was sent (milliseconds since 1970).
    var sent: Int64
    var sentAt: Int64 = .min
    /// The start and end positions of the last run, the last end of a zone that it told, and the time of its last page
    /// in milliseconds since 1970.
    var lastRun: (start: Int64, end: Int64, lastEnd: Int64, at: Int64)?
  }

  private var runs: [HeldMirror: Run] = [:]
  private var progress: [HeldMirror: Progress] = [:]
  /// Stores remembered at once; only figures of events and of `status` depend on it.
  private static let limit = 100_000
  private static let problemLimit = 1000
  /// Milliseconds in which a repeated page of the last run begins no other run (T-V03): its client crashed, or sent two
  /// requests at once.
  private static let repetitionTime: Int64 = 60_000

  /// Notes that a store asks for the changes after `position` and so has everything up to there.
  /// - Parameter stored: the stored position, for a store that this worker has not heard of.
  /// - Returns: whether `position` is further than the known one.
  package func confirm(_ position: Int64, of mirror: HeldMirror, stored: Int64) -> Bool {
    guard var known = progress[mirror] else {
      if progress.count >= Self.limit { progress = [:] }
      progress[mirror] = Progress(confirmed: max(position, stored), sent: position)
      return position > stored
    }
    let isNews = position > known.confirmed
    // Two requests of a client may overtake one another.
    known.confirmed = max(known.confirmed, position)
    progress[mirror] = known
    return isNews
  }

  /// - Parameter start: the position that the page goes on after.
  /// - Returns: the event to store for this page, if any; its `number` is 0 when it is new.
  package func note(_ page: ImportedPage, after start: Int64, of mirror: HeldMirror, at now: Int64, identifier: String)
    -> StoredEvent?
  {
    let repeats =
      progress[mirror]?.lastRun.map { last in
        start >= last.start && page.sequence <= last.end && page.lastEnd <= last.lastEnd
          && now - last.at < Self.repetitionTime
      } ?? false
    progress[mirror, default: Progress(confirmed: start, sent: start)].sent = page.sequence
    progress[mirror]?.sentAt = now
    guard !page.isEmpty || runs[mirror] != nil || page.endsFirstRun else { return nil }
    let isNew = runs[mirror] == nil
    if isNew && repeats { return nil }
    var run =
      runs[mirror]
      ?? Run(event: StoredEvent(identifier: identifier, kind: .import, startedAt: now, succeeded: true), reached: start)
    if isNew { progress[mirror]?.lastRun = (start, start, 0, now) }
    if page.sequence > run.reached || page.lastEnd > run.lastEnd || isNew {
      run.count(page, problemLimit: Self.problemLimit)
    }
    run.reached = max(run.reached, page.sequence)
    run.lastEnd = max(run.lastEnd, page.lastEnd)
    progress[mirror]?.lastRun?.end = run.reached
    progress[mirror]?.lastRun?.lastEnd = run.lastEnd
    progress[mirror]?.lastRun?.at = now
    if page.moreComing {
      if runs.count >= Self.limit { runs = [:] }
      runs[mirror] = run
      return isNew ? run.event : nil
    }
    runs[mirror] = nil
    run.event.endedAt = now
    return run.event
  }

  /// The number the start of a run's event was stored under.
  package func stored(_ number: Int64, of mirror: HeldMirror) { runs[mirror]?.event.number = number }

  /// The positions of a store; nil when they are unknown.
  package func delivery(to mirror: HeldMirror) -> Delivery? {
    progress[mirror].map { Delivery(confirmed: $0.confirmed, sent: $0.sent, sentAt: $0.sentAt) }
  }

  /// The end of the store's last page; nil when it is unknown.
  func position(of mirror: HeldMirror) -> Int64? { progress[mirror]?.sent }

  /// The position that the store has confirmed; nil when it is unknown.
  func confirmed(of mirror: HeldMirror) -> Int64? { progress[mirror]?.confirmed }

  package func forget(_ mirror: HeldMirror) {
    runs[mirror] = nil
    progress[mirror] = nil
  }
}

extension ImportJournal.Run {
  fileprivate mutating func count(_ page: ImportedPage, problemLimit: Int) {
    event.savedCount += page.savedCount
    event.deletedCount += page.deletedCount
    problems += page.problems.prefix(problemLimit - problems.count)
    if problems.isEmpty { return }
    event.succeeded = false
    event.errorJSON = MirrorErrors.partialFailure(problems)
  }
}
