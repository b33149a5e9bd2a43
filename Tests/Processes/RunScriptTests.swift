// `deploy/run` beside commands of a few lines that note their calls: what it starts, stops, and leaves alone.

import Foundation
import Testing

/// A checkout with the script alone, and stand-ins for the commands that it calls.
private struct RunWorld {
  let folder: URL

  private static let commands = [
    "deploy/build": #"echo "$PWD/bin""#, "deploy/install": "exit 0", "deploy/demo": ":",
    "bin/initdb": "mkdir data", "bin/chown": "exit 0",
    "bin/setpriv": #"while [[ $1 == --* ]]; do shift; done; exec "$@""#,
    "bin/pg_ctl": """
    echo "pg_ctl $*" >>"$CALLS"
    case " $* " in
      *" status "*) exit 3 ;;
      *" start "*) [ ! -e "$CALLS.refuses" ] ;;
    esac
    """,
    "bin/aquifer": """
    while [ "$1" != --ready-file ]; do shift; done
    read -r -a stat </proc/$$/stat
    echo "aquifer in the group of $([ "${stat[4]}" = $$ ] && echo "its own" || echo "the script")" >>"$CALLS"
    trap 'echo "aquifer stops" >>"$CALLS"; exit 0' TERM
    echo '{"gateway": "g", "operatorToken": "t", "notifier": "n"}' >"$2"
    while :; do sleep 0.02; done
    """,
  ]

  init() throws {
    folder = try Installation.makeFolder()
    for name in ["deploy", "bin"] {
      try FileManager.default.createDirectory(
        at: folder.appending(path: name), withIntermediateDirectories: true)
    }
    for (name, commands) in Self.commands {
      try write("#!/usr/bin/env bash\n\(commands)\n", to: name)
    }
    try write(String(contentsOf: Checkout.root.appending(path: "deploy/run"), encoding: .utf8), to: "deploy/run")
  }

  func write(_ text: String, to name: String) throws {
    let file = folder.appending(path: name)
    try Data(text.utf8).write(to: file)
    try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: file.path)
  }

  func content(of name: String) -> String {
    (try? String(contentsOf: folder.appending(path: name), encoding: .utf8)) ?? ""
  }

  /// The calls so far but for questions.
  var calls: [String] {
    content(of: "calls").split(separator: "\n").map(String.init).filter { !$0.hasSuffix(" status") }
  }

  func start(output: String) throws -> Process {
    let run = Process()
    run.executableURL = URL(filePath: "/bin/bash")
    run.arguments = ["-c", "exec deploy/run --postgres >\(output) 2>&1"]
    run.currentDirectoryURL = folder
    run.environment = ProcessInfo.processInfo.environment.merging(
      ["CALLS": folder.appending(path: "calls").path]) { $1 }
    try run.runUnblocked()
    return run
  }

  func waitUntilReady(_ run: Process, output: String) async throws {
    while run.isRunning, !content(of: output).contains("Ctrl-C stops them.") {
      try await Task.sleep(for: .milliseconds(20))
    }
    try #require(run.isRunning, "\(content(of: output))")
  }

  func remove() { try? FileManager.default.removeItem(at: folder) }
}

struct RunScriptTests {
  @Test(.timeLimit(.minutes(1))) func `a second run of a data folder leaves the first one as it is`() async throws {
    let world = try RunWorld()
    defer { world.remove() }
    let first = try world.start(output: "first.txt")
    defer { if first.isRunning { kill(first.processIdentifier, SIGKILL) } }
    try await world.waitUntilReady(first, output: "first.txt")
    let calls = world.calls

    let second = try world.start(output: "second.txt")
    second.waitUntilExit()
    #expect(second.terminationStatus == 75)
    #expect(world.content(of: "second.txt").contains("is in use by another deploy/run"))
    #expect(world.calls == calls)
    #expect(world.content(of: "data/ready.json").contains("operatorToken"))

    kill(first.processIdentifier, SIGTERM)
    first.waitUntilExit()
    #expect(world.calls.count == calls.count + 2 && world.calls.dropLast().last == "aquifer stops")
    #expect(world.calls.last?.hasSuffix("-m fast -w stop") == true)
    // The folder is free again.
    let third = try world.start(output: "third.txt")
    try await world.waitUntilReady(third, output: "third.txt")
    kill(third.processIdentifier, SIGTERM)
    third.waitUntilExit()
  }

  @Test(.timeLimit(.minutes(1))) func `a terminal's signal reaches the script alone, which passes it on once`()
    async throws
  {
    let world = try RunWorld()
    defer { world.remove() }
    let run = try world.start(output: "run.txt")
    try await world.waitUntilReady(run, output: "run.txt")
    #expect(world.calls.contains("aquifer in the group of its own"), "\(world.calls)")
    kill(run.processIdentifier, SIGINT)
    run.waitUntilExit()
    #expect(run.terminationStatus == 130)
    #expect(world.calls.count { $0 == "aquifer stops" } == 1)
  }

  @Test(.timeLimit(.minutes(1))) func `a cluster that does not start is not stopped`() async throws {
    let world = try RunWorld()
    defer { world.remove() }
    try world.write("", to: "calls.refuses")
    let run = try world.start(output: "run.txt")
    run.waitUntilExit()
    #expect(run.terminationStatus == 70)
    #expect(world.calls.count == 1 && world.calls.first?.hasSuffix("start") == true, "\(world.calls)")
  }
}
