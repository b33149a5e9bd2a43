// The real server's processes, started by `aquifer dev` in a folder of their own.

package import Foundation
package import ReplicaSync

package struct Unexpected: Error, CustomStringConvertible {
  package let description: String

  package init(_ description: String) { self.description = description }
}

/// A running installation with a container that has the journal's model, or a test's own.
package struct Server: Sendable {
  package static let container = "iCloud.org.example.journal"

  private struct Ready: Decodable {
    let gateway: String
    let notifier: String
    let operatorToken: String
  }

  package let folder: URL
  package let gateway: String
  package let notifier: String
  package let operatorToken: String
  package let modelHash: String
  package let apiToken: String
  let transport: any Transport

  /// The folder of the executables; nil: there are none to run.
  package static let binaries = ProcessInfo.processInfo.environment["AQUIFER_BIN"].map { URL(filePath: $0) }

  /// Options of a server that never says that there are too many requests.
  package static let unlimited = ["--rate-limit", "100000", "--rate-burst", "100000"]

  /// A folder whose files are in memory, where there is one.
  package static var memory: URL {
    let memory = URL(filePath: "/dev/shm")
    return FileManager.default.isWritableFile(atPath: memory.path) ? memory : FileManager.default.temporaryDirectory
  }

  /// - Parameters:
  ///   - root: what the server stores lies in a folder of its own below it.
  ///   - model: the path of an `.xcdatamodeld`; nil: the journal's.
  ///   - body: runs while the processes do.
  package static func run(
    _ options: [String] = [], in root: URL = FileManager.default.temporaryDirectory, model: String? = nil,
    _ body: (Server) async throws -> Void
  ) async throws {
    let folder = root.appending(path: "aq-\(UUID().uuidString.prefix(8))")
    let attributes: [FileAttributeKey: Any] = [.posixPermissions: 0o700]
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true, attributes: attributes)
    defer { try? FileManager.default.removeItem(at: folder) }
    try await launch(folder, "data", options) { ready in try await body(try Server(folder, ready, model)) }
  }

  /// Runs what a backup has, beside the server that made it.
  package func restored(from backup: String, _ body: (Server) async throws -> Void) async throws {
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
    transport = former.transport
  }

  private init(_ folder: URL, _ ready: Ready, _ model: String?) throws {
    self.folder = folder
    transport = CurlTransport()
    (gateway, notifier, operatorToken) = (ready.gateway, ready.notifier, ready.operatorToken)
    let tool = { (words: [String]) in try Self.aquifer(words, ready.gateway, ready.operatorToken) }
    let model = try model ?? Self.journal(in: folder)
    _ = try tool(["container", "create", Self.container])
    let place = ["--container", Self.container, "--environment", "development"]
    let pushed = try tool(["model", "push", model] + place)
    modelHash = try Self.text("modelHash", pushed)
    let token = try tool(["token", "create"] + place + ["--callback-url", "http://127.0.0.1/done"])
    apiToken = try Self.text("apiToken", token)
  }

  /// A server that somebody else runs. The operator's calls make the container with the journal's model.
  /// - Parameters:
  ///   - folder: for the files of replicas.
  ///   - gateway: without a final slash.
  package init(folder: URL, gateway: String, operatorToken: String, transport: any Transport) async throws {
    let tell = { (method: String, path: String, body: String) in
      let answer = try await transport.send(
        TransportRequest(
          method, "\(gateway)/\(path)", headers: [("Authorization", "Bearer \(operatorToken)")], body: Array(body.utf8))
      )
      let object = try? JSONSerialization.jsonObject(with: Data(answer.body)) as? [String: Any]
      guard let object, (200..<300).contains(answer.status) else {
        throw Unexpected("\(answer.status) for \(path): \(String(decoding: answer.body, as: UTF8.self))")
      }
      return object
    }
    let container = Self.container
    _ = try await tell("POST", "admin/1/containers", #"{"container":"\#(container)"}"#)
    modelHash = try Self.text(
      "modelHash", try await tell("PUT", "mirror/1/\(container)/development/model", journalXML))
    let place = #""container":"\#(container)","environment":"development""#
    let token = #"{\#(place),"allowedOrigins":[],"callbackURL":"http://127.0.0.1/done"}"#
    apiToken = try Self.text("apiToken", try await tell("POST", "admin/1/tokens", token))
    (self.folder, self.gateway, self.operatorToken, self.transport) = (folder, gateway, operatorToken, transport)
    notifier = ""
  }

  private static func journal(in folder: URL) throws -> String {
    let model = folder.appending(path: "Journal.xcdatamodeld/Journal.xcdatamodel")
    try FileManager.default.createDirectory(at: model, withIntermediateDirectories: true)
    try journalXML.write(to: model.appending(path: "contents"), atomically: true, encoding: .utf8)
    return model.deletingLastPathComponent().path
  }

  private static func text(_ name: String, _ answer: [String: Any]) throws -> String {
    guard let text = answer[name] as? String else { throw Unexpected("no \(name) in \(answer)") }
    return text
  }

  /// Runs the operator's tool and reads its JSON.
  @discardableResult
  package func aquifer(_ words: String...) throws -> [String: Any] { try Self.aquifer(words, gateway, operatorToken) }

  private static func aquifer(_ words: [String], _ gateway: String, _ operatorToken: String) throws -> [String: Any] {
    let tool = try process(["--json"] + words)
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

  private static func process(_ arguments: [String]) throws -> Process {
    guard let binaries else { throw Unexpected("AQUIFER_BIN does not name the folder of the executables") }
    let process = Process()
    process.executableURL = binaries.appending(path: "aquifer")
    process.arguments = arguments
    process.standardInput = FileHandle.nullDevice
    return process
  }

  // MARK: Users

  private struct NewUser: Codable {
    let name: String
    let email: String
    let givenName: String
    let discoverable: Bool
  }

  private struct MadeUser: Codable {
    let userRecordName: String
    let webAuthToken: String
  }

  package func user(_ name: String) async throws -> User {
    let new = NewUser(name: name, email: "\(name)@example.org", givenName: name, discoverable: true)
    let request = TransportRequest(
      "POST", "\(gateway)/admin/1/users", headers: [("Authorization", "Bearer \(operatorToken)")],
      body: Array(try JSONEncoder().encode(new)))
    let answer = try await transport.send(request)
    guard let made = try? JSONDecoder().decode(MadeUser.self, from: Data(answer.body)), answer.status < 300 else {
      throw Unexpected("\(answer.status) for user \(name): \(String(decoding: answer.body, as: UTF8.self))")
    }
    return User(server: self, name: name, recordName: made.userRecordName, token: made.webAuthToken)
  }
}

extension Process {
  /// Runs with no signal blocked; the threads of tests block all, and processes inherit that.
  package func runUnblocked() throws {
    var none = sigset_t()
    var saved = sigset_t()
    sigemptyset(&none)
    pthread_sigmask(SIG_SETMASK, &none, &saved)
    defer { pthread_sigmask(SIG_SETMASK, &saved, nil) }
    try run()
  }
}
