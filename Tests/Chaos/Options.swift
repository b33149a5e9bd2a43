// The command line of `aquifer-chaos`.

struct Options: Sendable {
  enum Plan: String, CaseIterable, Sendable {
    case faults, kills, scale, power, upgrade, away
  }

  /// The order in which processes are replaced by those of the present release.
  enum Order: String, CaseIterable, Sendable {
    /// The order that operators are advised to use: share service, workers, notifier, gateways.
    case advised
    /// The opposite order.
    case reversed
    /// A random order from the seed.
    case mixed
  }

  var plan = Plan.faults
  var seconds = 60.0
  var killCount: Int?
  var roundCount = 100
  var seed = UInt64.random(in: 1...999_999)
  var workerCount = 3
  var gatewayCount = 2
  var shareCount = 1
  var clientCount = 8
  var userCount = 4
  var shardCount = 12
  var planted = Planted.none
  var shim: String?
  var isControl = false
  var jsonPath: String?
  var keepsFolder = false
  var binaries: String?
  /// The folder of the earlier release's executables.
  var earlier: String?
  var order = Order.advised

  struct UsageError: Error {
    let reason: String
  }

  static let help = """
    usage: aquifer-chaos [--plan faults|kills|scale|power|upgrade|away] [--minutes N | --seconds N | --kills N | \
    --rounds N] [--seed S] …

    Starts an installation of real processes in a folder of its own. Clients save and read while it disturbs the \
    processes. At the end it
    checks that every acknowledged change is there, once and in order. The exit code is 0 if this holds.

      --plan faults    SIGKILL, SIGSTOP for a while, restarts, and workers that come and go, of every kind of process  \
    (default)
      --plan kills     SIGKILL of workers, at random moments
      --plan scale     1 worker, 4, 1, and a restart of every process: no call may fail but those of connections to a \
    gateway that ends
      --plan power     rounds of a power cut: kills all processes and takes back writes that were not synced, all of \
    them, or sectors and
                       names at random; needs --shim
      --plan upgrade   replaces the processes of an installation of --earlier one after the other: no call may fail \
    but those of connections to
                       a gateway that ends; then processes of --earlier on the files, which they must refuse and leave \
    as they are
      --plan away      stops the share service for --minutes, and then lets it go on: no call of a known user may
                       fail
      --minutes N, --seconds N   of faults, or of absence  (default: one minute)
      --kills N        the number of kills, whatever the time
      --rounds N       the number of power cuts  (default 100)
      --seed S         the seed of all events; printed, to repeat a run  (default: another each time)
      --shares N       share services on the database of AQUIFER_DIRECTORY, of which one leads; faults meet that one \
    often
      --workers N, --gateways N, --clients N, --users N, --shards N   (default 3, 2, 8, 4, 12)
      --shim FILE      the library that records writes before a sync (Tests/PowerLoss/powerloss.c)
      --control        runs databases with synchronous=NORMAL: saves must be lost
      --plant loss|repetition   spoils the clients' readings: the check must fail
      --json FILE      writes the figures there, too
      --keep           leaves the folder with data and logs
      --binaries DIR   the folder of the services' executables  (default: beside this one)
      --earlier DIR    the folder of an earlier release's executables
      --order advised|reversed|mixed   the order of the replacements  (default: advised, as in \
    docs/operating/OPERATING.md)
    """

  init(_ arguments: [String]) throws(UsageError) {
    var words = arguments[...]
    while let word = words.popFirst() {
      func value() throws(UsageError) -> String {
        guard let value = words.popFirst() else { throw UsageError(reason: "\(word) needs a value") }
        return value
      }
      func number(_ range: ClosedRange<Int>) throws(UsageError) -> Int {
        let text = try value()
        guard let number = Int(text), range.contains(number) else {
          throw UsageError(reason: "\(word) is a number from \(range.lowerBound) to \(range.upperBound), not '\(text)'")
        }
        return number
      }
      switch word {
      case "--plan":
        guard let plan = Plan(rawValue: try value()) else {
          throw UsageError(reason: "--plan is one of \(Plan.allCases.map(\.rawValue).joined(separator: ", "))")
        }
        self.plan = plan
      case "--minutes": seconds = Double(try number(1...10_000)) * 60
      case "--seconds": seconds = Double(try number(1...600_000))
      case "--kills": (plan, killCount) = (.kills, try number(1...100_000))
      case "--rounds": roundCount = try number(1...100_000)
      case "--seed": seed = UInt64(try number(0...Int.max))
      case "--workers": workerCount = try number(1...16)
      case "--gateways": gatewayCount = try number(1...8)
      case "--shares": shareCount = try number(1...4)
      case "--clients": clientCount = try number(1...256)
      case "--users": userCount = try number(1...256)
      case "--shards": shardCount = try number(1...256)
      case "--plant":
        guard let planted = Planted(rawValue: try value()) else {
          throw UsageError(reason: "--plant is one of loss, repetition")
        }
        self.planted = planted
      case "--shim": shim = try value()
      case "--control": isControl = true
      case "--json": jsonPath = try value()
      case "--keep": keepsFolder = true
      case "--binaries": binaries = try value()
      case "--earlier": earlier = try value()
      case "--order":
        guard let order = Order(rawValue: try value()) else {
          throw UsageError(reason: "--order is one of advised, reversed, mixed")
        }
        self.order = order
      default: throw UsageError(reason: "there is no option \(word)")
      }
    }
    if plan == .power, shim == nil { throw UsageError(reason: "--plan power needs --shim") }
    if plan == .upgrade, earlier == nil { throw UsageError(reason: "--plan upgrade needs --earlier") }
    if plan == .scale { workerCount = 1 }
  }
}
