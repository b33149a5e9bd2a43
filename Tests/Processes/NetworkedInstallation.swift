// An installation whose processes are hosts of a network with faults.

import Foundation
import PrivateCluster
import Testing

/// A share service, two workers and a gateway, each in its own network namespace, with bus keys. With a database also a
/// share service that waits to take the place of the first one; the database is where the tests are.
struct NetworkedInstallation {
  let network: FaultyNetwork
  let processes: SeparateProcesses
  let app: App
  private let database: PrivateCluster?

  static let names = ["share-1", "worker-1", "worker-2", "gateway-1"]
  private static let port = 5550

  private static let standby = "share-2"

  /// - Parameter clients: further hosts, where nothing runs yet.
  static func run(
    seed: UInt64, clients: [String] = [], hasDatabase: Bool = false,
    _ body: (NetworkedInstallation) async throws -> Void
  ) async throws {
    let names = names + (hasDatabase ? [standby] : [])
    let network = try FaultyNetwork(["clients"] + names + clients, seed: seed)
    let database = hasDatabase ? try PrivateCluster(at: network.hosts["clients"]?.address) : nil
    try await SeparateProcesses.run { processes in
      for name in names {
        let made = try CommandLineTool.run(
          [
            "bus-key", "add", key(name, processes), "--role", String(name.prefix { $0 != "-" }), "--name", name,
            "--peers", peers(processes),
          ])
        guard made.code == 0 else { throw Unexpected("bus-key add: \(made.problem)") }
      }
      var gateway: SeparateProcesses.Started?
      for name in names where name != standby { gateway = try await start(name, network, processes, database) }
      let installation = processes.installation(gateway: try #require(gateway))
      let app = try await App(
        installation, model: Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path)
      let world = NetworkedInstallation(network: network, processes: processes, app: app, database: database)
      if hasDatabase { try world.startWaiting(standby) }
      try await body(world)
      for name in names { #expect(processes.isRunning(name), "\(name) ended") }
    }
  }

  /// Kills a process, and starts it again.
  func replace(_ name: String) async throws {
    try processes.end(name, by: SIGKILL)
    _ = try await Self.start(name, network, processes, database)
  }

  /// Starts a share service while another one leads.
  func startWaiting(_ name: String) throws {
    try processes.startUnready(
      name, bus: Self.endpoint(of: name, network), Self.options(name, network, processes, database),
      launcher: network.hosts[name]?.launcher ?? [])
  }

  private static func start(
    _ name: String, _ network: FaultyNetwork, _ processes: SeparateProcesses, _ database: PrivateCluster?
  ) async throws -> SeparateProcesses.Started {
    let shares = ["share-1"] + (database == nil ? [] : [standby])
    return try await processes.start(
      name, bus: endpoint(of: name, network), share: shares.map { endpoint(of: $0, network) }.joined(separator: ","),
      options(name, network, processes, database), launcher: network.hosts[name]?.launcher ?? [])
  }

  private static func options(
    _ name: String, _ network: FaultyNetwork, _ processes: SeparateProcesses, _ database: PrivateCluster?
  ) -> [String] {
    let (data, host) = (processes.folder.path + "/data", network.hosts[name]?.address ?? "")
    var options =
      switch name {
      case "share-1": ["--data", data, "--shards", "4"]
      case standby: ["--data", "\(data)/\(name)", "--shards", "4"]
      case "gateway-1": ["--http", "\(host):8080", "--assets", data + "/assets"]
      default: ["--data", data]
      }
    if let database, name.hasPrefix("share") {
      let address = "host=\(network.hosts["clients"]?.address ?? "") port=\(database.port) user=aquifer dbname=postgres"
      options += ["--directory", address, "--allow-asynchronous"]
    } else if database != nil, name == "gateway-1" {
      // A call to a share service that can't reach its database any more.
      options += ["--request-deadline", "4"]
    }
    return options + ["--bus-key", key(name, processes), "--bus-peers", peers(processes)]
  }

  private static func endpoint(of name: String, _ network: FaultyNetwork) -> String {
    "tcp://\(network.hosts[name]?.address ?? ""):\(port)"
  }
  private static func key(_ name: String, _ processes: SeparateProcesses) -> String {
    "\(processes.folder.path)/\(name).key"
  }
  private static func peers(_ processes: SeparateProcesses) -> String { processes.folder.path + "/bus-peers" }
}
