// The real server's processes, started by `aquifer dev` in a folder of their own, with the photos' model.

import AquiferClient
import Foundation
import Testing

struct Unexpected: Error, CustomStringConvertible {
  let description: String

  init(_ description: String) { self.description = description }
}

/// A running server that knows the model of the tests.
struct Installation: Sendable {
  static let container = "iCloud.org.example.photos"
  /// The folder of the executables; nil: the tests against real processes have nothing to run.
  static let binaries = ProcessInfo.processInfo.environment["AQUIFER_BIN"].map { URL(filePath: $0) }

  private struct Ready: Decodable {
    let gateway: String
    let notifier: String
    let operatorToken: String
  }

  let folder: URL
  private let ready: Ready
  private let apiToken: String

  var gateway: String { ready.gateway }
  var operatorToken: String { ready.operatorToken }

  /// - Parameter body: runs while the processes do.
  static func run(_ options: [String] = [], _ body: (Installation) async throws -> Void) async throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "aq-\(UUID().uuidString.prefix(8))")
    let attributes: [FileAttributeKey: Any] = [.posixPermissions: 0o700]
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true, attributes: attributes)
    defer { try? FileManager.default.removeItem(at: folder) }
    let (readyFile, log) = (folder.appending(path: "ready"), folder.appending(path: "log"))
    let ports = ["--http-port", "0", "--ping-port", "0", "--ready-file", readyFile.path]
    let dev = try process(["dev", "--data", "\(folder.path)/data"] + ports + options)
    _ = FileManager.default.createFile(atPath: log.path, contents: nil)
    dev.standardOutput = try FileHandle(forWritingTo: log)
    dev.standardError = dev.standardOutput
    try dev.runUnblocked()
    defer {
      dev.terminate()
      dev.waitUntilExit()
    }
    for _ in 0..<3000 where dev.isRunning {
      if let ready = try? JSONDecoder().decode(Ready.self, from: Data(contentsOf: readyFile)) {
        return try await body(try Installation(folder, ready))
      }
      try await Task.sleep(for: .milliseconds(10))
    }
    throw Unexpected("aquifer dev is not ready: \((try? String(contentsOf: log, encoding: .utf8)) ?? "")")
  }

  private init(_ folder: URL, _ ready: Ready) throws {
    (self.folder, self.ready) = (folder, ready)
    let place = ["--container", Self.container, "--environment", "development"]
    let model = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .appending(path: "Photos.xcdatamodeld")
    _ = try Self.aquifer(["container", "create", Self.container], ready)
    _ = try Self.aquifer(["model", "push", model.path] + place, ready)
    let made = try Self.aquifer(["token", "create"] + place + ["--callback-url", "http://127.0.0.1/done"], ready)
    apiToken = try #require(made["apiToken"] as? String)
  }

  /// Runs the operator's tool and reads its JSON.
  @discardableResult func aquifer(_ words: String...) throws -> [String: Any] { try Self.aquifer(words, ready) }

  private static func aquifer(_ words: [String], _ ready: Ready) throws -> [String: Any] {
    let tool = try process(["--json"] + words)
    tool.environment = ["AQUIFER_SERVER": ready.gateway, "AQUIFER_OPERATOR_TOKEN": ready.operatorToken]
    let (output, problem) = (Pipe(), Pipe())
    (tool.standardOutput, tool.standardError) = (output, problem)
    try tool.runUnblocked()
    let data = output.fileHandleForReading.readDataToEndOfFile()
    let reason = problem.fileHandleForReading.readDataToEndOfFile()
    tool.waitUntilExit()
    guard let object = try? JSONSerialization.jsonObject(with: data) as? [String: Any], tool.terminationStatus == 0
    else {
      throw Unexpected("\(words.joined(separator: " ")): \(String(decoding: reason + data, as: UTF8.self))")
    }
    return object
  }

  private static func process(_ arguments: [String]) throws -> Process {
    let process = Process()
    process.executableURL = try #require(binaries).appending(path: "aquifer")
    process.arguments = arguments
    process.standardInput = FileHandle.nullDevice
    return process
  }

  /// A new user, who can be found.
  func user(_ name: String) throws -> User {
    let made = try aquifer(
      "user", "create", name, "--email", "\(name)@example.org", "--given-name", name, "--discoverable")
    return User(
      recordName: try #require(made["userRecordName"] as? String), token: try #require(made["webAuthToken"] as? String))
  }

  func account(_ tokens: any Account.TokenStore) -> Account {
    Account(server: ready.gateway, notifier: ready.notifier, apiToken: apiToken, tokens: tokens)
  }
}

struct User: Sendable {
  let recordName: String
  let token: String
}

extension Process {
  /// Runs with no signal blocked; the threads of tests block all, and processes inherit that.
  fileprivate func runUnblocked() throws {
    var none = sigset_t()
    var saved = sigset_t()
    sigemptyset(&none)
    pthread_sigmask(SIG_SETMASK, &none, &saved)
    defer { pthread_sigmask(SIG_SETMASK, &saved, nil) }
    try run()
  }
}
