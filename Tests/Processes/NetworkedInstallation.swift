// An installation whose processes are hosts of a network with faults.

import Foundation
import Testing

/// A share service, two workers and a gateway, each in its own network namespace, with bus keys.
struct NetworkedInstallation {
  let network: FaultyNetwork
  let processes: SeparateProcesses
  let app: App

  static let names = ["share-1", "worker-1", "worker-2", "gateway-1"]
  private static let port = 5550

  /// - Parameter clients: further hosts, where nothing runs yet.
  static func run(
    seed: UInt64, clients: [String] = [], _ body: (NetworkedInstallation) async throws -> Void
  ) async throws {
    let network = try FaultyNetwork(["clients"] + names + clients, seed: seed)
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
      for name in names { gateway = try await start(name, network, processes) }
      let installation = processes.installation(gateway: try #require(gateway))
      let app = try await App(
        installation, model: Checkout.root.appending(path: "deploy/sample/Sample.xcdatamodeld").path)
      try await body(NetworkedInstallation(network: network, processes: processes, app: app))
      for name in names { #expect(processes.isRunning(name), "\(name) ended") }
    }
  }

  /// Kills a process, and starts it again.
  func replace(_ name: String) async throws {
    try processes.end(name, by: SIGKILL)
    _ = try await Self.start(name, network, processes)
  }

  private static func start(_ name: String, _ network: FaultyNetwork, _ processes: SeparateProcesses) async throws
    -> SeparateProcesses.Started
  {
    let host = try #require(network.hosts[name])
    let data = processes.folder.path + "/data"
    let options =
      switch name {
      case "share-1": ["--data", data, "--shards", "4"]
      case "gateway-1": ["--http", "\(host.address):8080", "--assets", data + "/assets"]
      default: ["--data", data]
      }
    return try await processes.start(
      name, bus: endpoint(of: name, network), share: endpoint(of: "share-1", network),
      options + ["--bus-key", key(name, processes), "--bus-peers", peers(processes)], launcher: host.launcher)
  }

  private static func endpoint(of name: String, _ network: FaultyNetwork) -> String {
    "tcp://\(network.hosts[name]?.address ?? ""):\(port)"
  }
  private static func key(_ name: String, _ processes: SeparateProcesses) -> String {
    "\(processes.folder.path)/\(name).key"
  }
  private static func peers(_ processes: SeparateProcesses) -> String { processes.folder.path + "/bus-peers" }
}
