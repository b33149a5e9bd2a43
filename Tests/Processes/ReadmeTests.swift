// Every command of README.md and of the guides is run as a reader would run it, and has to print what the document
// shows.

import Foundation
import Testing

/// A document whose commands are run.
private struct Document {
  let path: String
  /// Its fenced `sh` blocks, in order.
  let blocks: [String]
  /// Its fenced `json` and `text` blocks, in order: what the commands print, with `…` for what is left out.
  let outputs: [String]

  init(_ path: String) throws {
    self.path = path
    let text = try String(contentsOf: Checkout.root.appending(path: path), encoding: .utf8)
    func fenced(_ languages: String...) -> [String] {
      text.matches(of: /```(sh|json|text)\n([\s\S]*?)```/).filter { languages.contains(String($0.output.1)) }.map {
        String($0.output.2)
      }
    }
    blocks = fenced("sh")
    outputs = fenced("json", "text")
  }

  /// README and the tour, and the guides, each of which goes on with what the tour has made.
  static func all() throws -> [Document] {
    let guides = try FileManager.default.contentsOfDirectory(atPath: Checkout.root.appending(path: "docs/guide").path)
      .filter { $0.hasSuffix(".md") }.sorted()
    return try (["README.md", "docs/guide/tour.md"] + guides.filter { $0 != "tour.md" }.map { "docs/guide/\($0)" }).map(
      Document.init)
  }

  /// Where its commands print to.
  var transcript: String { "\(path.split(separator: "/").last ?? "").txt" }
  var commands: String { "exec >\(transcript) 2>&1\n" + blocks.filter { exemptions[$0] == nil }.joined() }

  /// The first part of its outputs that does not follow in a transcript; nil when all of them do.
  func missing(in transcript: String) -> String? {
    var rest = transcript[...]
    for part in outputs.flatMap({ $0.split(separator: "…") }).map({ $0.trimmingCharacters(in: .whitespacesAndNewlines) }
    ) where !part.isEmpty {
      guard let range = rest.firstRange(of: part) else { return part }
      rest = rest[range.upperBound...]
    }
    return nil
  }
}

/// Blocks that are not run here, and why.
private let exemptions = [
  "deploy/run\n": "it runs in the first terminal, once",
  "deploy/test\n": "it is what runs this test",
  "docker compose up -d --build --scale worker=2\n":
    "needs a Docker engine; compose.yaml's commands are run by the test of compose.yaml",
]

@Test(.timeLimit(.minutes(2))) func `README, the tour and every guide can be followed literally`() async throws {
  let documents = try Document.all()
  #expect(documents.count > 2 && documents[0].blocks.first == "deploy/run\n")
  let unknown = Set(exemptions.keys).subtracting(documents.flatMap(\.blocks))
  #expect(unknown.isEmpty, "exemptions name no block of a document: \(unknown)")

  let folder = FileManager.default.temporaryDirectory.appending(
    path: "aquifer-readme-\(ProcessInfo.processInfo.processIdentifier)")
  try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
  defer { try? FileManager.default.removeItem(at: folder) }
  // The reader's clone: its own data folder, these scripts, binaries that are built already.
  for name in ["deploy", "Tests", "Clients"] {
    try FileManager.default.createSymbolicLink(
      at: folder.appending(path: name), withDestinationURL: Checkout.root.appending(path: name))
  }

  // The first terminal; other ports than README's so that it runs beside whatever else runs here.
  let run = Process()
  run.executableURL = URL(filePath: "/bin/bash")
  run.arguments = ["-c", "exec deploy/run --http-port 0 --ping-port 0 > run.txt 2>&1"]
  run.currentDirectoryURL = folder
  run.environment = ProcessInfo.processInfo.environment.merging(["AQUIFER_BIN": Checkout.products.path]) { $1 }
  try run.runUnblocked()
  defer {
    kill(run.processIdentifier, SIGTERM)
    run.waitUntilExit()
  }
  func output(_ name: String) -> String {
    (try? String(contentsOf: folder.appending(path: name), encoding: .utf8)) ?? ""
  }
  while run.isRunning, !output("run.txt").contains("Ctrl-C stops them.") {
    try await Task.sleep(for: .milliseconds(50))
  }
  let demonstration = output("run.txt")
  try #require(run.isRunning, "deploy/run stopped:\n\(demonstration)")
  #expect(demonstration.contains(#"data: {"aps":{"content-available":1}"#), "no ping was shown:\n\(demonstration)")
  #expect(demonstration.contains(#""title": "Dunes""#), "no import was shown:\n\(demonstration)")
  #expect(demonstration.contains(#""CD_entityName""#), "no record was shown:\n\(demonstration)")

  // The second terminal; each guide in a copy of it, so that none needs another's variables.
  let script = documents[..<2].map(\.commands) + documents[2...].map { "(\n\($0.commands))\n" }
  try (["set -euo pipefail\n"] + script).joined().write(
    to: folder.appending(path: "guide.sh"), atomically: true, encoding: .utf8)
  let terminal = Process()
  terminal.executableURL = URL(filePath: "/bin/bash")
  terminal.arguments = ["guide.sh"]
  terminal.currentDirectoryURL = folder
  try terminal.runUnblocked()
  terminal.waitUntilExit()
  let transcripts = documents.map { output($0.transcript) }
  try #require(
    terminal.terminationStatus == 0, "a command failed, the last of these:\n\(transcripts.last { !$0.isEmpty } ?? "")")
  for (document, transcript) in zip(documents, transcripts) {
    if let missing = document.missing(in: transcript) {
      Issue.record(
        """
        \(document.path) shows this, which its commands did not print there:\n\(missing)\n\nThey printed:\n\(transcript)
        """
      )
    }
  }
}
