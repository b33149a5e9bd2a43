// The gateway as a service: its options, its start and its stop.

import Assets
import Authentication
import Crypto
package import HTTPServer
import Records
public import ServiceBus
public import ServiceKit

public struct GatewayService: Service {
  /// Part of the time that the process has to stop.
  private static let drainLimit: Duration = .seconds(8)

  /// How long the start waits for the data folder. Then the gateway starts without it, since most calls need no folder.
  private static let folderPatience = Duration.seconds(2)

  private let gateway: Gateway
  private let folders: DataFolders
  private let claiming: Task<Void, Never>
  private let server: HTTPServer
  /// The console's own server; nil: the clients' server has the console, if any has it.
  private let consoleServer: HTTPServer?

  /// Makes the parts. The service starts once the bus runs.
  /// - Throws: `ExitError` when the key file or the public address can't be used.
  public static func prepare(_ context: ServiceContext, _ handlers: inout BusHandlers) throws -> ServiceProcess.Start {
    let publicAddress = try PublicAddress(option: context.options.url("public-url"))
    let keys = try EncryptionKeys.ring(context.options)
    let state = GatewayState(cluster: context.cluster, timing: context.timing)
    state.serve(on: &handlers)
    context.metrics.collect("long_polls", "Imports that wait for changes.") {
      [Metrics.Sample(Double(await state.waiters.count))]
    }
    let metrics = GatewayMetrics(context.metrics)
    let limit = (context.options.integer("asset-limit") ?? 50) * 1_000_000
    let place = try AssetPlace(context, keys: keys, contentByteLimit: Int64(limit))
    if let folder = place?.path { context.metrics.addDisk(of: folder) }
    let store = place?.store
    let folders = DataFolders(context, place.map { [(.assets, $0)] } ?? [])
    let uploads = AssetUploads(
      store: store,
      byteLimit: limit,
      limits: uploadLimits(
        context.options, memoryByteCount: MemoryLimit(context.options, role: context.role).byteCount),
      obstacle: { folders.obstacle },
      freeByteCount: { place?.path.flatMap { DiskSpace(of: $0)?.free } }, log: context.log,
      metrics: context.metrics)
    return { bus in
      var gateway = Self.gateway(context, state, metrics, uploads, publicAddress, store, bus)
      if let folder = context.options.text("console") { gateway.consoleSite = try await ConsoleSite(folder: folder) }
      let claiming: Task<Void, Never> = Task { [secrets = gateway.secrets] in
        // Dropped because only a stopping gateway ends the attempts, and it needs no folder any more.
        try? await folders.claim(on: bus) { InstallationID(signingKey: try await secrets.signingKey()) }
      }
      // The gateway listens after that: an upload that came before would be told that assets are out of service.
      await folders.settle(within: folderPatience)
      do {
        return try GatewayService(context, gateway, publicAddress, folders, claiming)
      } catch {
        claiming.cancel()
        throw error
      }
    }
  }

  private static func gateway(
    _ context: ServiceContext, _ state: GatewayState, _ metrics: GatewayMetrics, _ uploads: AssetUploads,
    _ publicAddress: PublicAddress, _ store: (any AssetStore)?,
    _ bus: any Bus
  ) -> Gateway {
    let options = context.options
    let log = context.log
    return Gateway(
      options: Gateway.Options(
        publicAddress: publicAddress, notifierURL: options.url("notifier-url") ?? "",
        requestLimit: options.duration("request-deadline") ?? .seconds(10), rate: rate(options),
        places: placeLimits(options),
        parts: PartBudget.Limits(memoryByteCount: MemoryLimit(options, role: context.role).byteCount)),
      state: state, bus: bus, wallClock: context.clock, random: context.random, metrics: metrics, uploads: uploads,
      log: log, findAsset: store.map { ServedContent.finder(in: $0, timing: state.timing, log: log) })
  }

  private init(
    _ context: ServiceContext, _ gateway: Gateway, _ publicAddress: PublicAddress, _ folders: DataFolders,
    _ claiming: Task<Void, Never>
  ) throws {
    self.gateway = gateway
    self.folders = folders
    self.claiming = claiming
    let configuration = try ClientListening.configuration(context)
    let (clients, console) = gateway.doors(consolePort: context.options.integer("console-port"))
    server = try Self.server(configuration, clients, option: "--http")
    consoleServer = try console.map { console throws(ExitError) in
      var configuration = configuration
      configuration.port = console.port
      return try Self.server(configuration, console.gateway, option: "--console-port")
    }
    consoleURL =
      gateway.consoleSite == nil
      ? nil : ClientListening.url(configuration, port: (consoleServer ?? server).port) + "/console/"
    context.metrics.collect("rate_limit_buckets", "Credentials and addresses with a count of requests.") {
      [limiter = gateway.limiter] in
      [Metrics.Sample(Double(limiter.count))]
    }
    context.metrics.collect(
      "requests_under_way", "Requests of known callers under way, and requests that wait for changes."
    ) {
      [places = gateway.places] in
      let counts = places.counts
      return [
        Metrics.Sample(Double(counts.underWay), labels: [("state", "working")]),
        Metrics.Sample(Double(counts.held), labels: [("state", "held")]),
      ]
    }
    context.metrics.recent.add { [places = gateway.places, weak server] in
      let counts = places.counts
      return [
        .value("requests_under_way", Double(counts.underWay)), .value("requests_held", Double(counts.held)),
        .value("connections", Double(server?.connectionCount ?? 0)),
      ]
    }
    Self.addParts(of: gateway.parts, to: context.metrics)
    context.metrics.addClients(of: server)
    context.log.connectionLimit(of: server, wanted: configuration.connectionLimit)
    listeningURL = ClientListening.url(configuration, port: server.port)
    publicAddress.listens(at: listeningURL)
  }

  private static func server(_ configuration: HTTPServer.Configuration, _ handler: Gateway, option: String)
    throws(ExitError) -> HTTPServer
  {
    do throws(HTTPServer.StartError) {
      return try HTTPServer(configuration: configuration, handler: handler)
    } catch {
      throw ExitError(.configuration, "\(option): \(error.description)")
    }
  }

  private static func addParts(of parts: PartBudget, to metrics: Metrics) {
    let held = Metrics.Description(
      "shared_request_bytes", "Bytes in memory for requests to several owners, parts and answers.")
    let refused = Metrics.Description(
      "shared_requests_refused_total", "Parts of requests to several owners that the gateway refused for lack of room.",
      .counter)
    metrics.collect([held, refused]) { [parts] in
      var readings = Metrics.Readings()
      let counts = parts.counts
      readings[held.name] = Double(counts.held)
      readings[refused.name] = Double(counts.refused)
      return readings
    }
  }

  /// Answers clients' requests; for tests that need no sockets.
  package var handler: any HTTPHandler { gateway }

  private let listeningURL: String
  private let consoleURL: String?

  public var addresses: [String: String] {
    var addresses = ["http": listeningURL]
    addresses["console"] = consoleURL
    return addresses
  }

  public var checks: [HealthCheck] {
    [
      HealthCheck("shards") { [cluster = gateway.state.cluster] in cluster.obstacle },
      HealthCheck("assets") { [folders] in folders.obstacle },
      HealthCheck("share") { [secrets = gateway.secrets] in await secrets.obstacle },
    ]
  }

  /// Answers held polls, then finishes the requests under way.
  public func drain() async {
    await gateway.state.waiters.close()
    async let console: Void? = consoleServer?.drain(within: Self.drainLimit)
    await server.drain(within: Self.drainLimit)
    await console
  }

  public func close() async {
    claiming.cancel()
    server.stop()
    consoleServer?.stop()
  }
}

extension Gateway {
  /// The gateway as its servers show it.
  /// - Parameter consolePort: the port of the console's own server; nil: the clients' server has the console.
  fileprivate func doors(consolePort: Int?) -> (clients: Gateway, console: (gateway: Gateway, port: UInt16)?) {
    guard let port = consolePort.flatMap(UInt16.init(exactly:)), consoleSite != nil else { return (self, nil) }
    var (clients, console) = (self, self)
    clients.consoleSite = nil
    console.isConsoleOnly = true
    return (clients, (console, port))
  }
}
