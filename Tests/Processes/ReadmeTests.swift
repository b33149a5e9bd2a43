// Every command of README.md is run as a reader would run it.

import Foundation
import Testing

/// The fenced `sh` blocks of README.md, in order.
private func readmeBlocks() throws -> [String] {
  try String(contentsOf: Checkout.root.appending(path: "README.md"), encoding: .utf8)
    .matches(of: /```sh\n([\s\S]*?)```/).map { String($0.output.1) }
}

/// Blocks that are not run here, and why.
private let exemptions = [
  "deploy/test\n": "it is what runs this test",
  "deploy/bench\n": "takes minutes; BenchTests runs it shorter",
  "docker compose up -d --build --scale worker=2\n": "needs a Docker engine; compose.yaml's commands are run by the test of compose.yaml",
]

@Test(.timeLimit(.minutes(2))) func `the tour of README can be followed literally`() async throws {
  let blocks = try readmeBlocks()
  #expect(blocks.first == "deploy/run\n")
  let tour = blocks.dropFirst().filter { exemptions[$0] == nil }
  #expect(tour.count == blocks.count - 1 - exemptions.count, "an exemption names no block of README")

  let folder = FileManager.default.temporaryDirectory.appending(path: "aquifer-readme-\(ProcessInfo.processInfo.processIdentifier)")
  try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
  defer { try? FileManager.default.removeItem(at: folder) }
  // The reader's clone: its own data folder, these scripts, binaries that are built already.
  for name in ["deploy", "Tests"] {
    try FileManager.default.createSymbolicLink(at: folder.appending(path: name), withDestinationURL: Checkout.root.appending(path: name))
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
  func output(_ name: String) -> String { (try? String(contentsOf: folder.appending(path: name), encoding: .utf8)) ?? "" }
  while run.isRunning, !output("run.txt").contains("Ctrl-C stops it.") { try await Task.sleep(for: .milliseconds(50)) }
  let demonstration = output("run.txt")
  try #require(run.isRunning, "deploy/run stopped:\n\(demonstration)")
  #expect(demonstration.contains(#"data: {"aps":{"content-available":1}"#), "no ping was shown:\n\(demonstration)")
  #expect(demonstration.contains(#""title": "Dunes""#), "no import was shown:\n\(demonstration)")
  #expect(demonstration.contains(#""CD_entityName""#), "no record was shown:\n\(demonstration)")

  // The second terminal.
  try (["set -euo pipefail\n"] + tour).joined().write(to: folder.appending(path: "tour.sh"), atomically: true, encoding: .utf8)
  let terminal = Process()
  terminal.executableURL = URL(filePath: "/bin/bash")
  terminal.arguments = ["-c", "exec bash tour.sh > tour.txt 2>&1"]
  terminal.currentDirectoryURL = folder
  try terminal.runUnblocked()
  terminal.waitUntilExit()
  let transcript = output("tour.txt")
  #expect(terminal.terminationStatus == 0, "the tour stopped:\n\(transcript)")
  #expect(!transcript.contains("serverErrorCode"), "the tour met an error:\n\(transcript)")
  for expected in [
    "RECORD TYPE", #""entity": "VideoPost""#, #""relationship": "tags""#, #""value": "Waves""#, #""type":"export","succeeded":true"#, #"data: {"aps""#, " Waves\n",
    #""participantStatus": "ACCEPTED""#, #""changeType":"save","title":"High tide""#, #""changeType":"zone","zoneID"#,
  ] {
    #expect(transcript.contains(expected), "\(expected) is missing:\n\(transcript)")
  }
}
