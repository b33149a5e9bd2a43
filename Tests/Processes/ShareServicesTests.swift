// Several share services, with real processes: the others use the one that leads, whichever of their addresses it has.

import Foundation
import PrivateCluster
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

  @Test(arguments: [SIGKILL, SIGSTOP, SIGTERM])
  func `with PostgreSQL the one that waits takes the lead, and nothing acknowledged is lost or done twice`(
    signal: Int32
  ) async throws {
    let cluster = try PrivateCluster()
    try await SeparateProcesses.run { processes in
      let world = SharesWorld(processes, cluster)
      try await processes.start("share-1", world.options("first"))
      try processes.startUnready("share-2", world.options("second"))
      let app = try await world.startOthers()
      let pid = try processes.pid(of: "share-1")
      var made: Set<String> = []
      for number in 0..<60 {
        if number == 20 { #expect(kill(pid, signal) == 0) }
        let name = "user-\(number)"
        try await world.make(name, in: app.installation)
        made.insert(name)
      }
      try await world.expectUsers(made, in: app.installation)
      if signal == SIGSTOP {
        // The former leader finds out, and ends: started again, it waits.
        #expect(kill(pid, SIGCONT) == 0)
        for _ in 0..<1500 where processes.isRunning("share-1") { try await Task.sleep(for: .milliseconds(20)) }
        #expect(!processes.isRunning("share-1"))
        #expect(try processes.log(of: "share-1").contains("start this one again"))
      }
      let (alice, bob) = (try await app.user("alice"), try await app.user("bob"))
      try await alice.makeZone("Trips")
      _ = try await bob.accept(try await alice.share("Trips", with: [(bob, "READ_ONLY")]))
      try await world.expectUsers(made.union(["alice", "bob"]), in: app.installation)
    }
  }

  @Test func `two share services take the lead from each other, again and again, and each waits as long as it must`()
    async throws
  {
    let cluster = try PrivateCluster()
    try await SeparateProcesses.run { processes in
      let world = SharesWorld(processes, cluster)
      let names = ["share-1", "share-2"]
      try await processes.start(names[0], world.options("first"))
      try processes.startUnready(names[1], world.options("second"))
      let app = try await world.startOthers()
      var made: Set<String> = []
      for round in 0..<4 {
        let (leader, folder) = round % 2 == 0 ? (names[0], "first") : (names[1], "second")
        for number in 0..<10 {
          if number == 3 { try processes.end(leader, by: SIGKILL) }
          if number == 6 { try processes.startUnready(leader, world.options(folder)) }
          let name = "user-\(round)-\(number)"
          try await world.make(name, in: app.installation)
          made.insert(name)
        }
      }
      try await world.expectUsers(made, in: app.installation)
    }
  }

  @Test func `the database fails over to its standby, and nothing acknowledged is lost or done twice`() async throws {
    let primary = try PrivateCluster()
    let standby = try PrivateCluster(following: primary)
    let (folders, ports) = ("\(primary.folder),\(standby.folder)", "\(primary.port),\(standby.port)")
    // The primary's commits wait for the standby. After the failover none is left to wait for.
    let database = "host=\(folders) port=\(ports) user=aquifer dbname=postgres options='-c synchronous_commit=on'"
    try await SeparateProcesses.run { processes in
      let world = SharesWorld(processes, database)
      try await processes.start("share-1", world.options("first"))
      try processes.startUnready("share-2", world.options("second"))
      let app = try await world.startOthers()
      var made: Set<String> = []
      for number in 0..<40 {
        if number == 20 {
          try primary.kill()
          try standby.promote()
        }
        let name = "user-\(number)"
        try await world.make(name, in: app.installation)
        made.insert(name)
      }
      try await world.expectUsers(made, in: app.installation)
    }
  }

  @Test func `while the database is away calls are put off, and the same share service goes on`() async throws {
    let cluster = try PrivateCluster()
    try await SeparateProcesses.run { processes in
      let world = SharesWorld(processes, cluster)
      try await processes.start("share-1", world.options("first"))
      let app = try await world.startOthers()
      var made: Set<String> = []
      for number in 0..<20 {
        if number == 10 {
          try cluster.kill()
          let answer = try await app.installation.send(
            "GET", app.installation.ready.gateway + "/admin/1/users", bearer: app.installation.ready.operatorToken)
          #expect(answer.status == 503 && answer.header("Retry-After") != nil, "\(answer.text)")
          try cluster.start()
        }
        try await world.make("user-\(number)", in: app.installation)
        made.insert("user-\(number)")
      }
      try await world.expectUsers(made, in: app.installation)
      #expect(processes.isRunning("share-1"))
    }
  }
}

/// A gateway and a worker that are told of two share services, each with a folder of its own.
private struct SharesWorld {
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
  func make(_ name: String, in installation: Installation) async throws {
    var told = ""
    for attempt in 0..<600 {
      let answer = try await installation.send(
        "POST", installation.ready.gateway + "/admin/1/users", bearer: installation.ready.operatorToken,
        bytes: Value.object(["name": .string(name)]).json)
      if answer.status == 200 || attempt > 0 && answer.status == 409 { return }
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
      #expect(users.compactMap(\.["name"].string).sorted() == names.sorted(), sourceLocation: sourceLocation)
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
