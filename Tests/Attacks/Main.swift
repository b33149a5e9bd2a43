// `aquifer-attacks`: attacks an installation and checks that nobody else is slowed.

import Glibc
import HTTPClient
import Installations

@main
struct Main {
  static func main() async {
    let arguments = Array(CommandLine.arguments.dropFirst())
    if arguments.contains("--help") || arguments.contains("-h") {
      print(Options.help)
      HTTPClient.endProcess(0)
    }
    signal(SIGPIPE, SIG_IGN)
    do {
      let options = try Options(arguments)
      if options.lists {
        for attack in Attack.all { print(attack.name, attack.what, separator: "\t") }
        HTTPClient.endProcess(0)
      }
      let report = try await Run(options, binaries: options.binaries ?? ownFolder()).report()
      if let path = options.jsonPath { try write(report.json, to: path) }
      HTTPClient.endProcess(report.isGood ? 0 : 1)
    } catch let error as Options.UsageError {
      complain("aquifer-attacks: \(error.reason); aquifer-attacks --help tells more")
      HTTPClient.endProcess(64)
    } catch {
      complain("aquifer-attacks: \(error)")
      HTTPClient.endProcess(70)
    }
  }
}
