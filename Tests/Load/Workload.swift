// The workloads of the benchmark.

enum Workload: String, CaseIterable {
  case w0, w1a, w1b, w1c
  case w2, w2o
  case w3, w3s
  case w4, w5
  case qe, qs

  var meaning: String {
    switch self {
    case .w0: "GET public/users/caller: the way in and out, without a record"
    case .w1a: "records/modify with one create"
    case .w1b: "records/modify with many creates, atomic"
    case .w1c: "one transaction of 5 inserts on the object plane, answered once it is exported"
    case .w2: "devices that have nothing pull a zone with changes/zone, 200 records a page"
    case .w2o: "devices that have nothing pull a store with the object plane's changes"
    case .w3: "devices hold the web courier's poll; one save; all are pinged and pull it"
    case .w3s: "the same with devices that hold an event stream"
    case .w4:
      "two devices update one record with the same change tag at once; one must win, the other asks and tries again"
    case .w5: "writers save single records while one device pulls; it must get every one"
    case .qe: "records/query for one value of an indexed field: 5 of all records"
    case .qs: "records/query for a range, sorted by its field: the first 20"
    }
  }

  /// The default number of clients, pulling devices (w2), listening devices (w3), or writers (w5).
  var clientCount: Int {
    switch self {
    case .w2, .w2o: 1
    case .w3, .w3s: 100
    case .w4: 2
    case .w5: 6
    case .w0, .w1a, .w1b, .w1c, .qe, .qs: 16
    }
  }

  var clientLimit: Int {
    switch self {
    case .w3, .w3s: 20_000
    default: 1024
    }
  }

  /// True for queries of one zone full of records; other workloads write to a new zone for each client.
  var isQuery: Bool { self == .qe || self == .qs }

  /// True when the clients only send requests and wait for answers.
  var isClosedLoop: Bool { hasUserForEachClient || isQuery }

  /// True when each client has a user of its own; otherwise the clients are devices of one user.
  var hasUserForEachClient: Bool { [.w0, .w1a, .w1b, .w1c].contains(self) }

  /// Records in one request of a closed loop.
  func recordCount(batch: Int) -> Int {
    switch self {
    case .w1b: batch
    case .w1c: 5
    case .qe: QueryPopulation.hitCount
    case .qs: QueryPopulation.pageSize
    default: 1
    }
  }

  /// A workload with its number of clients and rate: `w2:8`, `w1a:16@2000`.
  struct Sized: Hashable {
    let workload: Workload
    let clientCount: Int
    /// For closed loops.
    let pace: Pace

    var name: String {
      let name = "\(workload.rawValue):\(clientCount)"
      return if case .rate(let rate) = pace { "\(name)@\(rate)" } else { name }
    }

    init(_ workload: Workload, _ clientCount: Int, _ pace: Pace = .closed) {
      self.workload = workload
      self.clientCount = clientCount
      self.pace = pace
    }

    /// The number of its connections.
    var connectionCount: Int {
      switch workload {
      case .w3, .w3s: Fanout.connectionCount(clientCount)
      case .w5: clientCount + 1
      default: clientCount
      }
    }

    /// - Returns: nil for an unknown name, a number outside of 1…1024 (20 000 for listening devices), a rate outside of
    ///   1…1 000 000, or a rate for a workload that is no closed loop.
    init?(_ text: some StringProtocol) {
      let halves = text.split(separator: "@", omittingEmptySubsequences: false)
      let parts = halves[0].split(separator: ":", omittingEmptySubsequences: false)
      guard halves.count <= 2, parts.count <= 2, let workload = Workload(rawValue: String(parts[0])) else { return nil }
      guard let count = parts.count == 2 ? Int(parts[1]) : workload.clientCount,
        (1...workload.clientLimit).contains(count)
      else { return nil }
      if workload == .w4, count != 2 { return nil }
      var pace = Pace.closed
      if halves.count == 2 {
        guard workload.isClosedLoop, let rate = Int(halves[1]), (1...1_000_000).contains(rate) else { return nil }
        pace = .rate(rate)
      }
      self.init(workload, count, pace)
    }

    /// All workloads, in the sizes for which peers' figures exist.
    static let benchmark = [
      Sized(.w0, 16), Sized(.w1a, 1), Sized(.w1a, 16), Sized(.w1a, 16, .rate(2000)), Sized(.w1b, 16), Sized(.w1c, 16),
      Sized(.w2, 1), Sized(.w2, 8), Sized(.w2o, 1), Sized(.w2o, 8), Sized(.w3, 100), Sized(.w3, 1000), Sized(.w3s, 100),
      Sized(.w3s, 1000), Sized(.w4, 2), Sized(.w5, 6),
      Sized(.qe, 1), Sized(.qe, 16), Sized(.qs, 1), Sized(.qs, 16),
    ]
  }
}
