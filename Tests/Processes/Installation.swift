// An installation of real processes, started by `aquifer dev` in a folder of its own.

import Foundation
import HTTPClient
import Testing

/// The running processes according to the ready file.
struct Ready: Decodable, Sendable {
  let gateway: String
  let notifier: String
  let operatorToken: String
  let pids: [String: [Int32]]
  let admin: [String: String]
}

/// A running installation. A value, so that several tasks of a test may use it.
struct Installation: Sendable {
  let folder: URL
  /// The pid of `aquifer dev`.
  let pid: Int32
  let ready: Ready
  var client = HTTPClient()
  /// The authority of its certificates; nil: it uses plain HTTP.
  var authority: String? = nil

  var readyFile: URL { folder.appending(path: "ready.json") }

  static func readyFile(in folder: URL) -> Ready? {
    guard let data = try? Data(contentsOf: folder.appending(path: "ready.json")) else { return nil }
    return try? JSONDecoder().decode(Ready.self, from: data)
  }

  /// The present content of the ready file.
  func now() throws -> Ready {
    guard let ready = Self.readyFile(in: folder) else { throw Unexpected("there is no ready file") }
    return ready
  }

  /// Waits until the ready file satisfies `condition`.
  func waitForReadyFile(where condition: (Ready) -> Bool) async throws -> Ready {
    for _ in 0..<3000 {
      let ready = try now()
      if condition(ready) { return ready }
      try await Task.sleep(for: .milliseconds(10))
    }
    throw Unexpected("the ready file did not become what was expected: \(try now())")
  }

  /// Starts an installation, runs `body`, and stops the installation in any case.
  /// - Parameters:
  ///   - data: a folder kept by the caller; nil: a folder that is removed at the end.
  ///   - options: further options of `aquifer dev`.
  ///   - tls: true: uses TLS with a new certificate, whose authority is `authority`.
  static func run(
    workers: Int = 1, folder given: URL? = nil, options: [String] = [], environment: [String: String] = [:],
    tls: Bool = false,
    _ body: (Installation) async throws -> Void
  ) async throws {
    let folder = try given ?? makeFolder()
    defer { if given == nil { try? FileManager.default.removeItem(at: folder) } }
    try? FileManager.default.removeItem(at: folder.appending(path: "ready.json"))
    let certificates = tls ? try CommandLineTool.certificates(in: folder) : nil
    let options =
      options
      + (certificates.map {
        ["--tls-certificate", $0.appending(path: "chain.pem").path, "--tls-key", $0.appending(path: "key.pem").path]
      } ?? [])
    let authority = certificates?.appending(path: "ca.pem").path
    let dev = try start(workers: workers, folder: folder, options: options, environment: environment)
    defer {
      if dev.isRunning { dev.terminate() }
      dev.waitUntilExit()
    }
    let installation = Installation(
      folder: folder, pid: dev.processIdentifier, ready: try await waitUntilReady(dev, folder),
      client: HTTPClient(certificateAuthorityFile: authority),
      authority: authority)
    do {
      try await body(installation)
    } catch {
      Issue.record(error, "the logs end with:\n\(installation.logTails())")
    }
  }

  static func makeFolder() throws -> URL {
    let folder = FileManager.default.temporaryDirectory.appending(path: "aq-\(UUID().uuidString.prefix(8))")
    // Not readable for others, because sockets are in it or below it.
    try FileManager.default.createDirectory(
      at: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
    return folder
  }

  /// Starts `aquifer dev` on free ports.
  static func start(workers: Int, folder: URL, options: [String] = [], environment: [String: String] = [:]) throws
    -> Process
  {
    let dev = Process()
    dev.executableURL = Checkout.products.appending(path: "aquifer")
    dev.arguments =
      [
        "dev", "--data", folder.appending(path: "data").path, "--http-port", "0", "--ping-port", "0", "--workers",
        "\(workers)", "--ready-file",
        folder.appending(path: "ready.json").path,
      ] + options
    dev.environment = ProcessInfo.processInfo.environment.merging(environment) { $1 }
    let log = folder.appending(path: "dev.log")
    _ = FileManager.default.createFile(atPath: log.path, contents: nil)
    let handle = try FileHandle(forWritingTo: log)
    dev.standardOutput = handle
    dev.standardError = handle
    dev.standardInput = FileHandle.nullDevice
    try dev.runUnblocked()
    return dev
  }

  static func waitUntilReady(_ dev: Process, _ folder: URL) async throws -> Ready {
    for _ in 0..<3000 {
      if let ready = readyFile(in: folder) { return ready }
      guard dev.isRunning else { break }
      try await Task.sleep(for: .milliseconds(10))
    }
    throw Unexpected("aquifer dev is not ready:\n\(logTails(in: folder))")
  }

  func logTails() -> String { Self.logTails(in: folder) }

  static func logTails(in folder: URL) -> String {
    let logs = folder.appending(path: "data/log")
    let names = ((try? FileManager.default.contentsOfDirectory(atPath: logs.path)) ?? []).filter {
      $0.hasSuffix(".log")
    }.sorted()
    return ([folder.appending(path: "dev.log")] + names.map { logs.appending(path: $0) }).map { url in
      let lines = ((try? String(contentsOf: url, encoding: .utf8)) ?? "").split(separator: "\n").suffix(12)
      return "== \(url.lastPathComponent)\n" + lines.joined(separator: "\n")
    }.joined(separator: "\n")
  }

  // MARK: Requests

  struct Answer: Sendable {
    let status: Int
    let headers: [HTTPClient.Header]
    let bytes: [UInt8]

    var json: Value { get throws { try Value(json: bytes) } }
    var text: String { String(decoding: bytes, as: UTF8.self) }
    func header(_ name: String) -> String? { headers.first { $0.name.lowercased() == name.lowercased() }?.value }
  }

  func send(
    _ method: String, _ url: String, bearer: String? = nil, headers: [(String, String)] = [], bytes: [UInt8]? = nil,
    timeout: Duration = .seconds(75)
  ) async throws -> Answer {
    var all = headers.map { HTTPClient.Header($0.0, $0.1) }
    if let bearer { all.append(HTTPClient.Header("Authorization", "Bearer \(bearer)")) }
    let response = try await client.send(method, url, headers: all, body: bytes, timeout: timeout)
    return Answer(status: response.status, headers: response.headers, bytes: response.body)
  }

  /// An operator's call, which must succeed.
  @discardableResult
  func admin(_ method: String, _ path: String, _ body: Value? = nil) async throws -> Value {
    let answer = try await send(method, ready.gateway + path, bearer: ready.operatorToken, bytes: try body?.json)
    guard answer.status == 200 else { throw Unexpected("\(method) \(path): \(answer.status) \(answer.text)") }
    return try answer.json
  }

  /// Runs the CLI with this installation in its environment.
  func aquifer(_ words: String...) async throws -> (code: Int32, output: String, problem: String) {
    try await aquifer(words)
  }

  func aquifer(_ words: [String]) async throws -> (code: Int32, output: String, problem: String) {
    var environment = ["AQUIFER_SERVER": ready.gateway, "AQUIFER_OPERATOR_TOKEN": ready.operatorToken]
    if let authority { environment["AQUIFER_CERTIFICATE_AUTHORITY"] = authority }
    return try CommandLineTool.run(words, environment: environment)
  }
}

/// Runs `aquifer` or another command to its end.
enum CommandLineTool {
  /// - Returns: a new folder in `folder` with the files of Tests/Clients/certificates.
  static func certificates(in folder: URL) throws -> URL {
    let certificates = folder.appending(path: "certificates")
    let made = try run([certificates.path], executable: Checkout.root.appending(path: "Tests/Clients/certificates"))
    guard made.code == 0 else { throw Unexpected("certificates: \(made.problem)") }
    return certificates
  }

  static func run(
    _ words: [String], executable: URL = Checkout.products.appending(path: "aquifer"),
    environment: [String: String] = [:]
  ) throws -> (code: Int32, output: String, problem: String) {
    let tool = Process()
    tool.executableURL = executable
    tool.arguments = words
    tool.environment = ProcessInfo.processInfo.environment.merging(environment) { $1 }
    let output = Pipe()
    let problem = Pipe()
    tool.standardOutput = output
    tool.standardError = problem
    tool.standardInput = FileHandle.nullDevice
    try tool.runUnblocked()
    let text = output.fileHandleForReading.readDataToEndOfFile()
    let reason = problem.fileHandleForReading.readDataToEndOfFile()
    tool.waitUntilExit()
    return (tool.terminationStatus, String(decoding: text, as: UTF8.self), String(decoding: reason, as: UTF8.self))
  }
}
