// w5: some clients write while one device pulls: every acknowledged save must reach it.

import Glibc

/// Writers of single records and a reader, all in one zone.
struct Witness: Sendable {
  let target: Target
  let feed: Feed
  let seconds: Double

  struct Outcome: Sendable {
    var saves = Measurement()
    var pages = Measurement()
    var acknowledged: [String] = []
    /// Sent without a successful answer: these records may exist or not.
    var unsure: Set<String> = []
    var bodies: [[UInt8]] = []

    /// The faults in the reader's pages; nil when there are none.
    func problem(_ feed: Feed) throws -> String? {
      FeedCheck.problem(expected: acknowledged, told: try bodies.flatMap { try feed.names($0) }, possible: unsure)
    }
  }

  /// Writers write until the time is up; the reader continues until a page after the last answer has nothing new.
  /// Blocks.
  func run(_ makers: [RequestMaker]) -> Outcome {
    var outcome = Outcome()
    var makers = makers
    var connections = Connections()
    for index in makers.indices {
      _ = connections.add(target)
      connections.send(index, makers[index].request)
    }
    let reader = connections.add(target)
    var token: String?
    connections.send(reader, feed.request(after: nil, host: target.host))
    let start = Connections.now()
    let end = start + UInt64(seconds * 1e9)
    var writing = makers.count
    var isReading = true
    // True when the reader's request was sent after the last save's answer.
    var isLast = false
    var deadline = end + answerLimit
    while writing > 0 || isReading {
      guard Connections.now() < deadline else {
        outcome.pages.note("after 30 s \(writing) saves and a page have no answer")
        break
      }
      for (index, event) in connections.events(until: deadline) {
        let now = Connections.now()
        deadline = max(end, now) + answerLimit
        if index < makers.count {
          let names = makers[index].names
          switch event {
          case .answered(isSuccess: true):
            outcome.saves.add(since: connections.started(index), until: now)
            outcome.acknowledged += names
          case .answered:
            outcome.saves.note(connections.reader(of: index).beginning)
            outcome.unsure.formUnion(names)
          case .failed(let reason):
            outcome.saves.note(reason)
            outcome.unsure.formUnion(names)
          case .received: continue
          }
          guard now < end, outcome.saves.errorCount < Self.errorLimit else {
            writing -= 1
            continue
          }
          makers[index].advance()
          connections.send(index, makers[index].request)
        } else {
          let answer = connections.reader(of: index)
          if event == .answered(isSuccess: true), let page = feed.page(answer.bytes) {
            outcome.pages.add(since: connections.started(index), until: now)
            // Most pages are empty once the reader has caught up.
            if page.token != token { outcome.bodies.append(answer.body) }
            token = page.token
            if isLast, !page.moreComing {
              isReading = false
              continue
            }
          } else {
            if case .failed(let reason) = event {
              outcome.pages.note(reason)
            } else {
              outcome.pages.note(answer.beginning)
            }
            if outcome.pages.errorCount >= Self.errorLimit {
              isReading = false
              continue
            }
          }
          isLast = writing == 0
          connections.send(index, feed.request(after: token, host: target.host))
        }
      }
    }
    outcome.saves.seconds = min(Double(Connections.now() - start) / 1e9, max(seconds, 0.001))
    outcome.pages.seconds = Double(Connections.now() - start) / 1e9
    return outcome
  }

  private static let errorLimit = 100
}
