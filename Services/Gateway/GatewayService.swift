// The gateway as a service: its options, its start and its stop.

import Assets
import Authentication
import Crypto
import HTTPServer
import Records
import S3
public import ServiceBus
public import ServiceKit

public struct GatewayService: Service {
  /// Part of the time that the process has to stop.
  private static let drainLimit: Duration = .seconds(8)

  public static let options: [Option] =
    [
      Option("http", .address, default: "127.0.0.1:8080", help: "The address where the gateway serves clients."),
      Option(
        "public-url", .url,
        help:
          "The gateway's URL for clients, if it differs from the address it listens on: behind a proxy, in a container."
      ),
      Option(
        "notifier-url", .url, default: "http://127.0.0.1:8081",
        help: "The notifier's URL for clients, for the addresses of web couriers."),
      EncryptionKeys.option,
      Option(
        "asset-limit", .integer(1...10_000), default: "50",
        help: "The largest asset that the gateway takes, in megabytes (of 1,000,000 bytes)."),
      Option(
        "user-uploads", .integer(1...512), default: "16",
        help: "The limit of one user's uploads under way; the gateway answers more with THROTTLED."),
      Option(
        "user-upload-limit", .integer(0...1_000_000_000), default: "10000",
        help: "Megabytes that one user may upload in a day, the time that content waits for its record. 0: no limit."),
      Option(
        "upload-reserve", .integer(0...1_000_000_000), default: "1000",
        help:
          "Megabytes of the assets' file system that uploads leave free; with less free, the gateway refuses uploads (TRY_AGAIN_LATER). 0: none."
      ),
      Option(
        "user-requests", .integer(0...1_000_000), default: "64",
        help: "The limit of one user's requests under way; the gateway answers more with THROTTLED. 0: no limit."
      ),
      Option(
        "user-waits", .integer(0...1_000_000), default: "128",
        help:
          "The limit of one user's requests that wait for changes (wait=, event streams); the gateway answers more with THROTTLED. 0: no limit."
      ),
      Option(
        "container-requests", .integer(0...1_000_000), default: "1024",
        help:
          "The limit of one container's requests under way; the gateway answers more with THROTTLED. The last quarter is for users with fewer than four. 0: no limit."
      ),
      Option(
        "request-deadline", .seconds(0.1...300), default: "10",
        help: "The longest time that the gateway repeats a request before it answers TRY_AGAIN_LATER."),
      Option(
        "rate-limit", .integer(0...1_000_000), default: "0",
        help:
          "The limit of requests a second for one credential (API and user token, server key; for one address, of tries to sign in); the gateway answers more with THROTTLED. 0: no limit."
      ),
      Option(
        "rate-burst", .integer(1...10_000_000),
        help: "The limit of such requests at once after a pause (default: the requests of ten seconds)."),
    ]
    + AssetPlace.options(
      help:
        "The place of assets. A folder is the workers' <data>/assets, on their file system, and the gateway runs as their user, to write it. A bucket is the workers', too. Without the option the gateway neither takes nor serves assets."
    ) + ClientListening.options

  public static let examples = [
    "aquifer-gateway --http 0.0.0.0:8080 --share ipc:///run/aquifer/share.sock --assets /data/assets"
  ]

  /// How long the start waits for the data folder. Then the gateway starts without it, since most calls need no folder.
  private static let folderPatience = Duration.seconds(2)

  private let gateway: Gateway
  private let folders: DataFolders
  private let claiming: Task<Void, Never>
  private let server: HTTPServer

  /// Makes the parts. The service starts once the bus runs.
  /// - Throws: `ExitError` when the key file can't be used.
  public static func prepare(_ context: ServiceContext, _ handlers: inout BusHandlers) throws -> ServiceProcess.Start {
    let keys = try EncryptionKeys.ring(context.options)
    let state = GatewayState(cluster: context.cluster, timing: context.timing)
    state.serve(on: &handlers)
    context.metrics.collect("long_polls", "Imports that wait for changes.") {
      [Metrics.Sample(Double(await state.waiters.count))]
    }
    let metrics = GatewayMetrics(context.metrics)
    let place = try AssetPlace(context, keys: keys)
    let limit = context.options.integer("asset-limit") ?? 50
    if case .bucket = place, Int64(limit) * 1_000_000 > S3Parts.contentByteLimit {
      throw ExitError(.configuration, "--asset-limit is \(limit); a bucket takes assets of at most 5000 megabytes.")
    }
    if let folder = place?.path { context.metrics.addDisk(of: folder) }
    let store = place?.store
    let folders = DataFolders(context, place.map { [(.assets, $0)] } ?? [])
    let uploads = AssetUploads(
      store: store,
      byteLimit: limit * 1_000_000,
      limits: uploadLimits(context.options), obstacle: { folders.obstacle },
      freeByteCount: { place?.path.flatMap { DiskSpace(of: $0)?.free } }, log: context.log,
      metrics: context.metrics)
    return { bus in
      let publicAddress = PublicAddress(configured: context.options.url("public-url"))
      let gateway = Self.gateway(context, state, metrics, uploads, publicAddress, store, bus)
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
      log: log, findAsset: store.map { ServedContent.finder(in: $0, log: log) })
  }

  private init(
    _ context: ServiceContext, _ gateway: Gateway, _ publicAddress: PublicAddress, _ folders: DataFolders,
    _ claiming: Task<Void, Never>
  ) throws {
    self.gateway = gateway
    self.folders = folders
    self.claiming = claiming
    let configuration = try ClientListening.configuration(context)
    do throws(HTTPServer.StartError) {
      server = try HTTPServer(configuration: configuration, handler: gateway)
    } catch {
      throw ExitError(.configuration, "--http: \(error.description)")
    }
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
    Self.addParts(of: gateway.parts, to: context.metrics)
    context.metrics.addClients(of: server)
    context.log.connectionLimit(of: server, wanted: configuration.connectionLimit)
    listeningURL = ClientListening.url(configuration, port: server.port)
    publicAddress.listens(at: listeningURL)
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

  private static func uploadLimits(_ options: Options) -> AssetUploads.Limits {
    var limits = AssetUploads.Limits()
    if let count = options.integer("user-uploads") { limits.book.countPerUser = count }
    if let count = options.integer("user-upload-limit") {
      limits.book.byteCountPerUser = count == 0 ? nil : Int64(count) * 1_000_000
    }
    if let count = options.integer("upload-reserve") { limits.reserveByteCount = Int64(count) * 1_000_000 }
    return limits
  }

  private static func placeLimits(_ options: Options) -> PlaceBook.Limits {
    var limits = PlaceBook.Limits()
    if let count = options.integer("user-requests") { limits.perUser = count == 0 ? nil : count }
    if let count = options.integer("user-waits") { limits.heldPerUser = count == 0 ? nil : count }
    if let count = options.integer("container-requests") { limits.perContainer = count == 0 ? nil : count }
    return limits
  }

  /// nil without a limit.
  private static func rate(_ options: Options) -> TokenBucket.Rate? {
    guard let limit = options.integer("rate-limit"), limit > 0 else { return nil }
    return TokenBucket.Rate(perSecond: limit, burst: options.integer("rate-burst") ?? limit * 10)
  }

  private let listeningURL: String

  public var addresses: [String: String] { ["http": listeningURL] }

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
    await server.drain(within: Self.drainLimit)
  }

  public func close() async {
    claiming.cancel()
    server.stop()
  }
}
