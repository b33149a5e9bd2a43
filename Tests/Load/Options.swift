// What the load generator is told on its command line.

/// A way to use the server, from the benchmark's list.
enum Workload: String, CaseIterable {
  case w0, w1a, w1b, w1c
  case qe, qs

  var meaning: String {
    switch self {
    case .w0: "GET public/users/caller: the way in and out, without a record"
    case .w1a: "records/modify with one create"
    case .w1b: "records/modify with many creates, atomic"
    case .w1c: "one transaction of 5 inserts on the object plane, answered once it is exported"
    case .qe: "records/query for one value of an indexed field: 5 of all records"
    case .qs: "records/query for a range, sorted by its field: the first 20"
    }
  }

  /// Whether it asks one zone full of records, instead of writing to a new zone for each client.
  var isQuery: Bool { self == .qe || self == .qs }

  func recordCount(batch: Int) -> Int {
    switch self {
    case .w0: 1
    case .w1a: 1
    case .w1b: batch
    case .w1c: 5
    case .qe: QueryPopulation.hitCount
    case .qs: QueryPopulation.pageSize
    }
  }
}

struct Options: Equatable {
  var url = "http://127.0.0.1:8080"
  var operatorToken: String?
  var scenarioPath: String?
  var workloads: [Workload] = [.w1a]
  var clientCount = 16
  var seconds = 5.0
  var runCount = 1
  var batch = 200
  var recordCount = 100_000
  var threadCount = 1
  var wantsJSON = false

  struct UsageError: Error, Equatable {
    let reason: String
  }

  static let help = """
    usage: aquifer-load [--url URL] (--operator-token TOKEN | --scenario FILE) [--workload NAMES] [options]

    Sends a workload to a running Aquifer with closed-loop, keep-alive clients, each with a user and a zone of its own,
    and prints records/s, the latencies p50 and p99 in milliseconds, and errors. Several runs print their medians too.
    The last column tells what the machine did before each run: the load average of a minute, and how busy its processors
    were in the last quarter of a second.

      --url URL              the gateway                              (default $AQUIFER_SERVER or http://127.0.0.1:8080)
      --operator-token T     makes container, model, users and tokens (default $AQUIFER_OPERATOR_TOKEN)
      --scenario FILE        uses what is there instead: {"container","environment"?,"apiToken","modelHash"?,"clients":[{"webAuthToken"}]}
      --workload NAMES       one or more of these, with commas        (default w1a)
    \(Workload.allCases.map { "                               \($0.rawValue)  \($0.meaning)" }.joined(separator: "\n"))
      --clients N            1…1024                                   (default 16)
      --seconds S            of one run, 0.1…60                       (default 5)
      --runs N               1…9                                      (default 1)
      --batch N              creates a request of w1b, 1…200          (default 200)
      --records N            in the zone that is queried, 1000…1000000 (default 100000)
      --threads N            of this generator, 1…8                   (default 1)
      --json                 one JSON object instead of the table
      --help

    A record has about 1 KB of JSON; queried ones 200 bytes. The first half second of a run is not counted. Exit code 0, 1 (refused, or not one
    request succeeded) or 2 (usage).

      aquifer-load --workload w1a,w1b --clients 16 --runs 3
      aquifer-load --workload w1a --clients 1
    """

  init(_ arguments: [String], environment: [String: String]) throws(UsageError) {
    if let url = environment["AQUIFER_SERVER"] { self.url = url }
    operatorToken = environment["AQUIFER_OPERATOR_TOKEN"]
    var rest = arguments[...]
    while let option = rest.popFirst() {
      if option == "--json" {
        wantsJSON = true
        continue
      }
      guard option.hasPrefix("--"), let value = rest.popFirst() else { throw UsageError(reason: "\(option) is no option, or has no value") }
      try take(option, value)
    }
    if operatorToken == nil, scenarioPath == nil { throw UsageError(reason: "give --operator-token or --scenario") }
  }

  private mutating func take(_ option: String, _ value: String) throws(UsageError) {
    switch option {
    case "--url": url = value
    case "--operator-token": operatorToken = value
    case "--scenario": scenarioPath = value
    case "--workload":
      workloads = []
      for name in value.split(separator: ",") {
        guard let workload = Workload(rawValue: String(name)) else { throw UsageError(reason: "there is no workload '\(name)'") }
        workloads.append(workload)
      }
    case "--clients": clientCount = try Self.number(option, value, 1...1024)
    case "--runs": runCount = try Self.number(option, value, 1...9)
    case "--batch": batch = try Self.number(option, value, 1...200)
    case "--records": recordCount = try Self.number(option, value, 1000...1_000_000)
    case "--threads": threadCount = try Self.number(option, value, 1...8)
    case "--seconds":
      guard let number = Double(value), (0.1...60).contains(number) else { throw UsageError(reason: "--seconds takes 0.1…60, not '\(value)'") }
      seconds = number
    default: throw UsageError(reason: "there is no option \(option)")
    }
  }

  private static func number(_ option: String, _ value: String, _ range: ClosedRange<Int>) throws(UsageError) -> Int {
    guard let number = Int(value), range.contains(number) else {
      throw UsageError(reason: "\(option) takes \(range.lowerBound)…\(range.upperBound), not '\(value)'")
    }
    return number
  }
}
