// w2 and w2o: new devices pull everything, page by page.

import Glibc

/// Devices that begin at the same moment, each with a connection of its own.
struct Pull: Sendable {
  let target: Target
  let feeds: [Feed]
  /// The records that each device is expected to get.
  var recordCount = 0

  struct Outcome: Sendable {
    /// Measures pages.
    var measurement = Measurement()
    /// By device.
    var pages: [PulledPages]
  }

  /// Runs until the last device has its last page; blocks.
  func run() -> Outcome {
    var outcome = Outcome(pages: feeds.map { _ in PulledPages(recordCount: recordCount) })
    var connections = Connections()
    let start = Connections.now()
    for (index, feed) in feeds.enumerated() {
      _ = connections.add(target)
      connections.send(index, feed.request(after: nil, host: target.host))
    }
    var left = feeds.count
    var deadline = start + answerLimit
    while left > 0 {
      guard Connections.now() < deadline else {
        outcome.measurement.note("\(left) of \(feeds.count) devices get no page")
        break
      }
      for (index, event) in connections.events(until: deadline) {
        switch event {
        case .received: continue
        case .failed(let reason):
          outcome.measurement.note(reason)
          left -= 1
        case .answered(let isSuccess):
          let reader = connections.reader(of: index)
          guard isSuccess, let page = feeds[index].page(reader.bytes) else {
            outcome.measurement.note(reader.beginning)
            left -= 1
            continue
          }
          outcome.measurement.add(since: connections.started(index))
          if page.moreComing {
            connections.send(index, feeds[index].request(after: page.token, host: target.host))
          } else {
            left -= 1
          }
          outcome.pages[index].append(reader)
          deadline = Connections.now() + answerLimit
        }
      }
    }
    outcome.measurement.seconds = Double(Connections.now() - start) / 1e9
    return outcome
  }

  /// The names that each device got.
  func names(_ outcome: Outcome) throws -> [[String]] {
    try zip(feeds, outcome.pages).map { feed, pages in try pages.all.flatMap { try feed.names($0) } }
  }

  /// - Throws: when a device missed a name or got one twice. A store mirrors all its user's zones, so it may have
  ///   further names.
  func check(_ told: [[String]], expected: [String]) throws(LoadError) {
    for (feed, names) in zip(feeds, told) {
      var others: Set<String> = []
      if case .store = feed { others = Set(names) }
      if let problem = FeedCheck.problem(expected: expected, told: names, possible: others) {
        throw LoadError(description: problem)
      }
    }
  }
}

/// The pages of one device, one behind the other. Their memory is at hand before the measurement begins: the kernel
/// would take longer to clear it than the server takes for a page.
struct PulledPages: Sendable {
  private var bytes: [UInt8]
  private var ends: [Int] = []

  /// A record of w2 in JSON has some 1 300 bytes.
  private static let recordByteCount = 1400
  private static let roomLimit = 64 << 20

  init(recordCount: Int) {
    bytes = [UInt8](repeating: 1, count: min(recordCount * Self.recordByteCount, Self.roomLimit))
    bytes.removeAll(keepingCapacity: true)
  }

  mutating func append(_ answer: ResponseReader) {
    answer.appendBody(to: &bytes)
    ends.append(bytes.count)
  }

  /// In order.
  var all: [[UInt8]] { zip([0] + ends, ends).map { Array(bytes[$0..<$1]) } }
}
