// The contract of `aquifer dev` (docs/protocol/mirror-api.md#operators).

import Foundation
import Testing

/// True for a process that exists and is no zombie.
private func isAlive(_ pid: Int32) -> Bool {
  guard let status = try? String(contentsOfFile: "/proc/\(pid)/stat", encoding: .utf8) else { return false }
  return !(status.split(separator: ")").last?.hasPrefix(" Z") ?? true)
}

private func waitForEnd(of pids: [Int32]) async throws -> Bool {
  for _ in 0..<2000 {
    if !pids.contains(where: isAlive) { return true }
    try await Task.sleep(for: .milliseconds(10))
  }
  return false
}

@Suite(.serialized) struct DevTests {
  @Test(.timeLimit(.minutes(1))) func `the ready file names processes that answer`() async throws {
    try await Installation.run(workers: 2) { installation in
      let ready = installation.ready
      #expect(ready.pids.mapValues(\.count) == ["gateway": 1, "worker": 2, "share": 1, "notifier": 1])
      #expect(Set(ready.pids.values.flatMap(\.self)).count == 5)
      for pid in ready.pids.values.flatMap(\.self) { #expect(isAlive(pid)) }
      #expect(ready.gateway.hasPrefix("http://127.0.0.1:") && ready.notifier.hasPrefix("http://127.0.0.1:"))
      #expect(Set(["gateway", "worker", "share", "notifier"]).isSubset(of: ready.admin.keys))
      for (name, admin) in ready.admin {
        for path in ["/livez", "/readyz"] {
          #expect(try await installation.send("GET", admin + path).status == 200, "\(name) \(path)")
        }
        let metrics = try await installation.send("GET", admin + "/metrics")
        #expect(metrics.status == 200 && metrics.text.contains("# TYPE aquifer_"), "\(name)")
        #expect(try await installation.aquifer("health", admin + "/readyz").code == 0)
      }
      #expect(
        try await installation.send("GET", ready.gateway + "/admin/1/status", bearer: ready.operatorToken).status == 200
      )
      let output = try String(contentsOf: installation.folder.appending(path: "dev.log"), encoding: .utf8)
      for part in [ready.gateway, ready.notifier, ready.operatorToken] { #expect(output.contains(part)) }
      let attributes = try FileManager.default.attributesOfItem(atPath: installation.readyFile.path)
      #expect((attributes[.posixPermissions] as? Int).map { $0 & 0o077 } == 0, "the ready file holds a token")
    }
  }

  @Test(.timeLimit(.minutes(2)), arguments: ["gateway", "notifier", "worker", "share"])
  func `a process that dies is replaced under its addresses and its exit is logged`(role: String) async throws {
    try await Installation.run { installation in
      let before = installation.ready
      let pid = try #require(before.pids[role]?.first)
      #expect(kill(pid, SIGKILL) == 0)
      let after = try await installation.waitForReadyFile { $0.pids[role]?.count == 1 && $0.pids[role] != [pid] }
      #expect((after.gateway, after.notifier) == (before.gateway, before.notifier))
      #expect(after.admin == before.admin)
      #expect(after.operatorToken == before.operatorToken)
      // The new process serves: the operators' view involves gateway, share service and worker.
      var status = 0
      for _ in 0..<1000 where status != 200 {
        status =
          (try? await installation.send("GET", after.gateway + "/admin/1/status", bearer: after.operatorToken).status)
          ?? 0
        if status != 200 { try await Task.sleep(for: .milliseconds(10)) }
      }
      #expect(status == 200)
      let output = try String(contentsOf: installation.folder.appending(path: "dev.log"), encoding: .utf8)
      #expect(output.contains("(pid \(pid)) was ended by signal 9 (SIGKILL)"))
    }
  }

  @Test(.timeLimit(.minutes(2))) func `a worker that crashes ends at once, and is replaced`() async throws {
    try await Installation.run { installation in
      let pid = try #require(installation.ready.pids["worker"]?.first)
      #expect(kill(pid, SIGSEGV) == 0)
      _ = try await installation.waitForReadyFile { $0.pids["worker"]?.count == 1 && $0.pids["worker"] != [pid] }
      let output = try String(contentsOf: installation.folder.appending(path: "dev.log"), encoding: .utf8)
      #expect(output.contains("(pid \(pid)) was ended by signal 11 (SIGSEGV)"))
      let log = try String(contentsOf: installation.folder.appending(path: "data/log/worker-1.log"), encoding: .utf8)
      // Nobody looked at its threads first, which takes minutes on a busy machine.
      #expect(!log.contains("Program crashed"))
    }
  }

  @Test(.timeLimit(.minutes(2))) func `a worker that was stopped is killed, so that others have its shards`()
    async throws
  {
    try await Installation.run(workers: 2) { installation in
      let pids = try #require(installation.ready.pids["worker"])
      #expect(kill(pids[0], SIGSTOP) == 0)
      let after = try await installation.waitForReadyFile {
        $0.pids["worker"]?.count == 2 && $0.pids["worker"]?.contains(pids[0]) == false
      }
      #expect(after.pids["worker"]?.contains(pids[1]) == true, "the other one goes on")
      let output = try String(contentsOf: installation.folder.appending(path: "dev.log"), encoding: .utf8)
      #expect(output.contains("(pid \(pids[0])) no longer answers; `aquifer dev` kills it"))
    }
  }

  @Test(.timeLimit(.minutes(1)), arguments: [SIGTERM, SIGINT])
  func `a signal to stop stops all, with exit code 0`(signal: Int32) async throws {
    let folder = try Installation.makeFolder()
    defer { try? FileManager.default.removeItem(at: folder) }
    let dev = try Installation.start(workers: 2, folder: folder)
    let ready = try await Installation.waitUntilReady(dev, folder)
    kill(dev.processIdentifier, signal)
    dev.waitUntilExit()
    #expect(dev.terminationReason == .exit)
    #expect(dev.terminationStatus == 0, "\(Installation.logTails(in: folder))")
    #expect(try await waitForEnd(of: ready.pids.values.flatMap(\.self)))
  }

  /// A terminal tells the parent, too, and an init system all processes of a unit.
  @Test(.timeLimit(.minutes(1)), arguments: [false, true])
  func `a stop that is told twice answers the imports that are held`(tellsGateway: Bool) async throws {
    let folder = try Installation.makeFolder()
    defer { try? FileManager.default.removeItem(at: folder) }
    let dev = try Installation.start(workers: 1, folder: folder)
    let installation = Installation(
      folder: folder, pid: dev.processIdentifier, ready: try await Installation.waitUntilReady(dev, folder))
    let device = try await App(
      installation, model: Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path
    ).user("alice").device("A")
    async let held = device.send("GET", "/changes?wait=60")
    // Waits until the gateway reports the held request.
    var isHeld = false
    for _ in 0..<1000 where !isHeld {
      isHeld = try await installation.send("GET", "\(installation.ready.admin["gateway"] ?? "")/metrics").text.contains(
        "aquifer_long_polls 1\n")
      if !isHeld { try await Task.sleep(for: .milliseconds(10)) }
    }
    #expect(isHeld)
    let told = [dev.processIdentifier] + (tellsGateway ? installation.ready.pids["gateway"] ?? [] : [])
    for pid in told { kill(pid, SIGINT) }
    if tellsGateway { for pid in told { kill(pid, SIGTERM) } }
    #expect(try await held.status == 200)
    // The other processes have not ended yet.
    kill(dev.processIdentifier, SIGTERM)
    dev.waitUntilExit()
    #expect(dev.terminationStatus == 0)
  }

  @Test(.timeLimit(.minutes(1))) func `nothing outlives a killed aquifer dev`() async throws {
    let folder = try Installation.makeFolder()
    defer { try? FileManager.default.removeItem(at: folder) }
    let dev = try Installation.start(workers: 1, folder: folder)
    let ready = try await Installation.waitUntilReady(dev, folder)
    kill(dev.processIdentifier, SIGKILL)
    dev.waitUntilExit()
    #expect(try await waitForEnd(of: ready.pids.values.flatMap(\.self)))
  }

  @Test(.timeLimit(.minutes(1))) func `a stopped installation starts again with everything it knew`() async throws {
    let folder = try Installation.makeFolder()
    defer { try? FileManager.default.removeItem(at: folder) }
    let tag = UUID().uuidString
    let model = Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path
    var known: (token: String, store: String, operatorToken: String)?
    try await Installation.run(folder: folder) { installation in
      let user = try await App(installation, model: model).user("alice")
      let device = try await user.device("A")
      try await device.save([MainJob.insert("Tag", tag, ["name": "kept"])])
      known = (user.token, device.store, installation.ready.operatorToken)
    }
    let (token, store, operatorToken) = try #require(known)
    try await Installation.run(folder: folder) { installation in
      #expect(installation.ready.operatorToken == operatorToken)
      let url =
        """
        \(installation.ready.gateway)/mirror/1/iCloud.org.example.app/development/private/stores/\(store)/objects/\(tag)
        """
      let object = try await installation.send("GET", url, bearer: token)
      #expect(object.status == 200)
      #expect(object.text.contains("kept"))
    }
  }

  @Test(.timeLimit(.minutes(1))) func `a data folder in use is refused, and a long one works`() async throws {
    let base = try Installation.makeFolder()
    defer { try? FileManager.default.removeItem(at: base) }
    let folder = base.appending(path: String(repeating: "long", count: 30))
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    try await Installation.run(folder: folder) { installation in
      let second = try CommandLineTool.run([
        "dev", "--data", folder.appending(path: "data").path, "--http-port", "0", "--ping-port", "0",
      ])
      #expect(second.code == 1)
      #expect(second.problem.contains("is in use by another"))
      #expect(try await installation.aquifer("status").code == 0)
    }
  }

  @Test(.timeLimit(.minutes(1))) func `a port that is taken is said and nothing is left running`() async throws {
    try await Installation.run { installation in
      let port = try #require(installation.ready.gateway.split(separator: ":").last.map(String.init))
      let data = installation.folder.appending(path: "second").path
      let second = try CommandLineTool.run(["dev", "--data", data, "--http-port", port, "--ping-port", "0"])
      #expect(second.code == 1)
      #expect(second.problem.contains("gateway"))
    }
  }
}
