// The real services in one process, so that stories cost no sockets and no switches between processes.

package import Foundation
import Gateway
import HTTPServer
import InMemoryServiceBus
package import ReplicaWorld
import ServiceBus
import ServiceKit
import ShareService
import WorkerHost

/// A share service, a worker and a gateway on a bus in memory. Their files are real ones; clients call the gateway's
/// handler. There is no notifier.
package enum OneProcessServer {
  private static let operatorToken = "operator-token-of-stories"

  /// - Parameters:
  ///   - root: what the server stores lies in a folder of its own below it.
  ///   - body: runs while the services do.
  package static func run(in root: URL, _ body: (Server) async throws -> Void) async throws {
    let folder = root.appending(path: "aq-\(UUID().uuidString.prefix(8))")
    let attributes: [FileAttributeKey: Any] = [.posixPermissions: 0o700]
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true, attributes: attributes)
    defer { try? FileManager.default.removeItem(at: folder) }
    var services: [RunningService] = []
    do {
      let transport = try await start(folder.path, &services)
      try await body(
        try await Server(
          folder: folder, gateway: HandlerTransport.origin, operatorToken: operatorToken, transport: transport))
    } catch {
      await stop(services)
      throw error
    }
    await stop(services)
  }

  private static func stop(_ services: [RunningService]) async {
    for service in services.reversed() { await service.stop(within: .seconds(2)) }
  }

  /// - Parameter services: takes each that is started.
  private static func start(_ folder: String, _ services: inout [RunningService]) async throws -> HandlerTransport {
    let network = InMemoryNetwork()
    let data = ["--data", "\(folder)/data"]
    let share = ServiceProcess(role: .share, summary: "", options: ShareService.options) { context, handlers in
      let share = try await ShareService.leading(context)
      share.register(in: &handlers)
      return { bus in try await share.start(on: bus, context) }
    }
    services.append(try await start(share, data + ["--operator-token", operatorToken], folder, network))
    let worker = ServiceProcess(
      role: .worker, summary: "", options: Worker.options, shardFormat: Worker.shardFormat, clusters: Worker.clusters
    ) { context, handlers in
      let worker = try Worker(context)
      worker.register(in: &handlers)
      return { bus in try await worker.start(on: bus) }
    }
    services.append(try await start(worker, data, folder, network))
    let gateway = ServiceProcess(role: .gateway, summary: "", options: GatewayService.options) { context, handlers in
      try GatewayService.prepare(context, &handlers)
    }
    let started = try await start(gateway, ["--http", "127.0.0.1:0"], folder, network)
    services.append(started)
    guard let service = started.service as? GatewayService else { throw Unexpected("the gateway is another service") }
    for check in service.checks {
      while await check.problem() != nil { try await Task.sleep(for: .milliseconds(1)) }
    }
    return HandlerTransport(service.handler)
  }

  private static func start(
    _ process: ServiceProcess, _ arguments: [String], _ folder: String, _ network: InMemoryNetwork
  ) async throws -> RunningService {
    let endpoint = { (role: Role) in "ipc://\(folder)/\(role.rawValue).sock" }
    var own = ["--bus", endpoint(process.role), "--log-level", "error"]
    if process.role != .share { own += ["--share", endpoint(.share)] }
    return try await process.start(arguments: own + arguments, environment: { _ in nil }) {
      name, role, endpoint, adminURL, handlers, configuration in
      let bus = InMemoryBus(
        name: name, role: role, network: network, handlers: handlers, endpoint: endpoint, adminURL: adminURL,
        configuration: configuration)
      return ServiceProcess.MadeBus(bus: bus, endpoint: bus.endpoint) { await bus.statistics() }
    }
  }
}
