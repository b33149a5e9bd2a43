// Import events: one for a run of pages, however many calls it takes, and none for polls that bring nothing.

import Mirroring
import RecordStore
import Records
import WebServices

/// What a page delivered.
struct ImportedPage: Sendable {
  var savedCount = 0
  var deletedCount = 0
  var problems: [MirroringProblem] = []
  var moreComing = false
  /// The position the page's token says.
  var sequence: Int64 = 0
  /// Zones with which the store begins to wait.
  var holds: [StoredZoneHold] = []
  /// Records that are left out, and those that no longer are.
  var leftOut: [StoredUnimported] = []
  var settled: [RecordPlace] = []
  /// With it the store has everything, and nobody noted that before.
  var completesFirstImport = false
  /// The client had not had everything before.
  var isFirstRun = false
  /// The token that was presented has all that there was at the last reset.
  var completesReset = false

  /// An event tells of the first import, also where everything is nothing (T-I01).
  var endsFirstRun: Bool { completesFirstImport && isFirstRun }
  var isEmpty: Bool { savedCount + deletedCount == 0 && problems.isEmpty }
  /// The page leaves out what its token passes: without a note of it nobody would come back to that.
  var mustBeNoted: Bool { !holds.isEmpty || !leftOut.isEmpty }
  /// There is something to store, whatever becomes of its event.
  var isNoteworthy: Bool { completesFirstImport || completesReset || !holds.isEmpty || !leftOut.isEmpty || !settled.isEmpty }
}

/// What a store had imported at some time, as far as the server can tell.
struct Delivery: Hashable, Sendable {
  let confirmed: Int64
  let sent: Int64
  /// Milliseconds since 1970.
  let sentAt: Int64

  /// The sequence that an edit knew of: one that was made before a page was sent was made without it. A client that wants it exactly sends its
  /// import token.
  /// - Parameter start: when the store was set up: what says that it was made before that has no clock to go by.
  func position(at time: Int64, storeSetUpAt start: Int64) -> Int64 { time >= sentAt || time < start ? max(sent, confirmed) : confirmed }
}

/// A store as long as its shard is held: when the shard comes back from another worker, or is opened anew, runs begun before have been ended.
struct HeldMirror: Hashable, Sendable {
  let mirror: MirrorID
  /// The shard's.
  let epoch: Int64
}

/// Remembers, as long as this worker holds their shards, which stores are in the middle of an import, and how far each has come.
actor ImportJournal {
  fileprivate struct Run {
    var event: StoredEvent
    var problems: [MirroringProblem] = []
    /// Where its last page ended: a page that ends no further was counted before.
    var reached: Int64
  }

  private struct Progress {
    /// What the client has in its store: the position of the token that it presented last.
    var confirmed: Int64
    /// Where the last page ended that was sent, and when that was (milliseconds since 1970).
    var sent: Int64
    var sentAt: Int64 = .min
    /// Between which positions the last run lay, and when it had its last page.
    var lastRun: (start: Int64, end: Int64, at: Int64)?
  }

  private var runs: [HeldMirror: Run] = [:]
  private var progress: [HeldMirror: Progress] = [:]
  /// More stores than this are not remembered; only figures of events and of `status` depend on it.
  private static let limit = 100_000
  private static let problemLimit = 1000
  /// A page of the last run that is asked for again this soon, by a client that crashed over it or by two of its requests at once, is no
  /// other run (T-V03). Unit: milliseconds.
  private static let repetitionTime: Int64 = 60_000

  /// A store asks for what comes after `position`: it has everything up to there.
  /// - Parameter stored: what is stored of that, for a store that this worker has not heard of.
  /// - Returns: whether that is news.
  func confirm(_ position: Int64, of mirror: HeldMirror, stored: Int64) -> Bool {
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
  func note(_ page: ImportedPage, after start: Int64, of mirror: HeldMirror, at now: Int64, identifier: String) -> StoredEvent? {
    let repeats =
      progress[mirror]?.lastRun.map { last in start >= last.start && page.sequence <= last.end && now - last.at < Self.repetitionTime } ?? false
    progress[mirror, default: Progress(confirmed: start, sent: start)].sent = page.sequence
    progress[mirror]?.sentAt = now
    guard !page.isEmpty || runs[mirror] != nil || page.endsFirstRun else { return nil }
    let isNew = runs[mirror] == nil
    if isNew && repeats { return nil }
    var run = runs[mirror] ?? Run(event: StoredEvent(identifier: identifier, kind: .import, startedAt: now, succeeded: true), reached: start)
    if isNew { progress[mirror]?.lastRun = (start, start, now) }
    if page.sequence > run.reached || isNew { run.count(page, problemLimit: Self.problemLimit) }
    run.reached = max(run.reached, page.sequence)
    progress[mirror]?.lastRun?.end = run.reached
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
  func stored(_ number: Int64, of mirror: HeldMirror) { runs[mirror]?.event.number = number }

  /// What a store was sent and has taken; nil when that is not known.
  func delivery(to mirror: HeldMirror) -> Delivery? {
    progress[mirror].map { Delivery(confirmed: $0.confirmed, sent: $0.sent, sentAt: $0.sentAt) }
  }

  /// How far the store had come with its last page; nil when that is not known.
  func position(of mirror: HeldMirror) -> Int64? { progress[mirror]?.sent }

  /// How far the store has said that it has come; nil when that is not known.
  func confirmed(of mirror: HeldMirror) -> Int64? { progress[mirror]?.confirmed }

  func forget(_ mirror: HeldMirror) {
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
