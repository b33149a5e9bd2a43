// The console in headless Chromium: every flow against real processes, and a large installation that is made up.

import Foundation
import Testing

@Suite(.serialized) struct ConsolePagesTests {
  private static let scripts = Checkout.root.appending(path: "Tests/ConsolePages")

  @Test(.timeLimit(.minutes(4))) func `a person does all that the console offers, page by page`() async throws {
    try await Installation.run(workers: 2, options: ["--shards", "16"]) { installation in
      let verdict = try CommandLineTool.run([
        "status", "--server", installation.ready.gateway, "--operator-token", installation.ready.operatorToken,
      ]).output.split(separator: "\n").first
      // REWRITE=1 makes the pictures of the guide.
      let isKept = ProcessInfo.processInfo.environment["REWRITE"] == "1"
      let pictures = isKept ? Checkout.root.appending(path: "docs/guide") : installation.folder
      try Self.play(
        "flows.py",
        [
          "\(installation.ready.gateway)/console/", installation.ready.gateway, installation.ready.operatorToken,
          installation.folder.appending(path: "backup").path, String(try #require(verdict)), pictures.path,
        ])
      for name in ["console.png", "console-explain.png"] {
        let bytes = try Data(contentsOf: pictures.appending(path: name))
        #expect(
          bytes.starts(with: [0x89, 0x50, 0x4e, 0x47]) && bytes.count < 150 * 1024, "\(name) has \(bytes.count) bytes")
      }
    }
  }

  @Test(.timeLimit(.minutes(4)))
  func `the pages hold a large installation, a lost connection, and markup in every place`() throws {
    try Self.play("made_up.py", [])
  }

  /// Runs a script of Tests/ConsolePages, and prints its steps.
  private static func play(_ script: String, _ arguments: [String]) throws {
    let environment = try CommandLineTool.run(
      [], executable: Checkout.root.appending(path: "Tests/Clients/environment"))
    try #require(environment.code == 0, "Tests/Clients/environment: \(environment.problem)")
    let played = try CommandLineTool.run(
      ["-B", scripts.appending(path: script).path] + arguments,
      executable: URL(filePath: environment.output.trimmingCharacters(in: .whitespacesAndNewlines)))
    print(played.output, terminator: "")
    #expect(played.code == 0, "\(played.output)\(played.problem)")
  }
}
