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
      try Self.play(
        "flows.py", picture: "console-explain.png",
        [
          "\(installation.ready.gateway)/console/", installation.ready.gateway, installation.ready.operatorToken,
          installation.folder.appending(path: "backup").path, String(try #require(verdict)),
        ])
    }
  }

  @Test(.timeLimit(.minutes(4)))
  func `the pages hold a large installation, a lost connection, and markup in every place`() throws {
    try Self.play("made_up.py", picture: "console.png", [])
  }

  /// Runs a script of Tests/ConsolePages, and prints its steps. REWRITE=1 makes the picture of the guide.
  private static func play(_ script: String, picture name: String, _ arguments: [String]) throws {
    let isKept = ProcessInfo.processInfo.environment["REWRITE"] == "1"
    let folder = try Installation.makeFolder()
    defer { try? FileManager.default.removeItem(at: folder) }
    let picture = (isKept ? Checkout.root.appending(path: "docs/guide") : folder).appending(path: name)
    let environment = try CommandLineTool.run(
      [], executable: Checkout.root.appending(path: "Tests/Clients/environment"))
    try #require(environment.code == 0, "Tests/Clients/environment: \(environment.problem)")
    let played = try CommandLineTool.run(
      ["-B", scripts.appending(path: script).path] + arguments + [picture.path],
      executable: URL(filePath: environment.output.trimmingCharacters(in: .whitespacesAndNewlines)))
    print(played.output, terminator: "")
    #expect(played.code == 0, "\(played.output)\(played.problem)")
    let bytes = try Data(contentsOf: picture)
    #expect(bytes.starts(with: [0x89, 0x50, 0x4e, 0x47]) && bytes.count < 150 * 1024, "\(bytes.count) bytes")
  }
}
