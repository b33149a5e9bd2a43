// Several share services, with real processes: the others use the one that leads, whichever of their addresses it has.

import Foundation
import Testing

@Suite(.serialized, .timeLimit(.minutes(2))) struct ShareServicesTests {
  @Test func `processes that are told two addresses use the one that answers`() async throws {
    try await SeparateProcesses.run { processes in
      let world = SharesWorld(processes)
      try await processes.start("share-2", world.options("second"))
      let device = try await world.startOthers().user("alice").device("phone")
      try await device.save([MainJob.insert("Tag", UUID().uuidString)])
    }
  }

  @Test func `a share service that stood still while another took its place leads nobody when it goes on`() async throws
  {
    try await SeparateProcesses.run { processes in
      let world = SharesWorld(processes)
      let former = try await processes.start("share-1", world.options("first"))
      let app = try await world.startOthers()
      let device = try await app.user("alice").device("phone")
      let pid = try processes.pid(of: "share-1")
      #expect(kill(pid, SIGSTOP) == 0)
      do {
        defer { kill(pid, SIGCONT) }
        try FileManager.default.copyItem(atPath: world.folder("first"), toPath: world.folder("second"))
        try await processes.start("share-2", world.options("second") + ["--epoch", "2"])
        try await world.make("bob", in: app.installation)
      }
      try await world.waitForRefusals(1)
      let readiness = try await app.installation.send("GET", former.admin + "/readyz")
      #expect(readiness.status == 503 && readiness.text.contains("the share service of epoch 2 leads"))
      try await world.expectUsers(["alice", "bob"], in: app.installation)
      try await device.save([MainJob.insert("Tag", UUID().uuidString)])

      try processes.end("share-1", by: SIGTERM)
      try await processes.start("share-1", world.options("first"))
      try await world.waitForRefusals(2)
      try await world.expectUsers(["alice", "bob"], in: app.installation)
      try await device.save([MainJob.insert("Tag", UUID().uuidString)])
    }
  }

  @Test func `while the one that leads is away nobody goes back to its predecessor`() async throws {
    try await SeparateProcesses.run { processes in
      let world = SharesWorld(processes)
      try await processes.start("share-1", world.options("first"))
      let app = try await world.startOthers()
      try processes.end("share-1", by: SIGKILL)
      try FileManager.default.copyItem(atPath: world.folder("first"), toPath: world.folder("second"))
      try await processes.start("share-2", world.options("second") + ["--epoch", "2"])
      try await world.make("bob", in: app.installation)
      try processes.end("share-2", by: SIGKILL)
      try await processes.start("share-1", world.options("first"))
      try await world.waitForRefusals(1)
      let answer = try await app.installation.send(
        "GET", app.installation.ready.gateway + "/admin/1/users", bearer: app.installation.ready.operatorToken)
      #expect(answer.status == 503, "\(answer.text)")
      // The directory knows its epoch.
      try await processes.start("share-2", world.options("second"))
      try await world.make("carol", in: app.installation)
      try await world.expectUsers(["bob", "carol"], in: app.installation)
    }
  }
}

/// A gateway and a worker that are told of two share services, each with a folder of its own.
private struct SharesWorld {
  let processes: SeparateProcesses

  init(_ processes: SeparateProcesses) { self.processes = processes }

  func folder(_ name: String) -> String { processes.folder.path + "/" + name }
  func options(_ folder: String) -> [String] { ["--data", self.folder(folder), "--shards", "4"] }

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

  /// Makes a user, as soon as a share service answers.
  func make(_ name: String, in installation: Installation) async throws {
    var told = ""
    for _ in 0..<100 {
      let answer = try await installation.send(
        "POST", installation.ready.gateway + "/admin/1/users", bearer: installation.ready.operatorToken,
        bytes: Value.object(["name": .string(name)]).json)
      if answer.status == 200 { return }
      told = answer.text
      guard answer.status == 503 else { break }
      try await Task.sleep(for: .milliseconds(50))
    }
    throw Unexpected("no user is made: \(told)")
  }

  /// Asks often, because calls could take turns between two share services.
  func expectUsers(
    _ names: Set<String>, in installation: Installation, sourceLocation: SourceLocation = #_sourceLocation
  ) async throws {
    for _ in 0..<20 {
      let users = try await installation.admin("GET", "/admin/1/users")["users"].elements
      #expect(Set(users.compactMap(\.["name"].string)) == names, sourceLocation: sourceLocation)
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
}
