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
        try await SharesWorld.make("bob", in: app.installation)
      }
      try await world.waitForRefusals(1)
      let readiness = try await app.installation.send("GET", former.admin + "/readyz")
      #expect(readiness.status == 503 && readiness.text.contains("the share service of epoch 2 leads"))
      try await SharesWorld.expectUsers(["alice", "bob"], in: app.installation)
      try await device.save([MainJob.insert("Tag", UUID().uuidString)])

      try processes.end("share-1", by: SIGTERM)
      try await processes.start("share-1", world.options("first"))
      try await world.waitForRefusals(2)
      try await SharesWorld.expectUsers(["alice", "bob"], in: app.installation)
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
      try await SharesWorld.make("bob", in: app.installation)
      try processes.end("share-2", by: SIGKILL)
      try await processes.start("share-1", world.options("first"))
      try await world.waitForRefusals(1)
      let answer = try await app.installation.send(
        "GET", app.installation.ready.gateway + "/admin/1/users", bearer: app.installation.ready.operatorToken)
      #expect(answer.status == 503, "\(answer.text)")
      // The directory knows its epoch.
      try await processes.start("share-2", world.options("second"))
      try await SharesWorld.make("carol", in: app.installation)
      try await SharesWorld.expectUsers(["bob", "carol"], in: app.installation)
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
        try await SharesWorld.make(name, in: app.installation)
        made.insert(name)
      }
      try await SharesWorld.expectUsers(made, in: app.installation)
      if signal == SIGSTOP {
        // The former leader finds out, and ends: started again, it waits.
        #expect(kill(pid, SIGCONT) == 0)
        try await SharesWorld.waitForEnd(of: "share-1", processes)
      }
      let (alice, bob) = (try await app.user("alice"), try await app.user("bob"))
      try await alice.makeZone("Trips")
      _ = try await bob.accept(try await alice.share("Trips", with: [(bob, "READ_ONLY")]))
      try await SharesWorld.expectUsers(made.union(["alice", "bob"]), in: app.installation)
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
          try await SharesWorld.make(name, in: app.installation)
          made.insert(name)
        }
      }
      try await SharesWorld.expectUsers(made, in: app.installation)
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
        try await SharesWorld.make(name, in: app.installation)
        made.insert(name)
      }
      try await SharesWorld.expectUsers(made, in: app.installation)
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
        try await SharesWorld.make("user-\(number)", in: app.installation)
        made.insert("user-\(number)")
      }
      try await SharesWorld.expectUsers(made, in: app.installation)
      #expect(processes.isRunning("share-1"))
    }
  }

  @Test func `two that believe they lead, forced by SQL, lose nothing and do nothing twice, and the former one ends`()
    async throws
  {
    let cluster = try PrivateCluster()
    try await SeparateProcesses.run { processes in
      let world = SharesWorld(processes, cluster)
      try await processes.start("share-1", world.options("first"))
      try processes.startUnready("share-2", world.options("second"))
      let installation = try await world.startOthers().installation
      try await SharesWorld.make("before", in: installation)
      let pid = try processes.pid(of: "share-1")
      #expect(kill(pid, SIGSTOP) == 0)
      typealias Attempt = (name: String, status: Int)
      let answers: [Attempt] = try await withThrowingTaskGroup(of: Attempt.self) { group in
        defer { kill(pid, SIGCONT) }
        // They wait for the one that stands still, which goes on with them.
        for number in 0..<6 {
          group.addTask {
            let name = "waiting-\(number)"
            return (name, try await SharesWorld.attempt(name, in: installation).status)
          }
        }
        try cluster.run(
          "SELECT pg_terminate_backend(pid, 10000) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2")
        try await SharesWorld.make("stopped", in: installation)
        kill(pid, SIGCONT)
        try await SharesWorld.make("resumed", in: installation)
        return try await group.reduce(into: []) { $0.append($1) }
      }
      #expect(answers.allSatisfy { [200, 503].contains($0.status) }, "\(answers)")
      try await SharesWorld.waitForEnd(of: "share-1", processes)
      var made = Set(answers.filter { $0.status == 200 }.map(\.name) + ["before", "stopped", "resumed"])
      let names = try await SharesWorld.users(in: installation)
      #expect(Set(names).count == names.count)
      #expect(made.isSubset(of: names) && made.union(answers.map(\.name)).isSuperset(of: names))

      // The other one has its lock and its pulse, and finds another epoch at its next change.
      try processes.startUnready("share-1", world.options("first"))
      try cluster.run("UPDATE directory.tenure SET epoch = epoch + 1")
      try await SharesWorld.make("raised", in: installation)
      try await SharesWorld.waitForEnd(of: "share-2", processes)
      made.formUnion(names + ["raised"])
      try await SharesWorld.expectUsers(made, in: installation)
    }
  }
}
