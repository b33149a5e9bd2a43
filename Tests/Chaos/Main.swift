// `aquifer-chaos`: breaks an installation under load and checks that nothing was lost.

import Glibc

@main
struct Main {
  static func main() async {
    let arguments = Array(CommandLine.arguments.dropFirst())
    if arguments.contains("--help") || arguments.contains("-h") {
      print(Options.help)
      exit(0)
    }
    do {
      let options = try Options(arguments)
      let report = try await Run(options, binaries: options.binaries ?? ownFolder()).report()
      print(report.text)
      if let path = options.jsonPath { try write(report.json, to: path) }
      exit(report.isGood ? 0 : 1)
    } catch let error as Options.UsageError {
      complain("\(error.reason); aquifer-chaos --help tells more")
      exit(64)
    } catch {
      complain("\(error)")
      exit(70)
    }
  }

  private static func ownFolder() -> String {
    guard let path = realpath("/proc/self/exe", nil) else { return "." }
    defer { free(path) }
    return String(String(cString: path).split(separator: "/", omittingEmptySubsequences: false).dropLast().joined(separator: "/"))
  }

  private static func write(_ bytes: [UInt8], to path: String) throws {
    guard let file = fopen(path, "w") else { throw ChaosError("\(path) can't be written") }
    defer { fclose(file) }
    guard fwrite(bytes, 1, bytes.count, file) == bytes.count else { throw ChaosError("\(path) can't be written") }
  }

  private static func complain(_ text: String) {
    _ = "aquifer-chaos: \(text)\n".withCString { Glibc.write(2, $0, strlen($0)) }
  }
}
