// Starts processes without containers, with the commands, environment and ports of compose.yaml.

import Foundation
import Testing

@Suite(.serialized) struct ComposeTests {
  private func compose(_ variables: [String: String] = [:]) throws -> ComposeFile {
    try ComposeFile(
      try String(contentsOf: Checkout.root.appending(path: "compose.yaml"), encoding: .utf8), variables: variables)
  }

  @Test func `every service is confined, health-checked and not reachable from outside`() throws {
    let file = try compose()
    let services = file.services
    #expect(services.map(\.name) == ["keys", "share", "notifier", "worker", "gateway"])
    for (name, service) in services + [("restore", file.root["services"]["restore"])] {
      #expect(service["user"] == "10001:10001", "\(name)")
      #expect(service["read_only"] == true, "\(name)")
      #expect(service["cap_drop"] == ["ALL"], "\(name)")
      #expect(service["security_opt"] == ["no-new-privileges:true"], "\(name)")
      // The same limit that the process assumes without an option.
      let memory = [
        "keys": "64m", "share": "256m", "notifier": "256m", "worker": "1024m", "gateway": "512m", "restore": "1024m",
      ]
      #expect(service["mem_limit"].string == memory[name], "\(name)")
      #expect(service["pids_limit"] != .null, "\(name)")
      // These do their work and end.
      if ["keys", "restore"].contains(name) { continue }
      #expect(service["healthcheck"]["test"].elements.prefix(3) == ["CMD", "aquifer", "health"], "\(name)")
      #expect(
        service["healthcheck"]["test"][3].string
          == "http://\(service["environment"]["AQUIFER_ADMIN"].string ?? "")/readyz", "\(name)")
      for port in service["ports"].elements {
        let parts = (port.string ?? "").split(separator: ":")
        #expect(parts.first == "127.0.0.1", "\(name) listens on \(port)")
        #expect(service["environment"]["AQUIFER_HTTP"].string == "0.0.0.0:\(parts.last ?? "")", "\(name)")
      }
    }
    #expect(services.filter { $0.service["ports"] != .null }.map(\.name) == ["notifier", "gateway"])
  }

  /// The services of compose.postgres.yaml; those of compose.yaml have only what differs.
  private func postgres() throws -> [String: Value] {
    let text = try String(contentsOf: Checkout.root.appending(path: "compose.postgres.yaml"), encoding: .utf8)
    return try ComposeFile(text).root["services"].members
  }

  private static let nodes = ["db1", "db2", "db3"]

  @Test func `every node of the database is confined, health-checked and reached by workers and share services alone`()
    throws
  {
    let services = try postgres()
    let others = ["gateway", "notifier", "share", "share-2", "worker"]
    #expect(services.keys.sorted() == (Self.nodes + others + ["secrets"]).sorted())
    for (name, service) in services where !others.contains(name) {
      #expect(service["user"] == "10001:10001", "\(name)")
      #expect(service["read_only"] == true, "\(name)")
      #expect(service["cap_drop"] == ["ALL"], "\(name)")
      #expect(service["security_opt"] == ["no-new-privileges:true"], "\(name)")
      #expect(service["mem_limit"] != .null && service["pids_limit"] != .null, "\(name)")
      #expect(service["networks"] == ["database"] && service["ports"] == .null, "\(name)")
      if name == "secrets" { continue }
      #expect(service["healthcheck"]["test"][0] == "CMD", "\(name)")
      #expect(service["environment"]["NODE"].string == name)
      #expect(service["environment"]["NODES"].string == "db1 db2 db3")
    }
    let guests = services.filter { !$0.value["networks"].elements.isEmpty && others.contains($0.key) }
    #expect(guests.keys.sorted() == ["share", "share-2", "worker"])
    for (name, service) in guests {
      #expect(service["networks"] == ["default", "database"], "\(name)")
      #expect(service["depends_on"].members.keys.sorted() == Self.nodes, "\(name)")
      let variable = name == "worker" ? "AQUIFER_RECORDS_FILE" : "AQUIFER_DIRECTORY_FILE"
      #expect(service["environment"][variable] == "/secrets/records", "\(name)")
    }
  }

  @Test func `with the database there are two share services with one token, and the others are told of both`() throws {
    let (services, first) = (try postgres(), try compose().root["services"]["share"])
    let shares = ["share", "share-2"].compactMap { services[$0] }
    #expect(shares.count == 2)
    #expect(shares.last?["extends"] == .object(["file": "compose.yaml", "service": "share"]))
    let buses = [first, shares[1]].compactMap { $0["environment"]["AQUIFER_BUS"].string }
    #expect(Set(buses).count == 2)
    for name in ["worker", "notifier", "gateway"] {
      #expect(services[name]?["environment"]["AQUIFER_SHARE"].string == buses.joined(separator: ","), "\(name)")
    }
    for share in shares {
      #expect(share["environment"]["AQUIFER_OPERATOR_TOKEN_FILE"] == "/secrets/operator-token")
      // One that waits is alive and not ready.
      #expect(share["healthcheck"]["test"].elements.last == "http://127.0.0.1:9100/livez")
    }
    // The first one has the folder of compose.yaml.
    for (share, folders) in zip(shares, [[], ["directory-2:/data"]]) {
      #expect(share["volumes"].elements.compactMap(\.string).filter { $0.hasSuffix(":/data") } == folders)
    }
  }

  @Test func `a second cluster has nodes like those of the first one, and workers read the list of both`() throws {
    func file(_ name: String) throws -> Value {
      try ComposeFile(try String(contentsOf: Checkout.root.appending(path: name), encoding: .utf8)).root
    }
    let (west, nodes) = (try file("compose.west.yaml"), ["west1", "west2", "west3"])
    let services = west["services"].members
    #expect(services.keys.sorted() == ["secrets"] + nodes + ["worker"])
    #expect(west["volumes"].members.keys.sorted() == nodes)
    let model = try #require(try postgres()["db1"]).members.filter { !["environment", "volumes"].contains($0.key) }
    for node in nodes {
      let service = try #require(services[node])
      #expect(service.members.filter { !["environment", "volumes"].contains($0.key) } == model, "\(node)")
      let environment = Value.object(["NODE": .string(node), "NODES": .string(nodes.joined(separator: " "))])
      #expect(service["environment"] == environment)
      #expect(service["volumes"] == .array([.string("\(node):/var/lib/postgresql"), "secrets:/secrets:ro"]))
    }
    let variables = Value.object(["CLUSTER_WEST": .string(nodes.joined(separator: " "))])
    #expect(services["secrets"] == .object(["environment": variables]))
    #expect(services["worker"]?["environment"] == .object(["AQUIFER_RECORDS_FILE": "/secrets/clusters"]))
    #expect(services["worker"]?["depends_on"].members.keys.sorted() == nodes)
  }

  @Test func `the list of clusters is made with the passwords, and the first one keeps the name main`() throws {
    let folder = try Installation.makeFolder()
    defer { try? FileManager.default.removeItem(at: folder) }
    func made(_ file: String, _ variables: [String: String]) throws -> [String] {
      let done = try CommandLineTool.run(
        ["secrets"], executable: Checkout.root.appending(path: "deploy/postgres/node"),
        environment: variables.merging(["SECRETS": folder.path, "NODES": "db1 db2 db3"]) { $1 })
      #expect(done.code == 0, "\(done.problem)")
      let text = try String(contentsOf: folder.appending(path: file), encoding: .utf8)
      return text.split(separator: "\n").map(String.init)
    }
    let main = try made("records", [:])
    #expect(main.count == 1 && main[0].hasSuffix("@db1,db2,db3/aquifer"))
    #expect(try made("clusters", [:]) == main)
    let further = ["CLUSTER_WEST": "west1 west2 west3", "CLUSTER_FAR_EAST": "east1"]
    func address(_ nodes: String) -> String { main[0].replacing("db1,db2,db3", with: nodes) }
    #expect(
      try made("clusters", further) == main + [
        "far-east=\(address("east1"))", "west=\(address("west1,west2,west3"))",
      ])
    #expect(try made("records", further) == main, "the passwords stay, and share services use the first cluster alone")
  }

  /// A free port.
  private func freePort() throws -> UInt16 {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(descriptor) }
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let code = withUnsafeMutablePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(descriptor, $0, length) == 0 && getsockname(descriptor, $0, &length) == 0
      }
    }
    guard code else { throw Unexpected("no free port") }
    return UInt16(bigEndian: address.sin_port)
  }

  @Test(.timeLimit(.minutes(1)))
  func `the services of compose_yaml start from their commands and environment, and serve`() async throws {
    let folder = try Installation.makeFolder()
    defer { try? FileManager.default.removeItem(at: folder) }
    for name in ["data", "bus", "keys"] {
      try FileManager.default.createDirectory(
        at: folder.appending(path: name), withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
    }
    // Containers have separate folders, and the same port number in several networks; processes need different ones.
    let (gatewayPort, notifierPort) = (try freePort(), try freePort())
    let services = try compose([
      "AQUIFER_SERVER": "http://127.0.0.1:\(gatewayPort)", "AQUIFER_PINGS": "http://127.0.0.1:\(notifierPort)",
    ]).services
    var processes: [(name: String, process: Process)] = []
    defer {
      for (name, process) in processes.reversed() {
        process.terminate()
        process.waitUntilExit()
        #expect(process.terminationReason == .exit && process.terminationStatus == 0, "\(name) did not stop cleanly")
      }
    }
    for (name, service) in services {
      let adminPort = try freePort()
      var environment = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("AQUIFER_") }
      for (variable, value) in service["environment"].members {
        environment[variable] = (value.string ?? "")
          .replacing("/data", with: folder.path + "/data").replacing("/keys/", with: folder.path + "/keys/").replacing(
            "/run/aquifer", with: folder.path + "/bus"
          )
          .replacing("0.0.0.0:8080", with: "127.0.0.1:\(gatewayPort)").replacing(
            "0.0.0.0:8081", with: "127.0.0.1:\(notifierPort)"
          )
          .replacing(":9100", with: ":\(adminPort)")
      }
      if service["healthcheck"] == .null {
        let words = service["command"].elements.dropFirst().compactMap {
          $0.string?.replacing("/keys/", with: folder.path + "/keys/")
        }
        for _ in 0..<2 { #expect(try CommandLineTool.run(words).code == 0, "\(name)") }
        continue
      }
      let process = Process()
      process.executableURL = Checkout.products.appending(path: service["command"][0].string ?? "")
      process.arguments = service["command"].elements.dropFirst().compactMap(\.string)
      process.environment = environment
      process.standardInput = FileHandle.nullDevice
      let log = folder.appending(path: "\(name).log")
      _ = FileManager.default.createFile(atPath: log.path, contents: nil)
      process.standardError = try FileHandle(forWritingTo: log)
      try process.runUnblocked()
      processes.append((name, process))
      // Runs the health check until it passes, as `depends_on` does.
      let check = service["healthcheck"]["test"].elements.dropFirst(2).compactMap {
        $0.string?.replacing(":9100", with: ":\(adminPort)")
      }
      var code: Int32 = 1
      for _ in 0..<500 where code != 0 && process.isRunning {
        code = try CommandLineTool.run(check).code
        if code != 0 { try await Task.sleep(for: .milliseconds(20)) }
      }
      try #require(code == 0, "\(name) is not healthy:\n\((try? String(contentsOf: log, encoding: .utf8)) ?? "")")
    }

    let token = try String(contentsOf: folder.appending(path: "data/operator-token"), encoding: .utf8)
      .trimmingCharacters(in: .whitespacesAndNewlines)
    let ready = Ready(
      gateway: "http://127.0.0.1:\(gatewayPort)", notifier: "http://127.0.0.1:\(notifierPort)", operatorToken: token,
      pids: [:], admin: [:])
    let installation = Installation(folder: folder, pid: 0, ready: ready)
    let user = try await App(
      installation, model: Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path
    ).user("alice")
    let (first, second) = (try await user.device("A"), try await user.device("B"))
    let tag = UUID().uuidString
    try await first.save([MainJob.insert("Tag", tag, ["name": "one"])])
    #expect(try await second.changes().changes.compactMap { $0["objectID"].string } == [tag])
  }
}
