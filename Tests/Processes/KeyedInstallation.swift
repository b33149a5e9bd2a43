// An installation as on several machines: four processes connected over tcp, each with a key of its own.

import Foundation
import HTTPClient
import Testing

/// Four processes without `aquifer dev`, and further processes started beside them.
final class KeyedInstallation {
  let folder: URL
  /// In the order of starting.
  private(set) var processes: [(name: String, process: Process)] = []
  private(set) var installation: Installation

  var peers: URL { folder.appending(path: "bus-peers") }
  func key(_ name: String) -> URL { folder.appending(path: "\(name).key") }
  func log(_ name: String) -> URL { folder.appending(path: "data/log/\(name).log") }

  /// The content of a process's ready file.
  struct Facts: Decodable {
    let pid: Int32
    let bus: String
    let admin: String
    let http: String?
  }

  /// Starts all four processes.
  /// - Parameter operatorToken: given as a file; must have the required length.
  init(folder: URL, operatorToken: String) async throws {
    self.folder = folder
    installation = Installation(
      folder: folder, pid: getpid(),
      ready: Ready(gateway: "", notifier: "", operatorToken: operatorToken, pids: [:], admin: [:]))
    try FileManager.default.createDirectory(at: folder.appending(path: "data/log"), withIntermediateDirectories: true)
    try Data(operatorToken.utf8).write(to: folder.appending(path: "operator-token"))
    for (role, name) in [("share", "share"), ("worker", "worker-1"), ("notifier", "notifier"), ("gateway", "gateway")] {
      try addKey(role, name, peers: peers)
    }
    #expect(
      try CommandLineTool.run(["encryption-key", "add", folder.appending(path: "encryption-key").path]).code == 0)
    let data = folder.appending(path: "data").path
    let encryption = ["--encryption-key", folder.appending(path: "encryption-key").path]
    do {
      let share = try await start(
        "share", "share", ["--data", data],
        environment: ["AQUIFER_OPERATOR_TOKEN_FILE": folder.appending(path: "operator-token").path])
      let common = ["--share", share.bus]
      let worker = try await start("worker", "worker-1", common + ["--data", data] + encryption)
      let notifier = try await start("notifier", "notifier", common + ["--http", "127.0.0.1:0"])
      let gateway = try await start(
        "gateway", "gateway",
        common + encryption + [
          "--http", "127.0.0.1:0", "--notifier-url", notifier.http ?? "", "--assets", data + "/assets",
        ])
      let all = ["share": share, "worker": worker, "notifier": notifier, "gateway": gateway]
      installation = Installation(
        folder: folder, pid: getpid(),
        ready: Ready(
          gateway: gateway.http ?? "", notifier: notifier.http ?? "", operatorToken: operatorToken,
          pids: all.mapValues { [$0.pid] },
          admin: all.mapValues(\.admin)))
      for facts in all.values { try await waitUntilReady(facts) }
    } catch {
      let logs = installation.logTails()
      stop()
      throw Unexpected("\(error)\n\(logs)")
    }
  }

  /// - Returns: the printed line.
  @discardableResult
  func addKey(_ role: String, _ name: String, file: String? = nil, peers: URL? = nil) throws -> String {
    let words =
      ["bus-key", "add", key(file ?? name).path, "--role", role, "--name", name]
      + (peers.map { ["--peers", $0.path] } ?? [])
    let made = try CommandLineTool.run(words)
    guard made.code == 0 else { throw Unexpected("bus-key add: \(made.problem)") }
    return made.output
  }

  /// Starts a process. `keys` nil: without a key.
  func launch(
    _ role: String, _ name: String, _ options: [String], keys: (key: URL, peers: URL)?,
    environment: [String: String] = [:]
  ) throws -> URL {
    let ready = folder.appending(path: "\(name).ready")
    let process = Process()
    process.executableURL = Checkout.products.appending(path: "aquifer-\(role)")
    process.arguments =
      ["--name", name, "--bus", "tcp://127.0.0.1:*", "--ready-file", ready.path, "--log-level", "debug"] + options
      + (keys.map { ["--bus-key", $0.key.path, "--bus-peers", $0.peers.path] } ?? [])
    process.environment = ProcessInfo.processInfo.environment.merging(environment) { $1 }
    _ = FileManager.default.createFile(atPath: log(name).path, contents: nil)
    let handle = try FileHandle(forWritingTo: log(name))
    process.standardOutput = handle
    process.standardError = handle
    process.standardInput = FileHandle.nullDevice
    try process.runUnblocked()
    processes.append((name, process))
    return ready
  }

  func start(_ role: String, _ name: String, _ options: [String], environment: [String: String] = [:]) async throws
    -> Facts
  {
    let ready = try launch(role, name, options, keys: (key(name), peers), environment: environment)
    return try await facts(ready)
  }

  func facts(_ ready: URL) async throws -> Facts {
    for _ in 0..<3000 {
      if let data = try? Data(contentsOf: ready), let facts = try? JSONDecoder().decode(Facts.self, from: data) {
        return facts
      }
      try await Task.sleep(for: .milliseconds(10))
    }
    throw Unexpected("\(ready.lastPathComponent) does not appear")
  }

  func isReady(_ facts: Facts) async throws -> Bool {
    try await installation.send("GET", facts.admin + "/readyz").status == 200
  }

  func waitUntilReady(_ facts: Facts) async throws {
    for _ in 0..<3000 {
      if try await isReady(facts) { return }
      try await Task.sleep(for: .milliseconds(10))
    }
    throw Unexpected("\(facts.admin) does not become ready")
  }

  /// The value of a metric of the process with this admin address; nil when it is not there.
  func metric(_ name: String, of admin: String) async throws -> Double? {
    let text = try await installation.send("GET", admin + "/metrics").text
    return text.split(separator: "\n").first { $0.hasPrefix(name + " ") || $0.hasPrefix(name + "{") }?.split(
      separator: " "
    ).last.flatMap { Double($0) }
  }

  /// Waits for two minutes, because only a few repeated lines are logged in each half minute.
  func waitForLog(_ name: String, _ text: String) async throws {
    for _ in 0..<12_000 {
      if try String(contentsOf: log(name), encoding: .utf8).contains(text) { return }
      try await Task.sleep(for: .milliseconds(10))
    }
    throw Unexpected("the log of \(name) does not say: \(text)\n\(installation.logTails())")
  }

  /// Waits until a process has ended by itself with the code 0.
  func waitForEnd(_ name: String) async throws {
    let process = try #require(processes.first { $0.name == name }?.process)
    for _ in 0..<3000 where process.isRunning { try await Task.sleep(for: .milliseconds(10)) }
    guard !process.isRunning, process.terminationStatus == 0 else {
      throw Unexpected("\(name) does not end\n\(installation.logTails())")
    }
  }

  func stop() {
    for (_, process) in processes where process.isRunning { process.terminate() }
    for (_, process) in processes { process.waitUntilExit() }
  }

  /// Starts an installation in a folder of its own, runs `body`, and stops it in any case.
  static func run(
    operatorToken: String = "planted-operator-token-0123456789abcdef", _ body: (KeyedInstallation) async throws -> Void
  ) async throws {
    let folder = try Installation.makeFolder()
    defer { try? FileManager.default.removeItem(at: folder) }
    let keyed = try await KeyedInstallation(folder: folder, operatorToken: operatorToken)
    defer { keyed.stop() }
    do {
      try await body(keyed)
    } catch {
      Issue.record(error, "the logs end with:\n\(keyed.installation.logTails())")
    }
  }
}
