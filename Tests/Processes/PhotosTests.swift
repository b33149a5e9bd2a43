// The demonstration with three telephones: its story without a browser, and its page in Chromium.

import Foundation
import Testing

@Suite(.serialized) struct PhotosTests {
  private static let demonstration = Checkout.root.appending(path: "deploy/photos")
  private static let environment = ["AQUIFER_BIN": Checkout.products.path]

  @Test(.timeLimit(.minutes(5))) func `three telephones tell their story without a browser`() throws {
    let told = try CommandLineTool.run(
      ["--script", "--port", "0"], executable: Self.demonstration, environment: Self.environment)
    #expect(told.code == 0, "\(told.output)\(told.problem)")
    #expect(told.output.contains("the story is told"))
    print(told.output.split(separator: "\n").filter { $0.contains("==>") }.joined(separator: "\n"))
  }

  @Test(.timeLimit(.minutes(5))) func `the page plays in Chromium, and leaves a picture`() async throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "photos-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    let output = folder.appending(path: "output")
    let run = Process()
    run.executableURL = URL(filePath: "/bin/bash")
    run.arguments = ["-c", "exec \(Self.demonstration.path) --port 0 --data \(folder.path)/data >\(output.path) 2>&1"]
    run.environment = ProcessInfo.processInfo.environment.merging(Self.environment) { $1 }
    try run.runUnblocked()
    defer {
      kill(run.processIdentifier, SIGTERM)
      run.waitUntilExit()
    }
    func said() -> String { (try? String(contentsOf: output, encoding: .utf8)) ?? "" }
    while run.isRunning, !said().contains("open http") { try await Task.sleep(for: .milliseconds(50)) }
    let address = try #require(
      said().firstMatch(of: /open (http:\S+?)\x1b/)?.output.1, "deploy/photos stopped: \(said())")

    let scripts = Checkout.root.appending(path: "Tests/Clients")
    let python = try CommandLineTool.run([], executable: scripts.appending(path: "environment"))
    try #require(python.code == 0, "Tests/Clients/environment: \(python.problem)")
    let interpreter = URL(filePath: python.output.trimmingCharacters(in: .whitespacesAndNewlines))
    // REWRITE=1 makes the picture of the documents.
    let isKept = ProcessInfo.processInfo.environment["REWRITE"] == "1"
    let picture = isKept ? Checkout.root.appending(path: "docs/guide/photos.png") : folder.appending(path: "page.png")
    let played = try CommandLineTool.run(
      ["-B", scripts.appending(path: "photos_page.py").path, String(address), picture.path], executable: interpreter)
    print(played.output, terminator: "")
    #expect(played.code == 0, "\(played.output)\(played.problem)\(said())")
    let bytes = try Data(contentsOf: picture)
    #expect(bytes.starts(with: [0x89, 0x50, 0x4e, 0x47]) && bytes.count < 200 * 1024, "\(bytes.count) bytes")
  }
}
