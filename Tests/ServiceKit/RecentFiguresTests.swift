import Foundation
import JSON
import ServiceBus
import Synchronization
import Testing

@testable import ServiceKit

/// Figures that a test sets.
private final class Source: Sendable {
  private let figures = Mutex<[Figure]>([])
  func set(_ figures: Figure...) { self.figures.withLock { $0 = figures } }
  var read: RecentFigures.Source { { [self] in figures.withLock { $0 } } }
}

private func histogram(_ values: [Double], bounds: [Double] = Histogram.latencyBounds) -> Metrics.Buckets {
  let histogram = Histogram(bounds: bounds)
  for value in values { histogram.observe(value) }
  return histogram.buckets
}

private func values(_ recent: RecentFigures) throws -> [String: Double] {
  let answer = try JSONValue(parsing: recent.answer(FetchFigures()))
  #expect(answer["version"]?.string == Release.version)
  return Dictionary(uniqueKeysWithValues: (answer["values"]?.members ?? []).map { ($0.key, $0.value.double ?? .nan) })
}

@Suite struct `Figures of the last hour` {
  @Test func `values are shown as they are, totals as rates, and times as quantiles of the new ones`() async throws {
    let (recent, source) = (RecentFigures(), Source())
    recent.add(source.read)
    source.set(.value("queue", 3), .total("commits", 100), .times("commit", histogram([9, 9])))
    await recent.sample(at: 1000)
    #expect(try values(recent) == ["queue": 3])
    source.set(
      .value("queue", 5), .total("commits", 130),
      .times("commit", histogram([9, 9] + Array(repeating: 0.0008, count: 50))),
      .mean("group", histogram([], bounds: [1, 10])))
    await recent.sample(at: 3000)
    let shown = try values(recent)
    #expect(shown["queue"] == 5 && shown["commits_per_second"] == 15)
    // All new times lie between half a millisecond and one.
    #expect(try (0.5...1).contains(#require(shown["commit_p50_ms"])) && shown["commit_p99_ms"] ?? 9 <= 1)
    #expect(shown["group"] == nil)
    source.set(.mean("group", histogram([2, 4], bounds: [1, 10])), .total("commits", 7))
    await recent.sample(at: 4000)
    // A total that fell is of a new process or shard, and has no rate; a value that is not read any more is gone.
    #expect(try values(recent) == ["group": 3])
  }

  @Test func `quantiles are those of a sorted list, as far as the ranges tell`() throws {
    var generator = SystemRandomNumberGenerator()
    for _ in 0..<50 {
      let times = (0..<Int.random(in: 1...400, using: &generator)).map { _ in
        Double.random(in: 0.0001...9, using: &generator)
      }
      let sorted = times.sorted()
      for part in [0.5, 0.99] {
        let exact = sorted[Int((part * Double(sorted.count)).rounded(.up)) - 1]
        let upper = try #require(Histogram.latencyBounds.first { exact <= $0 })
        let lower = Histogram.latencyBounds.last { $0 < exact } ?? 0
        let told = try #require(histogram(times).quantile(part))
        #expect(told >= lower - 1e-9 && told <= upper + 1e-9, "\(part) of \(times.count): \(told) for \(exact)")
      }
    }
    #expect(histogram([]).quantile(0.5) == nil)
  }

  @Test func `the history has means of whole steps, and gaps where nothing was sampled`() async throws {
    let (recent, source) = (RecentFigures(), Source())
    recent.add(source.read)
    var expected: [[Double]] = Array(repeating: [], count: 6)
    for second in 0..<60 where !(20..<30).contains(second) {
      let value = Double(second * second)
      source.set(.value("a", value), .value("b", 1))
      await recent.sample(at: 1_000_000 + Int64(second) * 1000)
      expected[second / 10].append(value)
    }
    let span = FetchFigures.Span(start: 1_000_000, step: 10_000, count: 6)
    let answer = try JSONValue(parsing: recent.answer(FetchFigures(span: span, names: ["a"])))
    #expect(answer["series"]?.members.map(\.key) == ["a"])
    let means = answer["series"]?["a"]?.elements ?? []
    #expect(means.count == 6 && means[2].isNull)
    for (mean, values) in zip(means, expected) where !values.isEmpty {
      let exact = values.reduce(0, +) / Double(values.count)
      #expect(abs((mean.double ?? .nan) - exact) <= exact / 1000 + 0.001)
    }
    // A span that begins earlier, or later, has gaps there.
    let earlier = FetchFigures.Span(start: 900_000, step: 100_000, count: 3)
    let shifted = try JSONValue(parsing: recent.answer(FetchFigures(span: earlier)))["series"]?["b"]?.elements ?? []
    #expect(shifted.map(\.int64) == [nil, 1, nil])
  }

  @Test func `an hour is kept, and no more names than there is room for`() async throws {
    let (recent, source) = (RecentFigures(), Source())
    recent.add(source.read)
    for second in 0..<(RecentFigures.sampleLimit + 10) {
      source.set(.value("a", Double(second)))
      await recent.sample(at: Int64(second) * 1000)
    }
    let span = FetchFigures.Span(start: 0, step: 1000, count: 11)
    let values = try JSONValue(parsing: recent.answer(FetchFigures(span: span)))["series"]?["a"]?.elements ?? []
    #expect(values.prefix(10).allSatisfy(\.isNull) && values[10].int64 == 10)
    recent.add { (0..<1000).map { .value("name \($0)", 1) } }
    await recent.sample(at: 10_000_000)
    #expect(try JSONValue(parsing: recent.answer(FetchFigures()))["values"]?.count == RecentFigures.nameLimit)
  }
}

@Suite struct `Log lines in memory` {
  private func ask(
    _ recent: RecentLog, request: String? = nil, level: String = "debug", isSlow: Bool = false, after: Int64 = 0,
    limit: Int = 100
  ) throws -> [JSONValue] {
    let question = FetchLog(request: request, level: level, isSlow: isSlow, after: after, limit: limit)
    return try JSONValue(parsing: recent.answer(question))["lines"]?.elements ?? []
  }

  @Test func `lines are found by request, level, slowness and time, the latest first to stay`() throws {
    let recent = RecentLog()
    let clock = CountingClock()
    let written = Mutex(0)
    let log = Log { _, _, _ in written.withLock { $0 += 1 } }.keeping(in: recent, service: "gateway-1", clock: clock)
    RequestTrace.$id.withValue("R1") {
      log.warning("request was slow", ["seconds": 3.5, "route": "<script>"])
      log.info("told")
    }
    log.error("failed", ["count": 2])
    #expect(written.withLock { $0 } == 3)
    #expect(try ask(recent).map { $0["at"]?.int64 } == [1, 2, 3])
    #expect(try ask(recent, request: "R1").map { $0["event"]?.string } == ["request was slow", "told"])
    #expect(try ask(recent, level: "warning").map { $0["level"]?.string } == ["warning", "error"])
    let slow = try #require(try ask(recent, isSlow: true).first)
    #expect(slow["request"]?.string == "R1" && slow["facts"]?["route"]?.string == "<script>")
    #expect(slow["facts"]?["seconds"]?.double == 3.5 && slow["facts"]?["request"] == nil)
    #expect(try ask(recent, after: 1, limit: 1).map { $0["event"]?.string } == ["failed"])
  }

  @Test func `the oldest lines go beyond the limits of lines and of bytes`() throws {
    let recent = RecentLog()
    let log = Log { _, _, _ in }.keeping(in: recent, service: "worker-1", clock: CountingClock())
    for _ in 0..<(RecentLog.lineLimit + 5) { log.info("line") }
    #expect(try ask(recent, limit: .max).count == RecentLog.lineLimit)
    #expect(try ask(recent, limit: .max).first?["at"]?.int64 == 6)
    let long = String(repeating: "x", count: RecentLog.byteLimit / 4)
    for _ in 0..<8 { log.info("long", ["text": .text(long)]) }
    #expect(try ask(recent, limit: .max).count == 3)
  }
}

/// One millisecond later with each look.
private final class CountingClock: WallClock {
  private let time = Atomic<Int64>(0)
  var now: Int64 { time.add(1, ordering: .relaxed).newValue }
}
