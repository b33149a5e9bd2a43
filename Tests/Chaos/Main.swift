// `aquifer-chaos`: damages an installation under load and checks that no data are lost.

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
    do {
      let options = try Options(arguments)
      let report = try await Run(options, binaries: options.binaries ?? ownFolder()).report()
      print(report.text)
      if let path = options.jsonPath { try write(report.json, to: path) }
      HTTPClient.endProcess(report.isGood ? 0 : 1)
    } catch let error as Options.UsageError {
      complain("aquifer-chaos: \(error.reason); aquifer-chaos --help tells more")
      HTTPClient.endProcess(64)
    } catch {
      complain("aquifer-chaos: \(error)")
      HTTPClient.endProcess(70)
    }
  }
}
