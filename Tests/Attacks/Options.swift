// The command line of `aquifer-attacks`.

struct Options: Sendable {
  /// Duration of an attack.
  var seconds = 4.0
  var isLong = false
  var names: Set<String> = []
  var jsonPath: String?
  var keepsFolder = false
  var binaries: String?
  var lists = false

  struct UsageError: Error {
    let reason: String
  }

  static let help = """
    usage: aquifer-attacks [--long | --seconds N] [--only NAME]… [--json FILE] [--keep] [--binaries DIR]
           aquifer-attacks --list

    Starts an installation of real processes with default options in a folder of its own, and attacks it in every way \
    that it knows. Meanwhile it
    measures the time of a user's save and lookup, on the attacker's shard and on another one. The exit code is 0 if \
    p99 of each stays below 100 ms
    or ten times its quiet value, no other user's call fails, no process exceeds its memory (gateway 512 MB, worker 1 \
    GB, notifier and share
    service 256 MB; one that does is killed) or ends, and the attacker gets the documented answers. An attack that \
    only makes others slow runs
    once more, four times as long, and that run counts.

      --long           30 s each, and ten times beyond limits  (default: 4 s)
      --seconds N      for each attack
      --only NAME      only that attack; may be repeated
      --list           prints the attacks' names and descriptions
      --json FILE      writes the figures there, too
      --keep           leaves the folder with data and logs
      --binaries DIR   the folder of the services' executables  (default: beside this one)
    """

  init(_ arguments: [String]) throws(UsageError) {
    var words = arguments[...]
    while let word = words.popFirst() {
      func value() throws(UsageError) -> String {
        guard let value = words.popFirst() else { throw UsageError(reason: "\(word) needs a value") }
        return value
      }
      switch word {
      case "--long": (isLong, seconds) = (true, 30)
      case "--seconds":
        let text = try value()
        guard let number = Int(text), (1...3600).contains(number) else {
          throw UsageError(reason: "--seconds is a number from 1 to 3600, not '\(text)'")
        }
        seconds = Double(number)
      case "--only":
        let name = try value()
        guard Attack.all.contains(where: { $0.name == name }) else {
          throw UsageError(reason: "there is no attack '\(name)'; --list has their names")
        }
        names.insert(name)
      case "--list": lists = true
      case "--json": jsonPath = try value()
      case "--keep": keepsFolder = true
      case "--binaries": binaries = try value()
      default: throw UsageError(reason: "unknown option \(word)")
      }
    }
  }
}
