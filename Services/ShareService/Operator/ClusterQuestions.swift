// One question to many processes at once, and the rows of their answers as one list.

import JSON
import ServiceBus

/// A process's answer.
struct ProcessReport: Sendable {
  let peer: Peer
  /// nil: none came in time.
  let content: JSONValue?
}

extension Bus {
  /// Asks processes at once, so that each has the whole time.
  /// - Returns: ascending by name.
  func reports<Question: Message>(
    on question: Question, within limit: Duration, from isAsked: (Peer) -> Bool = { $0.role == .worker }
  ) async -> [ProcessReport] where Question.Reply == Acknowledgement {
    await withTaskGroup(of: ProcessReport.self) { group in
      for peer in peers where isAsked(peer) {
        group.addTask {
          // Dropped because a process that does not answer is listed as silent, whatever the reason.
          let answer = try? await self.call(question, body: [], to: .peer(peer.name), within: limit)
          return ProcessReport(peer: peer, content: answer.flatMap { try? JSONValue(parsing: $0.body) })
        }
      }
      return await group.reduce(into: []) { $0.append($1) }.sorted { $0.peer.name < $1.peer.name }
    }
  }
}

extension [ProcessReport] {
  /// The processes that did not answer, and the workers' shards that could not be read.
  var silent: [String] {
    flatMap { report in
      guard let content = report.content else { return [report.peer.name] }
      return content["unread"]?.elements.map { "\(report.peer.name) (shard \($0.int64 ?? -1))" } ?? []
    }
  }

  /// The elements of a member that is a list, of all answers.
  func elements(of name: String) -> [(process: String, value: JSONValue)] {
    flatMap { report in report.content?[name]?.elements.map { (report.peer.name, $0) } ?? [] }
  }

  func writeSilent(to writer: inout JSONWriter) { writer.member("silent", silent) }
}

/// The rows of all workers about one subject.
struct ClusterList: Sendable {
  var rows: [JSONValue] = []
  /// The shards that no worker read completely; nil for a list that does not tell.
  var uncountedShards: [Int64]?
  var silent: [String] = []

  var isPartial: Bool { !silent.isEmpty || uncountedShards?.isEmpty == false }

  func answer(as name: String) -> OperatorAnswer {
    OperatorAnswer { writer in
      writer.key(name)
      writer.beginArray()
      for row in rows { writer.value(row) }
      writer.endArray()
      if let uncountedShards {
        writer.key("uncountedShards")
        writer.beginArray()
        for shard in uncountedShards { writer.integer(shard) }
        writer.endArray()
      }
      writer.member("silent", silent)
    }
  }
}

extension JSONWriter {
  mutating func member(_ name: String, _ texts: [String]) {
    key(name)
    beginArray()
    for text in texts { string(text) }
    endArray()
  }
}
