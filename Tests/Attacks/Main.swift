// `aquifer-attacks`: attacks an installation and checks that nobody else is slowed.

import Glibc
import Installations

@main
struct Main {
  static func main() async {
    let arguments = Array(CommandLine.arguments.dropFirst())
    if arguments.contains("--help") || arguments.contains("-h") {
      print(Options.help)
      exit(0)
    }
    signal(SIGPIPE, SIG_IGN)
    do {
      let options = try Options(arguments)
      if options.lists {
        for attack in Attack.all { print(attack.name, attack.what, separator: "\t") }
        exit(0)
      }
      let report = try await Run(options, binaries: options.binaries ?? ownFolder()).report()
      if let path = options.jsonPath { try write(report.json, to: path) }
      exit(report.isGood ? 0 : 1)
    } catch let error as Options.UsageError {
      complain("aquifer-attacks: \(error.reason); aquifer-attacks --help tells more")
      exit(64)
    } catch {
      complain("aquifer-attacks: \(error)")
      exit(70)
    }
  }
}
