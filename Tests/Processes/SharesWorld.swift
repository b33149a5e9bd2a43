// Two share services, of one installation's directory or of copies of it, and what operators see of them.

import Foundation
import PrivateCluster
import Testing

/// A gateway and a worker that are told of two share services, each with a folder of its own.
struct SharesWorld {
  let processes: SeparateProcesses
  /// The directory's place, if it is in PostgreSQL.
  let database: String?

  init(_ processes: SeparateProcesses, _ database: String? = nil) {
    self.processes = processes
    self.database = database
  }

  init(_ processes: SeparateProcesses, _ cluster: PrivateCluster) {
    self.init(processes, "\(cluster.address) options='-c synchronous_commit=local'")
  }

  func folder(_ name: String) -> String { processes.folder.path + "/" + name }

  func options(_ folder: String) -> [String] {
    ["--data", self.folder(folder), "--shards", "4"]
      + (database.map { ["--directory", $0, "--allow-asynchronous"] } ?? [])
  }

  func startOthers() async throws -> App {
    let shares = ["share-1", "share-2"].map(processes.endpoint).joined(separator: ",")
    let data = folder("data/records")
    try await processes.start("worker-1", share: shares, ["--data", data])
    let gateway = try await processes.start(
      "gateway-1", share: shares,
      ["--http", "127.0.0.1:0", "--assets", data + "/assets", "--request-deadline", "5", "--upload-reserve", "0"])
    return try await App(
      processes.installation(gateway: gateway),
      model: Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path)
  }

  /// Makes a user, as soon as a share service answers. A repetition may find that its predecessor had made the user.
  static func make(_ name: String, in installation: Installation) async throws {
    var told = ""
    for attempt in 0..<600 {
      let answer = try await self.attempt(name, in: installation)
      if answer.status == 200 || attempt > 0 && answer.status == 409 { return }
      told = answer.text
      guard answer.status == 503 else { break }
      try await Task.sleep(for: .milliseconds(50))
    }
    throw Unexpected("no user is made: \(told)")
  }

  /// Tries once to make a user.
  static func attempt(_ name: String, in installation: Installation) async throws -> Installation.Answer {
    try await installation.send(
      "POST", installation.ready.gateway + "/admin/1/users", bearer: installation.ready.operatorToken,
      bytes: Value.object(["name": .string(name)]).json)
  }

  /// The names of all users, ascending.
  static func users(in installation: Installation) async throws -> [String] {
    try await installation.admin("GET", "/admin/1/users")["users"].elements.compactMap(\.["name"].string).sorted()
  }

  /// Asks often, because calls could take turns between two share services.
  static func expectUsers(
    _ names: Set<String>, in installation: Installation, sourceLocation: SourceLocation = #_sourceLocation
  ) async throws {
    for _ in 0..<20 {
      #expect(try await users(in: installation) == names.sorted(), sourceLocation: sourceLocation)
    }
  }

  /// Waits until `share-1` has found so many times that another one leads.
  func waitForRefusals(_ count: Int) async throws {
    for _ in 0..<1000 {
      if try processes.log(of: "share-1").matches(of: /another share service leads/).count >= count { return }
      try await Task.sleep(for: .milliseconds(20))
    }
    throw Unexpected("share-1 does not see that another one leads")
  }

  /// Waits until a share service has found that another one leads, and ended.
  static func waitForEnd(of name: String, _ processes: SeparateProcesses) async throws {
    for _ in 0..<1500 where processes.isRunning(name) { try await Task.sleep(for: .milliseconds(20)) }
    let log = try processes.log(of: name)
    guard !processes.isRunning(name), log.contains("start this one again") else {
      throw Unexpected("\(name) does not find that another one leads")
    }
  }
}
