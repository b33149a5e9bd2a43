// The figures and log lines that each process keeps about itself, put together for operators.

import JSON
import Records
import ServiceBus
import ServiceKit
import WebServices

/// The share service's own records, which it can't ask for over the bus.
struct OwnRecords: Sendable {
  let name: String
  let figures: @Sendable (FetchFigures) -> [UInt8]
  let log: @Sendable (FetchLog) -> [UInt8]

  init(_ context: ServiceContext) {
    name = context.name
    figures = { [metrics = context.metrics] in metrics.recent.answer($0) }
    log = { [log = context.recentLog] in log.answer($0) }
  }
}

/// Asks every process at once.
struct ClusterRecords: Sendable {
  /// Shorter than a second, so that a process that hangs does not stop the others' plots.
  private static let figureDeadline = Duration.milliseconds(800)
  private static let deadline = Duration.seconds(2)
  private static let lineLimit = 1000
  /// Unit: milliseconds.
  private static let hour: Int64 = 3_600_000
  private static let standardStep: Int64 = 10_000

  let bus: any Bus
  let own: OwnRecords
  let clock: any WallClock
  let map: @Sendable () async -> ClusterMap?

  /// A process's answer; nil when it did not come in time.
  private struct Report {
    let peer: Peer
    let content: JSONValue?
  }

  /// nil for a subject without a call.
  /// - Throws: `badRequest`.
  func answer(_ subject: String, _ query: [String: String]) async throws(RecordError) -> OperatorAnswer? {
    switch subject {
    case "sample": await sample()
    case "history": try await history(query)
    case "logs": try await lines(query)
    default: nil
    }
  }

  // MARK: Figures

  private func sample() async -> OperatorAnswer {
    let question = FetchFigures()
    async let asked = gather(question, within: Self.figureDeadline, own: own.figures(question))
    let states = await shardStates()
    let reports = await asked
    let holders = await map()?.holders ?? []
    return OperatorAnswer { writer in
      writer.member("at", clock.now)
      writer.key("processes")
      writer.beginArray()
      for report in reports {
        guard let content = report.content else { continue }
        writer.beginObject()
        writer.member("name", report.peer.name)
        writer.member("role", report.peer.role.rawValue)
        writer.member("version", content["version"]?.string ?? "")
        writer.member("ready", report.peer.isReady)
        writer.key("values")
        if let values = content["values"] { writer.value(values) } else { writer.null() }
        writer.endObject()
      }
      writer.endArray()
      writer.key("shards")
      writer.beginArray()
      for (shard, holder) in holders.enumerated() {
        writer.beginObject()
        writer.member("shard", shard)
        writer.key("holder")
        if let holder { writer.string(holder) } else { writer.null() }
        if let state = states[shard], state.worker == holder { writer.member("state", state.state) }
        writer.endObject()
      }
      writer.endArray()
      Self.writeSilent(reports, to: &writer)
    }
  }

  /// The state of each shard as its holder tells it.
  private func shardStates() async -> [Int: (worker: String, state: String)] {
    var states: [Int: (worker: String, state: String)] = [:]
    let question = WorkerReport(subject: "shards")
    for report in await gather(question, within: Self.figureDeadline, role: .worker, own: nil) {
      report.content?["shards"]?.forEachElement { standing in
        guard let shard = standing["shard"]?.int64, let state = standing["state"]?.string else { return }
        states[Int(shard)] = (report.peer.name, state)
      }
    }
    return states
  }

  /// `step` in milliseconds, `process` and `values`.
  private func history(_ query: [String: String]) async throws(RecordError) -> OperatorAnswer {
    let step = try query["step"].map { text throws(RecordError) in
      guard let step = Int64(text), (1000...Self.hour).contains(step), step % 1000 == 0 else {
        throw RecordError(.badRequest, "'step' is a multiple of 1000 ms, at most an hour")
      }
      return step
    }
    let span = Self.span(before: clock.now, step: step ?? Self.standardStep)
    let names = query["values"].map { $0.split(separator: ",").map(String.init) } ?? []
    let question = FetchFigures(span: span, names: names)
    let reports = await gather(
      question, within: Self.deadline, process: query["process"], own: own.figures(question))
    return OperatorAnswer { writer in
      writer.member("start", span.start)
      writer.member("step", span.step)
      writer.key("series")
      writer.beginObject()
      for report in reports {
        report.content?["series"]?.forEachMember { key, means in
          guard let name = key.string else { return }
          writer.key("\(report.peer.name)/\(name)")
          writer.value(means)
        }
      }
      writer.endObject()
      Self.writeSilent(reports, to: &writer)
    }
  }

  /// The hour before a time, in whole steps.
  static func span(before now: Int64, step: Int64) -> FetchFigures.Span {
    let count = hour / step
    return FetchFigures.Span(start: (now / step - count + 1) * step, step: step, count: Int(count))
  }

  // MARK: Log lines

  /// `request`, `process`, `level`, `slow`, `after` and `limit`.
  private func lines(_ query: [String: String]) async throws(RecordError) -> OperatorAnswer {
    let level = query["level"] ?? "debug"
    guard ["debug", "info", "warning", "error"].contains(level) else {
      throw RecordError(.badRequest, "'level' is debug, info, warning or error")
    }
    guard let after = Int64(query["after"] ?? "0"), let limit = Int(query["limit"] ?? "\(Self.lineLimit)"), limit > 0
    else {
      throw RecordError(.badRequest, "'after' and 'limit' are whole numbers")
    }
    let count = min(limit, Self.lineLimit)
    let question = FetchLog(
      request: query["request"], level: level, isSlow: query["slow"] == "true", after: after, limit: count)
    let reports = await gather(question, within: Self.deadline, process: query["process"], own: own.log(question))
    var lines: [(at: Int64, process: String, line: JSONValue)] = []
    for report in reports {
      report.content?["lines"]?.forEachElement { line in
        lines.append((line["at"]?.int64 ?? 0, report.peer.name, line))
      }
    }
    lines.sort { $0.at < $1.at }
    return OperatorAnswer { writer in
      writer.key("lines")
      writer.beginArray()
      for (_, process, line) in lines.suffix(count) {
        writer.beginObject()
        writer.member("process", process)
        for (key, value) in line.members {
          writer.key(key)
          writer.value(value)
        }
        writer.endObject()
      }
      writer.endArray()
      Self.writeSilent(reports, to: &writer)
    }
  }

  // MARK: Questions

  /// - Parameters:
  ///   - role: only processes of this role; nil: all.
  ///   - process: only the process of this name; nil: all.
  ///   - own: the share service's own answer; nil: it has none.
  /// - Returns: ascending by name.
  private func gather<Question: Message>(
    _ question: Question, within limit: Duration, role: Role? = nil, process: String? = nil, own answer: [UInt8]?
  ) async -> [Report] where Question.Reply == Acknowledgement {
    let peers = bus.peers.filter {
      $0.name != own.name && (role ?? $0.role) == $0.role && (process ?? $0.name) == $0.name
    }
    var reports = await withTaskGroup(of: Report.self) { [bus] group in
      for peer in peers {
        group.addTask {
          // Dropped because a process that does not answer is listed as silent, whatever the reason.
          let answer = try? await bus.call(question, body: [], to: .peer(peer.name), within: limit)
          return Report(peer: peer, content: answer.flatMap { try? JSONValue(parsing: $0.body) })
        }
      }
      return await group.reduce(into: []) { $0.append($1) }
    }
    if let answer, process ?? own.name == own.name {
      // Dropped because the process's own records are JSON.
      reports.append(Report(peer: bus.own, content: try? JSONValue(parsing: answer)))
    }
    return reports.sorted { $0.peer.name < $1.peer.name }
  }

  private static func writeSilent(_ reports: [Report], to writer: inout JSONWriter) {
    writer.key("silent")
    writer.beginArray()
    for report in reports where report.content == nil { writer.string(report.peer.name) }
    writer.endArray()
  }
}
