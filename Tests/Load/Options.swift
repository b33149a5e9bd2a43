// The load generator's command line.

import Crypto

struct Options: Equatable {
  var url = "http://127.0.0.1:8080"
  var operatorToken: String?
  var scenarioPath: String?
  /// Another system in Aquifer's place.
  var peer: PeerService?
  /// The value of Authorization for it.
  var peerAuthorization: String?
  var workloads: [Workload.Sized] = [.init(.w1a, 16)]
  var seconds = 5.0
  var runCount = 1
  var batch = 200
  var changeCount = 10_000
  var roundCount = 200
  var saveCount = 5
  var recordCount = 100_000
  var threadCount = 1
  var seed: UInt64 = 0
  var measuresLimits = false
  var scratchPath: String?
  var factsPath: String?
  var jsonPath: String?
  var markdownPath: String?

  struct UsageError: Error, Equatable {
    let reason: String
  }

  /// A line of the help for each workload.
  private static let meanings = Workload.allCases.map { workload in
    String(repeating: " ", count: 31)
      + "\(workload.rawValue.padded(4, right: true)) \(workload.meaning) (:\(workload.clientCount))"
  }.joined(separator: "\n")

  static let help = """
    usage: aquifer-load [--url URL] (--operator-token TOKEN | --scenario FILE) [--workload NAMES] [options]

    Sends workloads to a running Aquifer over keep-alive connections. Prints the figures of each: records/s, the
    latencies p50 and p99 in milliseconds, and errors, as medians of several runs. With the operator token, and if the
    processes' admin addresses answer, it prints the figures of each process, too: microseconds of processor time for a
    record, and resident memory. "busy before" shows the machine's load before each run: the use of its processors in a
    quarter of a second, and the load average of a minute.

      --url URL              the gateway, which names the notifier's address (default $AQUIFER_SERVER
                             or http://127.0.0.1:8080)
      --operator-token T     makes container, model, users and tokens (default $AQUIFER_OPERATOR_TOKEN)
      --scenario FILE        uses an existing installation's content instead:
                             {"container","environment"?,"apiToken","modelHash"?,"clients":[{"webAuthToken"}]}
      --workload NAMES       some of these, with commas; each may be followed by a number: w2:8      (default w1a:16)
                             and w0, w1 and queries by a rate: w1a:16@2000 are 2000 requests a second of 16 clients,
                             whose latencies count from the time when each was due
    \(meanings)
                             all: the benchmark, \(Workload.Sized.benchmark.map(\.name).joined(separator: " "))
      --peer NAME            sends w1a and w1b to another system at --url: couchdb, etcd or kinto, with
                             $PEER_AUTHORIZATION as Authorization; deploy/bench --peers makes what they need
      --limits               also measures SQLite alone, and an HTTP server without work, on this machine
      --seconds S            the length of one run, 0.1…60            (default 5)
      --runs N               the number of runs, 1…9                  (default 1)
      --batch N              creates in a request of w1b, 1…200       (default 200)
      --changes N            changes that w2 and w2o pull, 200…100000, in steps of 200   (default 10000)
      --rounds N             rounds of w4, 1…1000                     (default 200)
      --saves N              saves of w3, 1…100                       (default 5)
      --records N            records in the queried zone, 1000…1000000 (default 100000)
      --threads N            the generator's threads in closed loops, 1…8   (default 1)
      --seed N               the seed of names and values; zones and users are always new (default: drawn, and printed)
      --scratch DIR          a folder on the disk of the data, to measure SQLite's limit (default $TMPDIR or /tmp)
      --facts FILE           further figures of deploy/bench, for the tables
      --json FILE            everything, as one JSON object; -: in place of the tables
      --markdown FILE        the tables in Markdown; -: in place of the text
      --help

    A record has about 1 KB of JSON, a queried record 200 bytes. The first half second of a closed loop does not \
    count. Every client of w1 has a
    user and a zone of its own; the other workloads use devices of one user. w2, w3, w4 and w5 fail when a device \
    misses a change or gets it
    twice, or when both devices win. At the end the command deletes its zones and stores; its container and users \
    stay. The exit code is 0,
    1 (a refusal, a failure, or not one successful request) or 2 (usage).

      aquifer-load --workload w1a,w1b --runs 3
      aquifer-load --workload w2:8,w3:1000 --json report.json
      aquifer-load --scenario mine.json --workload w1a:4 --seconds 2
    """

  init(_ arguments: [String], environment: [String: String]) throws(UsageError) {
    if let url = environment["AQUIFER_SERVER"] { self.url = url }
    operatorToken = environment["AQUIFER_OPERATOR_TOKEN"]
    peerAuthorization = environment["PEER_AUTHORIZATION"]
    scratchPath = environment["TMPDIR"]
    seed = SecureRandom.uint64() >> 16
    var rest = arguments[...]
    while let option = rest.popFirst() {
      if option == "--limits" {
        measuresLimits = true
        continue
      }
      guard option.hasPrefix("--"), let value = rest.popFirst() else {
        throw UsageError(reason: "\(option) is not an option, or has no value")
      }
      try take(option, value)
    }
    if peer != nil, !workloads.allSatisfy({ [.w1a, .w1b].contains($0.workload) }) {
      throw UsageError(reason: "--peer takes the workloads w1a and w1b")
    }
    if operatorToken == nil, scenarioPath == nil, peer == nil {
      throw UsageError(reason: "give --operator-token or --scenario")
    }
    if jsonPath == "-", markdownPath == "-" { throw UsageError(reason: "--json - and --markdown - exclude each other") }
  }

  private mutating func take(_ option: String, _ value: String) throws(UsageError) {
    switch option {
    case "--url": url = value
    case "--operator-token": operatorToken = value
    case "--scenario": scenarioPath = value
    case "--peer":
      guard let known = PeerService(rawValue: value) else {
        throw UsageError(reason: "--peer knows couchdb, etcd and kinto, not '\(value)'")
      }
      peer = known
    case "--workload": workloads = try Self.workloads(value)
    case "--runs": runCount = try Self.number(option, value, 1...9)
    case "--batch": batch = try Self.number(option, value, 1...200)
    case "--changes":
      changeCount = try Self.number(option, value, 200...100_000)
      guard changeCount % 200 == 0 else { throw UsageError(reason: "--changes goes in steps of 200, not '\(value)'") }
    case "--rounds": roundCount = try Self.number(option, value, 1...1000)
    case "--saves": saveCount = try Self.number(option, value, 1...100)
    case "--records": recordCount = try Self.number(option, value, 1000...1_000_000)
    case "--threads": threadCount = try Self.number(option, value, 1...8)
    case "--seed": seed = UInt64(try Self.number(option, value, 0...(1 << 48)))
    case "--scratch": scratchPath = value
    case "--facts": factsPath = value
    case "--json": jsonPath = value
    case "--markdown": markdownPath = value
    case "--seconds":
      guard let number = Double(value), (0.1...60).contains(number) else {
        throw UsageError(reason: "--seconds takes 0.1…60, not '\(value)'")
      }
      seconds = number
    default: throw UsageError(reason: "there is no option \(option)")
    }
  }

  private static func workloads(_ names: String) throws(UsageError) -> [Workload.Sized] {
    if names == "all" { return Workload.Sized.benchmark }
    var workloads: [Workload.Sized] = []
    for name in names.split(separator: ",") {
      guard let workload = Workload.Sized(name) else {
        throw UsageError(
          reason: "'\(name)' is not a workload, its number is not 1…1024 (w3, w3s: 1…20000; w4: 2), or it takes no rate"
        )
      }
      workloads.append(workload)
    }
    if workloads.isEmpty { throw UsageError(reason: "--workload names no workload") }
    return workloads
  }

  private static func number(_ option: String, _ value: String, _ range: ClosedRange<Int>) throws(UsageError) -> Int {
    guard let number = Int(value), range.contains(number) else {
      throw UsageError(reason: "\(option) takes \(range.lowerBound)…\(range.upperBound), not '\(value)'")
    }
    return number
  }
}
