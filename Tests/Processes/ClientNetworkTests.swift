// Processes of the Swift client on networks that lose, delay and cut: they become equal, and lose no save.

import Foundation
import Testing

@Suite(
  .serialized,
  .enabled(
    if: FaultyNetwork.isPossible,
    "network namespaces take root, CAP_SYS_ADMIN, CAP_NET_ADMIN, /dev/net/tun and a C compiler"))
struct ClientNetworkTests {
  enum Fault: String, CaseIterable, Sendable {
    /// One packet of twenty is lost, to the end.
    case loss
    /// An answer takes 300 ms, to the end.
    case delay
    /// No packet passes for a while.
    case cut
    /// The same, and the gateway that comes back does not know the connections any more.
    case halfOpen
  }

  private static let clients = ["phone", "laptop"]
  private static let saveCount = 200

  /// A `client-peer` on a host, with a file of its own.
  private struct Client {
    private let process = Process()
    private let output: URL

    /// - Parameter words: the name of its saves and their count; `-` alone: the names of what it has.
    init(_ host: String, _ user: User, _ installation: NetworkedInstallation, _ words: [String]) throws {
      let folder = installation.processes.folder
      output = folder.appending(path: "\(host)-\(UUID().uuidString).names")
      _ = FileManager.default.createFile(atPath: output.path, contents: nil)
      let app = installation.app
      let command =
        (installation.network.hosts[host]?.launcher ?? []) + [
          Checkout.products.appending(path: "client-peer").path, app.installation.ready.gateway, app.container,
          app.modelHash, user.token, folder.appending(path: "\(host).sqlite").path,
        ] + words
      process.executableURL = URL(filePath: command[0])
      process.arguments = Array(command.dropFirst())
      process.standardOutput = try FileHandle(forWritingTo: output)
      try process.runUnblocked()
    }

    /// The whole lines that it wrote.
    func names() throws -> [String] {
      let text = try String(contentsOf: output, encoding: .utf8)
      return text.split(separator: "\n", omittingEmptySubsequences: false).dropLast().map(String.init)
    }

    func waitForNames(_ count: Int) async throws {
      while process.isRunning, try names().count < count { try await Task.sleep(for: .milliseconds(10)) }
    }

    /// Waits for its end.
    /// - Returns: what it wrote.
    func finish() async throws -> [String] {
      while process.isRunning { try await Task.sleep(for: .milliseconds(20)) }
      process.waitUntilExit()
      #expect(process.terminationStatus == 0, "3: a store had two requests at a time")
      return try names()
    }
  }

  private func disturb(_ fault: Fault, _ installation: NetworkedInstallation) async throws {
    let network = installation.network
    for client in Self.clients {
      switch fault {
      case .loss: try network.link(client, "gateway-1", delay: 0, jitter: 0, loss: 50)
      case .delay: try network.link(client, "gateway-1", delay: 150, jitter: 0, loss: 0)
      case .cut, .halfOpen: try network.cut(client, "gateway-1")
      }
    }
    switch fault {
    case .loss, .delay: return
    case .cut: try await Task.sleep(for: .seconds(5))
    case .halfOpen: try await installation.replace("gateway-1")
    }
    try network.heal()
  }

  @Test(.timeLimit(.minutes(10)), arguments: Fault.allCases)
  func `two client processes become equal, lose nothing, and ask once at a time`(_ fault: Fault) async throws {
    try await NetworkedInstallation.run(seed: 5, clients: Self.clients) { installation in
      let user = try await installation.app.user("alice")
      let clients = try Self.clients.map { try Client($0, user, installation, [$0, "\(Self.saveCount)"]) }
      for client in clients { try await client.waitForNames(Self.saveCount / 10) }
      try await disturb(fault, installation)
      var told: [String] = []
      for client in clients { told += try await client.finish() }
      #expect(told.count == Self.clients.count * Self.saveCount)
      for host in Self.clients + ["fresh"] {
        #expect(try await Client(host, user, installation, ["-"]).finish() == told.sorted(), "\(host)")
      }
    }
  }
}
