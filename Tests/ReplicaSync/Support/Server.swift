// The real server's processes, started by `aquifer dev` in a folder of their own.

import Foundation
import MirrorWire
import ReplicaSync
import Testing

struct Unexpected: Error, CustomStringConvertible {
  let description: String

  init(_ description: String) { self.description = description }
}

/// A running installation with the journal's container.
struct Server: Sendable {
  static let container = "iCloud.org.example.journal"

  private struct Ready: Decodable {
    let gateway: String
    let notifier: String
    let operatorToken: String
  }

  let folder: URL
  let gateway: String
  let notifier: String
  let operatorToken: String
  let modelHash: String
  let apiToken: String

  /// The folder of the executables; nil: the tests against real processes have nothing to run.
  static let binaries = ProcessInfo.processInfo.environment["AQUIFER_BIN"].map { URL(filePath: $0) }

  /// - Parameter body: runs while the processes do.
  static func run(_ options: [String] = [], _ body: (Server) async throws -> Void) async throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "aq-\(UUID().uuidString.prefix(8))")
    let attributes: [FileAttributeKey: Any] = [.posixPermissions: 0o700]
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true, attributes: attributes)
    defer { try? FileManager.default.removeItem(at: folder) }
    try await launch(folder, "data", options) { ready in try await body(try await Server(folder, ready)) }
  }

  /// Runs what a backup has, beside the server that made it.
  func restored(from backup: String, _ body: (Server) async throws -> Void) async throws {
    _ = try aquifer("restore", backup, "--data", "\(folder.path)/restored")
    let key = "encryption-key"
    try FileManager.default.copyItem(
      at: folder.appending(path: "data/\(key)"), to: folder.appending(path: "restored/\(key)"))
    try await Self.launch(folder, "restored", []) { ready in try await body(Server(self, ready)) }
  }

  /// - Parameter data: the name of the data's folder within `folder`.
  private static func launch(
    _ folder: URL, _ data: String, _ options: [String], _ body: (Ready) async throws -> Void
  ) async throws {
    let readyFile = folder.appending(path: "ready-\(data)")
    let dev = try process(
      try #require(Self.binaries),
      [
        "dev", "--data", "\(folder.path)/\(data)", "--http-port", "0", "--ping-port", "0", "--ready-file",
        readyFile.path,
      ] + options)
    let log = folder.appending(path: "log-\(data)")
    _ = FileManager.default.createFile(atPath: log.path, contents: nil)
    dev.standardOutput = try FileHandle(forWritingTo: log)
    dev.standardError = dev.standardOutput
    try dev.runUnblocked()
    defer {
      dev.terminate()
      dev.waitUntilExit()
    }
    var ready: Ready?
    for _ in 0..<3000 where ready == nil {
      try await Task.sleep(for: .milliseconds(10))
      ready = try? JSONDecoder().decode(Ready.self, from: Data(contentsOf: readyFile))
      if !dev.isRunning { break }
    }
    guard let ready else {
      throw Unexpected("aquifer dev is not ready: \((try? String(contentsOf: log, encoding: .utf8)) ?? "")")
    }
    try await body(ready)
  }

  private init(_ former: Server, _ ready: Ready) {
    (folder, modelHash, apiToken) = (former.folder, former.modelHash, former.apiToken)
    (gateway, notifier, operatorToken) = (ready.gateway, ready.notifier, ready.operatorToken)
  }

  private init(_ folder: URL, _ ready: Ready) async throws {
    self.folder = folder
    (gateway, notifier, operatorToken) = (ready.gateway, ready.notifier, ready.operatorToken)
    let tool = { (words: [String]) in try Self.aquifer(words, ready.gateway, ready.operatorToken) }
    let model = folder.appending(path: "Journal.xcdatamodeld/Journal.xcdatamodel")
    try FileManager.default.createDirectory(at: model, withIntermediateDirectories: true)
    try journalXML.write(to: model.appending(path: "contents"), atomically: true, encoding: .utf8)
    _ = try tool(["container", "create", Self.container])
    let place = ["--container", Self.container, "--environment", "development"]
    let pushed = try tool(["model", "push", model.deletingLastPathComponent().path] + place)
    modelHash = try #require(pushed["modelHash"] as? String)
    apiToken = try #require(
      try tool(["token", "create"] + place + ["--callback-url", "http://127.0.0.1/done"])["apiToken"] as? String)
  }

  /// Runs the operator's tool and reads its JSON.
  func aquifer(_ words: String...) throws -> [String: Any] { try Self.aquifer(words, gateway, operatorToken) }

  private static func aquifer(_ words: [String], _ gateway: String, _ operatorToken: String) throws -> [String: Any] {
    let tool = try process(try #require(binaries), ["--json"] + words)
    tool.environment = ["AQUIFER_SERVER": gateway, "AQUIFER_OPERATOR_TOKEN": operatorToken]
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

  private static func process(_ binaries: URL, _ arguments: [String]) throws -> Process {
    let process = Process()
    process.executableURL = binaries.appending(path: "aquifer")
    process.arguments = arguments
    process.standardInput = FileHandle.nullDevice
    return process
  }

  // MARK: Users

  func user(_ name: String, password: String? = nil) async throws -> User {
    let words = ["user", "create", name, "--email", "\(name)@example.org", "--given-name", name, "--discoverable"]
    let made = try Self.aquifer(words, gateway, operatorToken)
    return User(
      server: self, name: name, recordName: try #require(made["userRecordName"] as? String),
      token: try #require(made["webAuthToken"] as? String))
  }
}

/// Somebody with an account.
struct User: Sendable {
  let server: Server
  let name: String
  let recordName: String
  let token: String

  /// - Parameters:
  ///   - gateway: nil: the server's own.
  ///   - hasPings: false: imports wait at the gateway.
  func account(gateway: String? = nil, hasPings: Bool = true) -> Account {
    Account(
      server: gateway ?? server.gateway, notifier: hasPings ? server.notifier : nil, apiToken: server.apiToken,
      tokens: FixedToken(token: token))
  }
}

/// A token of the operator's, which is never renewed.
struct FixedToken: Account.TokenStore {
  let token: String?

  func load() throws -> String? { token }
  func store(_ token: String?) throws {}
}

extension Process {
  /// Runs with no signal blocked; the threads of tests block all, and processes inherit that.
  func runUnblocked() throws {
    var none = sigset_t()
    var saved = sigset_t()
    sigemptyset(&none)
    pthread_sigmask(SIG_SETMASK, &none, &saved)
    defer { pthread_sigmask(SIG_SETMASK, &saved, nil) }
    try run()
  }
}

/// Every kind of relationship, and a large value.
let journalXML = """
  <?xml version="1.0" encoding="UTF-8" standalone="yes"?>
  <model type="com.apple.IDECoreDataModeler.DataModel" documentVersion="1.0" usedWithCloudKit="YES">
    <entity name="Post" representedClassName="Post" syncable="YES">
      <attribute name="title" optional="YES" attributeType="String"/>
      <attribute name="score" optional="YES" attributeType="Integer 64" usesScalarValueType="NO"/>
      <attribute name="photo" optional="YES" attributeType="Binary" allowsExternalBinaryDataStorage="YES"/>
      <relationship name="cover" optional="YES" maxCount="1" deletionRule="Nullify" destinationEntity="Cover" \
  inverseName="post" inverseEntity="Cover"/>
      <relationship name="remarks" optional="YES" toMany="YES" deletionRule="Nullify" destinationEntity="Remark" \
  inverseName="post" inverseEntity="Remark"/>
      <relationship name="tags" optional="YES" toMany="YES" deletionRule="Nullify" destinationEntity="Tag" \
  inverseName="posts" inverseEntity="Tag"/>
    </entity>
    <entity name="Cover" representedClassName="Cover" syncable="YES">
      <attribute name="name" optional="YES" attributeType="String"/>
      <relationship name="post" optional="YES" maxCount="1" deletionRule="Nullify" destinationEntity="Post" \
  inverseName="cover" inverseEntity="Post"/>
    </entity>
    <entity name="Remark" representedClassName="Remark" syncable="YES">
      <attribute name="text" optional="YES" attributeType="String"/>
      <relationship name="post" optional="YES" maxCount="1" deletionRule="Nullify" destinationEntity="Post" \
  inverseName="remarks" inverseEntity="Post"/>
    </entity>
    <entity name="Tag" representedClassName="Tag" syncable="YES">
      <attribute name="name" optional="YES" attributeType="String"/>
      <relationship name="posts" optional="YES" toMany="YES" deletionRule="Nullify" destinationEntity="Post" \
  inverseName="tags" inverseEntity="Post"/>
    </entity>
  </model>
  """
