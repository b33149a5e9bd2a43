import JSON
import Synchronization
import Testing

@testable import Console

private let now: Int64 = 1_800_000_000_000

private func json(_ text: String) throws -> JSONValue { try JSONValue(parsing: Array(text.utf8)) }

/// The answer to `status` of two workers, with replaceable parts.
private func status(
  members: String =
    #"{"name":"gateway","role":"gateway","ready":true},{"name":"notifier","role":"notifier","ready":true}"#,
  held: Int = 4,
  first: String = "", second: String = #""silent":false,"shards":[2,3],"opening":0,"problems":[]"#
) throws -> JSONValue {
  try json(
    """
    {"members":[\(members),{"name":"share","role":"share","ready":true},{"name":"worker-1","role":"worker",\
    "ready":true}],
    "shards":{"count":4,"held":\(held)},"mapVersion":3,
    "workers":[{"name":"worker-1","ready":true,"silent":false,"shards":[0,1],"opening":0,"databases":1,"records":12,\
    "problems":[]\(first)},
    {"name":"worker-2","ready":true,\(second)}]}
    """)
}

struct VerdictTests {
  @Test func `an installation without trouble is well in one line`() throws {
    let verdict = Verdict(try status(), now: now)
    #expect(verdict.isWell)
    #expect(verdict.text == "All is well: 4 processes, 4 of 4 shards held by 2 workers.")
  }

  @Test func `held-back objects are noted and no trouble`() throws {
    let verdict = Verdict(try status(first: #","quarantined":2"#), now: now)
    #expect(verdict.isWell)
    #expect(verdict.text.hasSuffix("2 objects are held back (`aquifer quarantine list`)."))
  }

  @Test func `the first line says what is wrong and what to do, a further one says what else is`() throws {
    let text = Verdict(try status(held: 2, second: #""silent":true"#), now: now).text
    let lines = text.split(separator: "\n")
    #expect(lines.count == 2)
    #expect(lines[0].hasPrefix("NOT WELL: worker-2 does not answer. If it does not answer soon, end that process"))
    #expect(lines[1].hasPrefix("also: 2 shards have no worker. "))
  }

  @Test func `shards that only a newer worker may have say which`() throws {
    let answer = try json(
      """
      {"members":[{"name":"gateway","role":"gateway","ready":true},{"name":"notifier","role":"notifier","ready":true}],
      "shards":{"count":3,"held":2,"neededFormat":21},"workers":[{"name":"worker-1","ready":true,"silent":false}]}
      """)
    #expect(
      Verdict(answer, now: now).text.contains(
        "1 shard has no worker. Wait for a worker of a release that knows the stored format 21"))
  }

  @Test func `shards that the same worker holds are one finding, which names it`() throws {
    let problem = "is held by another worker: process 4711"
    let second = #""silent":false,"problems":[{"shard":2,"problem":"\#(problem)"},{"shard":3,"problem":"\#(problem)"}]"#
    #expect(
      Verdict(try status(second: second), now: now).text
        == """
        NOT WELL: shards 2-3 of worker-2: \(problem). If that worker no longer answers, end it (kill -9): the shards \
        then open at once.
        """
    )
  }

  @Test(arguments: [
    (
      #","oldestWaitingAt":1799999880000,"waitingTransactions":7"#,
      "7 saved transactions wait for their export, the oldest for 2 min"
    ),
    (#","diskFree":5000000000,"diskSize":100000000000"#, "worker-1 has 5.00 GB of disk left"),
    (#","longestQueue":2500"#, "2500 writes wait at one shard of worker-1"),
    (#","pendingPings":10000"#, "10000 pings wait at worker-1"),
    (
      #","problems":[{"shard":0,"problem":"can't be opened: damaged"}]"#,
      "shard 0 of worker-1: can't be opened: damaged"
    ),
  ])
  func `figures beyond their limits are findings`(members: String, what: String) throws {
    let answer = try json(
      """
      {"members":[{"name":"gateway","role":"gateway","ready":true},{"name":"notifier","role":"notifier","ready":true}],\
      "shards":{"count":2,"held":2},
      "workers":[{"name":"worker-1","ready":true,"silent":false\(members)}]}
      """)
    #expect(Verdict(answer, now: now).findings.map(\.what) == [what])
  }

  @Test func `an export that waits for less than a minute is the day's business`() throws {
    #expect(Verdict(try status(first: #","oldestWaitingAt":1799999941000,"waitingTransactions":7"#), now: now).isWell)
  }

  @Test func `missing and unready processes are findings`() throws {
    let text = Verdict(
      try status(members: #"{"name":"gateway","role":"gateway","ready":false,"adminURL":"http://127.0.0.1:9"}"#),
      now: now
    ).text
    #expect(text.contains("there is no notifier"))
    #expect(text.contains("gateway is not ready. `aquifer health http://127.0.0.1:9/readyz` says why"))
  }
}

struct ViewTests {
  @Test func `problems come first and have a mark`() throws {
    let text = ClusterViews.workers(try status(second: #""silent":true"#), now: now)
    let lines = text.split(separator: "\n").map(String.init)
    #expect(lines.count == 3)
    #expect(lines[1].hasPrefix("!  worker-2  SILENT"))
    #expect(lines[2].hasPrefix("   worker-1  ready "))
    let positions = zip(["STATE", "SILENT", "ready "], lines).map { word, line in
      line.firstRange(of: word).map { line.distance(from: line.startIndex, to: $0.lowerBound) }
    }
    #expect(positions[0] != nil && Set(positions).count == 1, "columns are aligned:\n\(text)")
  }

  @Test func `shards are a line for each worker, those of nobody first`() throws {
    let answer = try json(
      #"""
      {"shards":[{"shard":0,"worker":"w"},{"shard":1,"worker":"w"},{"shard":2,"worker":null},{"shard":3,"worker":"w"}]}
      """#
    )
    #expect(
      ClusterViews.shards(answer) == """
           WORKER  COUNT  SHARDS
        !  NONE        1  2
           w           3  0-1,3
        """)
  }

  @Test func `stores with most to export come first, and silent workers are named`() throws {
    let answer = try json(
      """
      {"stores":[{"user":"_a","store":"S1","transactions":5,"exported":5,"createdAt":1799999997000},
      {"user":"_b","store":"S2","transactions":9,"exported":2,"createdAt":1799000000000}],"silent":["worker-3"]}
      """)
    let lines = StoreViews.stores(answer, now: now).split(separator: "\n").map(String.init)
    #expect(lines[1].contains("S2") && lines[1].hasPrefix("!") && lines[1].hasSuffix("7  11 d ago"))
    #expect(lines[2].contains("S1") && lines[2].hasSuffix("0  3 s ago"))
    #expect(lines[3] == "! The answer is not complete: worker-3 did not answer; see `aquifer status`.")
  }

  @Test func `events are told the latest first, with what a failed one says`() throws {
    let answer = try json(
      """
      {"events":[{"type":"setup","startedAt":1799999000000,"endedAt":1799999000010,"succeeded":true,"savedCount":0,\
      "deletedCount":0},
      {"type":"export","startedAt":1799999990000,"endedAt":1799999995000,"succeeded":false,"savedCount":3,\
      "deletedCount":0,
       "error":{"reason":"2 records were left out","partialErrors":[{"reason":"no room"},{"reason":"x"}]}}],"silent":[]}
      """)
    let lines = StoreViews.events(answer, now: now).split(separator: "\n").map(String.init)
    #expect(
      lines[1].hasPrefix("!  5 s ago") && lines[1].contains("FAILED") && lines[1].contains("5.0 s")
        && lines[1].hasSuffix("no room (and 1 more)"))
    #expect(lines[2].contains("setup") && lines[2].contains("10 ms"))
  }

  @Test func `no name can break a line or speak to the terminal`() throws {
    let answer = try json(#"{"stores":[{"user":"_a\n! NOT WELL\u001b[2J","transactions":0,"exported":0}],"silent":[]}"#)
    let text = StoreViews.stores(answer, now: now)
    #expect(text.split(separator: "\n").count == 2)
    #expect(!text.contains("\u{1B}"))
  }

  @Test func `a held-back change shows its next try`() throws {
    let answer = try json(
      """
      {"quarantine":[{"entity":"Tag","objectID":"T","firstDate":"2027-01-15T07:59:00.000Z","attempts":3,\
      "retryDate":"2027-01-15T08:05:00.000Z","serverErrorCode":"QUOTA_EXCEEDED"},
      {"entity":"Tag","objectID":"U","firstDate":"2027-01-15T07:59:00.000Z","attempts":1,"retryDate":null,\
      "serverErrorCode":"ACCESS_DENIED"}],"silent":[]}
      """)
    let lines = StoreViews.quarantine(answer, now: now).split(separator: "\n").map(String.init)
    #expect(lines[1].hasPrefix("!") && lines[1].contains("U") && lines[1].contains("by hand"))
    #expect(lines[2].contains("60 s ago") && lines[2].contains("in 5 min"))
  }

  @Test(
    arguments: [
      (0, "0 B"), (999, "999 B"), (1000, "1.00 kB"), (1_254_000, "1.25 MB"), (40_140_000_000, "40.1 GB"),
      (999_400, "999 kB"), (999_600, "1.00 MB"), (9_996, "10.0 kB"),
    ] as [(Int64, String)])
  func `bytes have three digits and a unit`(count: Int64, text: String) { #expect(Units.bytes(count) == text) }

  @Test(
    arguments: [(0, "0 s"), (119, "119 s"), (120, "2 min"), (7199, "119 min"), (7200, "2 h"), (172_800, "2 d")]
      as [(Int64, String)])
  func `spans have their largest unit`(seconds: Int64, text: String) { #expect(Units.span(seconds) == text) }

  @Test func `numbers that follow one another are a range`() {
    #expect(Units.ranges([3, 0, 1, 2, 7, 9, 10]) == "0-3,7,9-10")
    #expect(Units.ranges([]).isEmpty)
  }
}

struct WatchTests {
  private final class Screen: Sendable {
    let lines = Mutex<[String]>([])
    let pauses = Mutex<[UInt32]>([])

    func run(_ words: [String], answers: [Result<HTTPSender.Answer, HTTPSender.Failure>], isScreen: Bool) async -> Int32
    {
      let left = Mutex(answers)
      var terminal = Terminal(
        output: { line in self.lines.withLock { $0.append(line) } },
        problem: { line in self.lines.withLock { $0.append(line) } }, input: { [] })
      terminal.isScreen = isScreen
      terminal.now = { now }
      terminal.pause = { seconds in
        self.pauses.withLock { $0.append(seconds) }
        return left.withLock { !$0.isEmpty }
      }
      let http = HTTPSender { _, _, _, _, _ in left.withLock { $0.removeFirst() } }
      return await Console(environment: [:], terminal: terminal, http: http).run(words)
    }

    var text: String { lines.withLock { $0.joined(separator: "\n") } }
  }

  private static let answer = HTTPSender.Answer(
    status: 200, body: Array(#"{"shards":[{"shard":0,"worker":"w"}]}"#.utf8))

  @Test func `on a screen each answer takes the place of the one before`() async {
    let screen = Screen()
    #expect(
      await screen.run(["shards", "--watch"], answers: [.success(Self.answer), .success(Self.answer)], isScreen: true)
        == 0)
    #expect(screen.text.ranges(of: "\u{1B}[H\u{1B}[2J").count == 2)
    #expect(screen.pauses.withLock(\.self) == [2, 2])
  }

  @Test func `elsewhere one block follows another, and a server that is away for a moment is asked again`() async {
    let screen = Screen()
    let answers: [Result<HTTPSender.Answer, HTTPSender.Failure>] = [
      .success(Self.answer), .failure(HTTPSender.Failure(reason: "refused")), .success(Self.answer),
    ]
    #expect(await screen.run(["shards", "--watch", "5"], answers: answers, isScreen: false) == 0)
    #expect(!screen.text.contains("\u{1B}"))
    #expect(screen.text.ranges(of: "WORKER  COUNT  SHARDS").count == 2)
    #expect(screen.text.contains("can't be reached: refused"))
    #expect(screen.pauses.withLock(\.self) == [5, 5, 5])
  }

  @Test func `with --json each answer is a line`() async {
    let screen = Screen()
    #expect(
      await screen.run(
        ["shards", "--watch=1", "--json"], answers: [.success(Self.answer), .success(Self.answer)], isScreen: true) == 0
    )
    let line = #"{"shards":[{"shard":0,"worker":"w"}]}"#
    #expect(screen.lines.withLock(\.self) == [line, line])
  }

  @Test func `a look at the installation soon shows that nobody answers`() async {
    let limits = Mutex<[Duration]>([])
    let http = HTTPSender { _, _, _, _, limit in
      limits.withLock { $0.append(limit) }
      return .failure(HTTPSender.Failure(reason: "nobody answered in time"))
    }
    let console = Console(
      environment: [:], terminal: Terminal(output: { _ in }, problem: { _ in }, input: { [] }), http: http)
    for words in [
      ["status"], ["workers"], ["shards"], ["stores"], ["events"], ["quarantine", "list"], ["container", "list"],
    ] { #expect(await console.run(words) == 1) }
    #expect(limits.withLock(\.self) == Array(repeating: .seconds(10), count: 6) + [.seconds(60)])
  }

  @Test(arguments: [["--watch=0"], ["--watch=soon"], ["--watch", "5", "6"]]) func `a watch takes seconds or nothing`(
    words: [String]
  ) async {
    #expect(await Screen().run(["status"] + words, answers: [.success(Self.answer)], isScreen: false) == 2)
  }
}
