// What a story did, asked and was answered, for people who look for the cause of a difference.

import ReplicaSync
import Synchronization

/// Lines in the order in which things happened.
package final class Trace: Sendable {
  private enum Entry {
    case line(String)
    case request(String, TransportRequest, FaultyTransport.Fault)
    case answer(String, TransportRequest, TransportResponse)
  }

  private let entries = Mutex<[Entry]>([])

  func tell(_ line: String) { entries.withLock { $0.append(.line(line)) } }

  func asks(_ device: String, _ request: TransportRequest, _ fault: FaultyTransport.Fault) {
    entries.withLock { $0.append(.request(device, request, fault)) }
  }

  func answers(_ device: String, _ request: TransportRequest, _ answer: TransportResponse) {
    entries.withLock { $0.append(.answer(device, request, answer)) }
  }

  package var lines: [String] { entries.withLock { $0.map(Self.line) } }

  /// What happened, for a comparison of many stories.
  var counts: StoryCounts {
    entries.withLock { entries in
      var counts = StoryCounts()
      for entry in entries {
        switch entry {
        case .line(let line): counts.note(line: line)
        case .request(_, let request, let fault): counts.note(request, fault)
        case .answer(_, let request, let answer): counts.note(answer, to: request)
        }
      }
      return counts
    }
  }

  private static func line(_ entry: Entry) -> String {
    switch entry {
    case .line(let line): line
    case .request(let device, let request, let fault):
      "\(device) asks (\(fault)) \(name(request)) \(text(request.body ?? []))"
    case .answer(let device, let request, let answer):
      "\(device) is answered \(answer.status) to \(name(request)) \(text(answer.body))"
    }
  }

  private static func text(_ body: [UInt8]) -> String { String(decoding: body, as: UTF8.self) }

  /// The method, and the path within the store.
  private static func name(_ request: TransportRequest) -> String {
    let path = request.url.split(separator: "/").drop { $0 != "stores" && $0 != "records" }.dropFirst(2)
    return "\(request.method) \(path.joined(separator: "/"))"
  }
}
