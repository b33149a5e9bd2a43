import JSON
import Synchronization
import Testing
import WebServices

@testable import Console

private let now: Int64 = 1_800_000_000_000

private func json(_ text: String) throws -> JSONValue { try JSONValue(parsing: Array(text.utf8)) }

struct VerdictViewTests {
  @Test func `an installation without trouble is well in one line`() throws {
    let verdict = try json(#"{"isWell":true,"summary":"2 processes","findings":[],"notes":[]}"#)
    #expect(ClusterViews.verdict(verdict) == "All is well: 2 processes.")
    let noted = try json(#"{"summary":"2 processes","findings":[],"notes":["2 objects are held back","a"]}"#)
    #expect(ClusterViews.verdict(noted) == "All is well: 2 processes. 2 objects are held back; a.")
  }

  @Test func `the first line says what is wrong and what to do, further ones say what else is`() throws {
    let verdict = try json(
      #"{"findings":[{"what":"a is","remedy":"Do b."},{"what":"c is","remedy":"Do d."}],"notes":["e is"]}"#)
    #expect(
      ClusterViews.verdict(verdict) == """
        NOT WELL: a is. Do b.
        also: c is. Do d.
        also: e is.
        """)
  }
}

struct ViewTests {
  @Test func `problems come first and have a mark`() throws {
    let answer = try json(
      """
      {"workers":[{"name":"worker-1","ready":true,"silent":false,"shards":[0,1],"opening":0,"problems":[]},
      {"name":"worker-2","ready":true,"silent":true}]}
      """)
    let text = ClusterViews.workers(answer, now: now)
    let lines = text.split(separator: "\n").map(String.init)
    #expect(lines.count == 3)
    #expect(lines[1].hasPrefix("!  worker-2  SILENT"))
    #expect(lines[2].hasPrefix("   worker-1  ready "))
    let positions = zip(["STATE", "SILENT", "ready "], lines).map { word, line in
      line.firstRange(of: word).map { line.distance(from: line.startIndex, to: $0.lowerBound) }
    }
    #expect(positions[0] != nil && Set(positions).count == 1, "columns are aligned:\n\(text)")
  }

  @Test func `shards are a line for each worker, those of nobody first, and a line each with size and load`() throws {
    let answer = try json(
      #"""
      {"shards":[{"shard":0,"worker":"w","records":7,"bytes":1250000,"savesPerSecond":0,"readsPerSecond":2.25},
      {"shard":1,"worker":"w"},{"shard":2,"worker":null},{"shard":3,"worker":"w","records":0,"bytes":0}]}
      """#
    )
    #expect(
      ClusterViews.shards(answer) == """
           WORKER  COUNT  SHARDS
        !  NONE        1  2
           w           3  0-1,3

        SHARD  WORKER  RECORDS  SIZE     SAVES/S  READS/S
            0  w             7  1.25 MB        0     2.25
            1  w             -  -              -        -
            2  -             -  -              -        -
            3  w             0  0 B            -        -
        """)
  }

  @Test func `accepted shards are shown until a worker has opened them, with the command that tells more`() throws {
    let answer = try json(
      #"{"shards":[{"shard":0,"worker":"w","accepted":true},{"shard":1,"worker":"w"},{"shard":2,"accepted":true}]}"#)
    #expect(
      ClusterViews.shards(answer).contains(
        """
           SHARD  ACCEPTED AS FOUND, UNTIL
        !      2  a worker has it: `aquifer workers`
               0  its worker opens it: `aquifer status`
        """), "\(ClusterViews.shards(answer))")
  }

  @Test func `a plan shows each cluster before and after, then the moves, and shards that wait are marked`() throws {
    let plan = try json(
      #"""
      {"moves":[{"shard":3,"from":"main","to":"west","bytes":5000,"waits":true}],"movedBytes":5000,"clusters":[
      {"cluster":"main","shards":2,"bytes":9000,"load":8.5,"shardsAfter":1,"bytesAfter":4000,"loadAfter":4},
      {"cluster":"west","shards":0,"bytes":0,"load":0,"shardsAfter":1,"bytesAfter":5000,"loadAfter":4.5}]}
      """#)
    #expect(
      ClusterViews.balance(plan) == """
        CLUSTER  SHARDS  SIZE     LOAD  THEN  SIZE     LOAD
        main          2  9.00 kB   8.5     1  4.00 kB     4
        west          0  0 B         0     1  5.00 kB   4.5

        SHARD  FROM  TO    SIZE
            3  main  west  5.00 kB

        5.00 kB to copy.
        """)
    #expect(ClusterViews.balance(try json(#"{"moves":[],"clusters":[]}"#)).hasSuffix("as even as moves can make them."))
    let shards = try json(
      #"{"shards":[{"shard":2,"worker":"w","movesTo":"b","movedRows":9},{"shard":5,"worker":"w","waitsFor":"b"}]}"#)
    #expect(
      ClusterViews.shards(shards).contains(
        """
        MOVES  FROM  TO  ROWS  PROBLEM
            2  main  b      9
            5  main  b         waits
        """))
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

  @Test func `explain shows where an object stands, and its way with times`() throws {
    let text = StoreViews.explanation(
      try json(
        #"""
        {"explain":[{"store":"P","device":"phone","syncState":"clean","recordChangeTag":"7","lastError":null,\#
        "reasons":[{"code":"exported","text":"The record is up to date."}]}],
        "way":[{"step":"saved","at":1800000000000,"store":"P","device":"phone","properties":["a","b"]},
        {"step":"awaited","store":"T","recordChangeTag":"7","reason":"the device did not listen"}],
        "silent":["worker-2"]}
        """#))
    let lines = text.split(separator: "\n").map(String.init)
    #expect(lines.contains { $0.contains("phone") && $0.contains("clean") && $0.contains("The record is up to date.") })
    #expect(lines.contains { $0.contains("2027-01-15T08:00:00") && $0.contains("saved") && $0.hasSuffix("a b") })
    #expect(lines.contains { $0.hasPrefix("!") && $0.contains("not yet") && $0.contains("the device did not listen") })
    #expect(text.contains("worker-2 did not answer"))
  }
}
