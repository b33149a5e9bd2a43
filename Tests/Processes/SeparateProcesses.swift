// An installation that a test starts process by process, each with its own disk or network.

import Foundation
import HTTPClient
import Synchronization
import Testing

/// Processes in a folder with their logs, sockets and ready files. No process is restarted.
final class SeparateProcesses: Sendable {
  /// The content of a process's ready file.
  struct Started: Decodable, Sendable {
    let pid: Int32
    let http: String?
    let admin: String
  }

  private struct Entry {
    let process: Process
    let readyFile: URL
  }

  static let operatorToken = "an operator's token for these tests"
  /// In the order of stopping: clients before their servers.
  private static let roles = ["gateway", "notifier", "worker", "share"]
  private static let stopPolls = 1500

  let folder: URL
  private let running = Mutex<[String: Entry]>([:])

  private init(_ folder: URL) throws {
    self.folder = folder
    for name in ["data/log", "run"] {
      try FileManager.default.createDirectory(
        at: folder.appending(path: name), withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
    }
  }

  /// Runs `body` in a new folder, and stops all processes that it started.
  static func run(_ body: (SeparateProcesses) async throws -> Void) async throws {
    let folder = try Installation.makeFolder()
    defer { try? FileManager.default.removeItem(at: folder) }
    let processes = try SeparateProcesses(folder)
    defer { processes.stopAll() }
    do {
      try await body(processes)
    } catch {
      Issue.record(error, "the logs end with:\n\(Installation.logTails(in: folder))")
    }
  }

  /// The default endpoint of a process: a socket in the folder.
  func endpoint(of name: String) -> String { "ipc://\(folder.path)/run/\(name).sock" }

  /// Starts a process and waits until it is ready.
  /// - Parameters:
  ///   - name: its role and a number, such as `worker-1`.
  ///   - share: the share service's endpoint.
  ///   - launcher: a command that executes its last arguments, such as `nsenter`.
  ///   - binaries: the folder of its executable; nil: that of these tests.
  @discardableResult
  func start(
    _ name: String, bus: String? = nil, share: String? = nil, _ options: [String], launcher: [String] = [],
    binaries: URL? = nil
  ) async throws -> Started {
    let started = try launch(
      name, bus: bus, share: share, options, launcher: launcher, binaries: binaries ?? Checkout.products)
    for _ in 0..<3000 {
      if let data = try? Data(contentsOf: started.readyFile),
        let ready = try? JSONDecoder().decode(Started.self, from: data),
        ready.pid == started.process.processIdentifier
      {
        return ready
      }
      guard started.process.isRunning else { break }
      try await Task.sleep(for: .milliseconds(10))
    }
    throw Unexpected("\(name) is not ready")
  }

  /// Starts a process that is not expected to become ready.
  func startUnready(_ name: String, bus: String? = nil, _ options: [String], launcher: [String] = []) throws {
    _ = try launch(name, bus: bus, share: nil, options, launcher: launcher, binaries: Checkout.products)
  }

  private func launch(
    _ name: String, bus: String?, share: String?, _ options: [String], launcher: [String], binaries: URL
  ) throws -> Entry {
    let role = try #require(Self.roles.first { name.hasPrefix($0) })
    let readyFile = folder.appending(path: "run/\(name).ready")
    try? FileManager.default.removeItem(at: readyFile)
    var words = [
      binaries.appending(path: "aquifer-\(role)").path, "--name", name, "--bus", bus ?? endpoint(of: name),
      "--ready-file", readyFile.path,
    ]
    if role != "share" { words += ["--share", share ?? endpoint(of: "share-1")] }
    words = launcher + words + ["--admin", "127.0.0.1:0"] + options
    let process = Process()
    process.executableURL = URL(filePath: words[0])
    process.arguments = Array(words.dropFirst())
    process.environment = ProcessInfo.processInfo.environment.merging(["AQUIFER_OPERATOR_TOKEN": Self.operatorToken]) {
      $1
    }
    let log = folder.appending(path: "data/log/\(name).log")
    if !FileManager.default.fileExists(atPath: log.path) {
      _ = FileManager.default.createFile(atPath: log.path, contents: nil)
    }
    let handle = try FileHandle(forWritingTo: log)
    try handle.seekToEnd()
    process.standardOutput = handle
    process.standardError = handle
    process.standardInput = FileHandle.nullDevice
    try process.runUnblocked()
    let entry = Entry(process: process, readyFile: readyFile)
    running.withLock { $0[name] = entry }
    return entry
  }

  /// The installation's addresses for its clients.
  func installation(gateway: Started) -> Installation {
    Installation(
      folder: folder, pid: 0,
      ready: Ready(
        gateway: gateway.http ?? "", notifier: "", operatorToken: Self.operatorToken, pids: [:],
        admin: ["gateway": gateway.admin]))
  }

  /// Ends a process, which must still run, and waits for its end.
  /// - Returns: how it ended: with an exit code, or by the signal of that number.
  @discardableResult
  func end(_ name: String, by signal: Int32) throws -> (reason: Process.TerminationReason, code: Int32) {
    guard let entry = running.withLock({ $0.removeValue(forKey: name) }), entry.process.isRunning else {
      throw Unexpected("\(name) does not run")
    }
    kill(entry.process.processIdentifier, signal)
    entry.process.waitUntilExit()
    return (entry.process.terminationReason, entry.process.terminationStatus)
  }

  func pid(of name: String) throws -> pid_t {
    guard let entry = running.withLock({ $0[name] }) else { throw Unexpected("\(name) does not run") }
    return entry.process.processIdentifier
  }

  func isRunning(_ name: String) -> Bool { running.withLock { $0[name]?.process.isRunning ?? false } }

  func log(of name: String) throws -> String {
    try String(contentsOf: folder.appending(path: "data/log/\(name).log"), encoding: .utf8)
  }

  private func stopAll() {
    for role in Self.roles {
      let entries = running.withLock { running in running.filter { $0.key.hasPrefix(role) }.map(\.value) }
      for entry in entries where entry.process.isRunning { entry.process.terminate() }
      for entry in entries {
        for _ in 0..<Self.stopPolls where entry.process.isRunning { usleep(10_000) }
        if entry.process.isRunning { kill(entry.process.processIdentifier, SIGKILL) }
        entry.process.waitUntilExit()
      }
    }
  }
}
