import HTTPServer
import JSON
import ServiceBus
import Synchronization
import Testing

@testable import ServiceKit

struct LogTests {
  private func line(_ facts: [(String, Log.Fact)], _ format: Log.Format) -> String {
    String(
      decoding: LogLine(
        milliseconds: 1_795_159_204_123, level: .warning, service: "worker-1", event: "shard lost", facts: facts
      ).bytes(format), as: UTF8.self)
  }

  @Test func `a JSON line has time, level, service, event and the facts`() throws {
    let text = line([("shard", 7), ("held", true), ("share", 0.5), ("peer", "a\"b\n\u{1b}")], .json)
    #expect(text.hasSuffix("}\n"))
    #expect(text.filter { $0 == "\n" }.count == 1)
    let value = try JSONValue(parsing: Array(text.utf8))
    #expect(value["ts"]?.string == "2026-11-20T07:20:04.123Z")
    #expect(value["level"]?.string == "warning")
    #expect(value["service"]?.string == "worker-1")
    #expect(value["event"]?.string == "shard lost")
    #expect(value["shard"]?.int64 == 7)
    #expect(value["held"]?.bool == true)
    #expect(value["share"]?.double == 0.5)
    #expect(value["peer"]?.string == "a\"b\n\u{1b}")
  }

  @Test func `the nearest fact of a name counts, and none replaces the line's own members`() throws {
    let text = line([("a", 1), ("ts", "x"), ("a", 2), ("number", .number(.nan))], .json)
    let value = try JSONValue(parsing: Array(text.utf8))
    #expect(value["a"]?.int64 == 2)
    #expect(value["ts"]?.string != "x")
    #expect(value["number"]?.string == "nan")
  }

  @Test func `a text line can't be broken or forged by a fact`() {
    let text = line([("peer", "a\n2026 error x"), ("b", "k=v"), ("c", ""), ("d", "plain"), ("e", "\u{1b}[31m")], .text)
    #expect(text.filter { $0 == "\n" }.count == 1)
    #expect(!text.contains("\u{1b}"))
    #expect(text.hasPrefix("07:20:04.123Z warning worker-1 shard lost peer=\"a"))
    #expect(text.contains(" b=\"k=v\" c=\"\" d=plain "))
  }

  @Test(
    arguments: [
      (0, "1970-01-01T00:00:00.000Z"), (-1, "1969-12-31T23:59:59.999Z"), (951_782_400_000, "2000-02-29T00:00:00.000Z"),
      (4_107_542_399_999, "2100-02-28T23:59:59.999Z"),
      (4_107_542_400_000, "2100-03-01T00:00:00.000Z"), (1_703_980_799_000, "2023-12-30T23:59:59.000Z"),
    ] as [(Int64, String)])
  func `timestamps`(milliseconds: Int64, text: String) {
    #expect(Timestamp.text(milliseconds) == text)
  }
}

struct LogLevelTests {
  private final class Lines: Sendable {
    let facts = Mutex<[[String]]>([])
    func log(_ level: Log.Level) -> Log {
      Log(level: level) { _, event, facts in
        self.facts.withLock { $0.append(["\(event)"] + facts.map { "\($0.0)=\($0.1)" }) }
      }
    }
  }

  @Test func `a line below the level costs nothing, not even its facts`() {
    let lines = Lines()
    let count = Counter()
    func fact() -> Log.Fact {
      count.increment()
      return 1
    }
    lines.log(.info).debug("quiet", ["a": fact()])
    lines.log(.info).with(["b": 2]).info("told", ["a": fact()])
    #expect(count.count == 1)
    #expect(lines.facts.withLock(\.self).map(\.first) == ["told"])
  }

  @Test func `a line that is written for a request says which`() async {
    let lines = Lines()
    let log = lines.log(.debug)
    await RequestTrace.$id.withValue("R-1") {
      await Task { log.info("inside") }.value
    }
    log.info("outside")
    #expect(lines.facts.withLock(\.self) == [["inside", #"request=text("R-1")"#], ["outside"]])
  }

  @Test func `beyond some lines a second the rest is counted and told with the next`() {
    let pace = LogPace(lineCount: 2)
    #expect([0, 1, 2, 999].map { pace.admit(at: $0) } == [0, 0, nil, nil])
    #expect([1000, 1001, 1500].map { pace.admit(at: $0) } == [2, 0, nil])
    #expect(pace.admit(at: 9000) == 1)
  }

  @Test(
    arguments: [
      ([("x-request-id", "A"), ("x-apple-request-uuid", "B")], "A"), ([("x-apple-request-uuid", "B")], "B"),
      ([("x-request-id", "a b"), ("x-apple-request-uuid", "B")], "B"),
      (
        [("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")], "0af7651916cd43dd8448eb211c80319c"
      ),
      ([("traceparent", "00-00000000000000000000000000000000-b7ad6b7169203331-01")], nil),
      ([("traceparent", "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")], nil),
      ([("traceparent", "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01")], nil),
      ([("traceparent", "00-0af7")], nil),
      ([("x-request-id", String(repeating: "a", count: 129))], nil), ([("x-request-id", "\u{1B}[2J")], nil), ([], nil),
    ] as [([(String, String)], String?)])
  func `a client may say what its request is called`(headers: [(String, String)], id: String?) {
    #expect(
      HTTPRequest(
        method: .get, target: "/a", pathSegments: ["a"], query: [], headers: headers.map { (name: $0.0, value: $0.1) },
        body: [], remoteAddress: ""
      ).clientTraceID == id)
  }
}

struct MetricsTests {
  @Test func `metrics that are read together are asked for once`() async {
    let metrics = Metrics()
    let reads = Counter()
    metrics.collect([
      Metrics.Description("a_total", "A.", .counter), Metrics.Description("b", "B."), Metrics.Description("c", "C."),
      Metrics.Description("d_seconds", "D.", .histogram),
    ]) {
      reads.increment()
      var readings = Metrics.Readings()
      readings["a_total"] = 3
      readings.samples["b"] = [Metrics.Sample(1, labels: [("l", "x")]), Metrics.Sample(2, labels: [("l", "y")])]
      readings.buckets["d_seconds"] = Metrics.Buckets(bounds: [1, 2], counts: [4, 0, 1], sum: 9)
      return readings
    }
    #expect(
      String(decoding: await metrics.text(), as: UTF8.self) == """
        # HELP aquifer_a_total A.
        # TYPE aquifer_a_total counter
        aquifer_a_total 3
        # HELP aquifer_b B.
        # TYPE aquifer_b gauge
        aquifer_b{l="x"} 1
        aquifer_b{l="y"} 2
        # HELP aquifer_c C.
        # TYPE aquifer_c gauge
        # HELP aquifer_d_seconds D.
        # TYPE aquifer_d_seconds histogram
        aquifer_d_seconds_bucket{le="1"} 4
        aquifer_d_seconds_bucket{le="2"} 4
        aquifer_d_seconds_bucket{le="+Inf"} 5
        aquifer_d_seconds_sum 9
        aquifer_d_seconds_count 5

        """)
    #expect(reads.count == 1)
  }

  @Test func `metrics are written in Prometheus' text form`() async {
    let metrics = Metrics()
    let pings = metrics.counter("pings_total", "Pings sent.\nReally.")
    let held = metrics.gauge("held", "Held.")
    let calls = metrics.counters("calls_total", "Calls.", labels: ["route", "code"])
    let times = metrics.histogram("wait_seconds", "Waiting.", bounds: [0.1, 1])
    metrics.collect("free_bytes", "Free.") { [Metrics.Sample(12.5, labels: [("disk", "a\"\\\n")])] }
    pings.increment()
    pings.increment(by: 2)
    held.add(5)
    held.add(-2)
    calls["b", "200"].increment()
    calls["a", "404"].increment()
    calls["b", "200"].increment()
    for value in [0.05, 0.1, 0.5, 7] { times.observe(value) }
    times.observe(.milliseconds(250))
    let text = String(decoding: await metrics.text(), as: UTF8.self)
    #expect(
      text == """
        # HELP aquifer_pings_total Pings sent.\\nReally.
        # TYPE aquifer_pings_total counter
        aquifer_pings_total 3
        # HELP aquifer_held Held.
        # TYPE aquifer_held gauge
        aquifer_held 3
        # HELP aquifer_calls_total Calls.
        # TYPE aquifer_calls_total counter
        aquifer_calls_total{route="a",code="404"} 1
        aquifer_calls_total{route="b",code="200"} 2
        # HELP aquifer_wait_seconds Waiting.
        # TYPE aquifer_wait_seconds histogram
        aquifer_wait_seconds_bucket{le="0.1"} 2
        aquifer_wait_seconds_bucket{le="1"} 4
        aquifer_wait_seconds_bucket{le="+Inf"} 5
        aquifer_wait_seconds_sum 7.9
        aquifer_wait_seconds_count 5
        # HELP aquifer_free_bytes Free.
        # TYPE aquifer_free_bytes gauge
        aquifer_free_bytes{disk="a\\"\\\\\\n"} 12.5

        """)
  }

  @Test func `nothing is lost when many count at once`() async {
    let metrics = Metrics()
    let family = metrics.counters("x_total", "X.", labels: ["l"])
    let histogram = metrics.histogram("y", "Y.", bounds: [1])
    await withTaskGroup { group in
      for worker in 0..<8 {
        group.addTask {
          for _ in 0..<1000 {
            family["\(worker % 2)"].increment()
            histogram.observe(1.0)
          }
        }
      }
    }
    #expect(family["0"].count == 4000)
    #expect(family["1"].count == 4000)
    #expect(histogram.snapshot.counts == [8000, 0])
    #expect(histogram.snapshot.sum == 8000)
  }

  @Test func `the process's own figures are there`() async {
    let metrics = Metrics()
    metrics.addProcess(role: "test", startedAt: 5000)
    let text = String(decoding: await metrics.text(), as: UTF8.self)
    #expect(text.contains("aquifer_build_info{version=\"\(Release.version)\",role=\"test\"} 1\n"))
    #expect(text.contains("process_start_time_seconds 5\n"))
    for name in ["process_resident_memory_bytes", "process_open_fds", "process_max_fds", "process_cpu_seconds_total"] {
      let line = text.split(separator: "\n").first { $0.hasPrefix(name + " ") }
      #expect(line.flatMap { Double($0.dropFirst(name.count + 1)) }.map { $0 > 0 } == true, "\(name)")
    }
  }
}
