// The main code of every executable: reads options, builds the parts, runs, drains and exits.

internal import Glibc
internal import HTTPServer
public import ServiceBus

/// A process that runs one service.
///
///     @main enum Main {
///       static func main() async {
///         await ServiceProcess(role: .notifier, summary: "…", options: Notifier.options) { context, handlers in
///           let notifier = try Notifier(context)
///           notifier.register(in: &handlers)
///           return { bus in try await notifier.start(on: bus) }
///         }.run()
///       }
///     }
public struct ServiceProcess: Sendable {
  /// Receives the bus, which is bound and connected, and returns the running service.
  public typealias Start = @Sendable (_ bus: any Bus) async throws -> any Service
  /// Makes the service's parts and registers its handlers. The bus is made afterwards.
  public typealias Prepare = @Sendable (_ context: ServiceContext, _ handlers: inout BusHandlers) async throws -> Start

  /// A bus and a closure that reads its counts.
  public struct MadeBus: Sendable {
    public let bus: any Bus
    public let endpoint: String
    public let statistics: @Sendable () async -> BusStatistics

    public init(bus: any Bus, endpoint: String, statistics: @escaping @Sendable () async -> BusStatistics) {
      self.bus = bus
      self.endpoint = endpoint
      self.statistics = statistics
    }
  }

  /// Makes the process's end of the bus. Tests pass one in memory.
  public typealias MakeBus =
    @Sendable (
      _ name: String, _ role: Role, _ endpoint: String, _ adminURL: String, _ handlers: BusHandlers,
      _ configuration: BusConfiguration
    ) throws -> MadeBus

  public let role: Role
  let help: HelpText
  let options: [Option]
  let prepare: Prepare
  private let shardFormat: Int?
  private let clusters: @Sendable (Options) -> [String]?

  /// - Parameters:
  ///   - summary: the purpose of the process, for `--help`.
  ///   - options: the service's own options; `commonOptions` are added.
  ///   - examples: whole command lines.
  ///   - shardFormat: the newest stored format of shards that a worker knows; nil for other roles.
  ///   - clusters: the clusters that a worker reaches; nil: the main one.
  ///   - prepare: makes the service. Its errors end the process with code 78, and those of the `Start` that it returns
  ///     with 74. An `ExitError` keeps its own code.
  public init(
    role: Role, summary: String, options: [Option] = [], examples: [String] = [], shardFormat: Int? = nil,
    clusters: @escaping @Sendable (Options) -> [String]? = { _ in nil }, prepare: @escaping Prepare
  ) {
    self.role = role
    self.shardFormat = shardFormat
    self.clusters = clusters
    self.options = options + Self.commonOptions(role)
    self.prepare = prepare
    help = HelpText(
      command: "aquifer-\(role.rawValue)", version: Release.version, summary: summary, options: self.options,
      examples: examples)
  }

  static func commonOptions(_ role: Role) -> [Option] {
    var options = [
      Option(
        "name", .text, default: "\(role.rawValue)-1",
        help:
          """
          The process's name: unique among the running processes and the same after a restart. '%h' stands for the \
          host's name, for replicas.
          """
      ),
      Option(
        "bus", .endpoint, default: role == .share ? BusEndpoints.defaultShare : BusEndpoints.defaultOwn,
        help:
          """
          The ZeroMQ endpoint to bind, where other processes reach this one: ipc:// with a path in a folder that only \
          this account enters (made with mode 0700), or, with keys, tcp://. '%r' stands for $XDG_RUNTIME_DIR/aquifer, \
          or without that for /run/aquifer (root) or /tmp/aquifer-UID, '%n' for the name.
          """
      ),
    ]
    if role != .share {
      options.append(
        Option(
          "share", .endpoints, default: BusEndpoints.defaultShare,
          help: """
            The bus endpoint of the share service, which knows all other processes; or those of several, of which the \
            one with the highest --epoch counts.
            """))
    }
    return options + BusKeyFiles.options + [
      MemoryLimit.option,
      Option(
        "admin", .address, default: "127.0.0.1:0",
        help:
          "The address of /livez, /readyz, /metrics and /version. Keep it internal: these paths need no credentials."),
      Option(
        "log-level", .choice(Log.Level.allNames.map(\.name)), default: "info",
        help: "The lowest level of log lines to write."),
      Option(
        "log-format", .choice(["auto"] + Log.Format.allCases.map(\.rawValue)), default: "auto",
        help: "The form of the log on standard error; auto: text on a terminal, JSON otherwise."),
      Option(
        "ready-file", .path,
        help: "A file that the process writes (atomically) when it runs: its process id, name and addresses as JSON."),
    ]
  }

  /// Starts the whole process. After an error nothing is left running.
  /// - Parameter environment: looks up an environment variable.
  /// - Throws: `ExitError`, or `Options.Request` for `--help` and `--version`.
  public func start(
    arguments: [String], environment: @escaping @Sendable (String) -> String? = Self.variable,
    makeBus: MakeBus = Self.zeroMQ, log: Log? = nil,
    clock: any WallClock = SystemClock(), random: any RandomSource = SystemRandom(), timing: Timing = .system
  ) async throws -> RunningService {
    let options = try Options(options, arguments: arguments, environment: environment)
    let name = Self.expanded(options.requiredText("name"))
    guard RoleName.isValid(name) else {
      throw ExitError(.configuration, "--name is '\(name)'; it must be 1 to 64 letters, digits, '.', '_' or '-'.")
    }
    let keys = try BusKeyFiles.keys(options, role: role, name: name)
    let endpoints = try BusEndpoints(options, role: role, name: name, hasKeys: keys != nil, environment: environment)
    let recentLog = RecentLog()
    let log =
      (log
      ?? Log.standardError(
        format: Log.Format(rawValue: options.requiredText("log-format")),
        level: Log.level(named: options.requiredText("log-level")) ?? .info, service: name))
      .keeping(in: recentLog, service: name, clock: clock)
    let metrics = Metrics()
    metrics.addProcess(role: role.rawValue, startedAt: clock.now)
    if let keys { metrics.recent.note(BusKeyFiles.facts(options, keys)) }
    let memory = MemoryLimit(options, role: role)
    metrics.collect(
      "memory_limit_bytes", "Memory limit of the process, from its option, its control group or its role."
    ) { [Metrics.Sample(Double(memory.byteCount))] }
    metrics.collect(
      "log_lines_left_out_total", "Log lines dropped because the same event had many in the same second.",
      kind: .counter
    ) {
      [Metrics.Sample(Double(log.leftOutCount))]
    }
    let cluster = Cluster(name: name, role: role)
    let context = ServiceContext(
      name: name, role: role, options: options, log: log, metrics: metrics, clock: clock, random: random,
      timing: timing, cluster: cluster, recentLog: recentLog)
    let stage = Stage(context.obstacle)
    metrics.collect("ready", "1 when all checks of /readyz pass, else 0.") {
      for check in await stage.checks where await check.problem() != nil { return [Metrics.Sample(0)] }
      return [Metrics.Sample(1)]
    }
    if role != .share {
      metrics.collect("cluster_map_version", "Version of the cluster map that this process uses.") {
        cluster.current.map { [Metrics.Sample(Double($0.version))] } ?? []
      }
    }
    let admin = try startAdmin(context, stage)
    do {
      return try await start(context, keys, endpoints, stage, admin, makeBus)
    } catch {
      admin.stop()
      throw error
    }
  }

  private func startAdmin(_ context: ServiceContext, _ stage: Stage) throws -> HTTPServer {
    guard let address = context.options.address("admin") else { preconditionFailure("--admin has a default") }
    var configuration = HTTPServer.Configuration()
    configuration.address = address.host
    configuration.port = address.port
    configuration.threadCount = 1
    configuration.connectionLimit = 64
    // No limit for one address, because the port is not reachable from outside.
    configuration.connectionsPerClient = 0
    configuration.bodyByteLimit = 64 * 1024
    do throws(HTTPServer.StartError) {
      return try HTTPServer(
        configuration: configuration,
        handler: AdminHandler(role: role.rawValue, name: context.name, metrics: context.metrics) { await stage.checks })
    } catch {
      throw ExitError(.configuration, "--admin: \(error.description)")
    }
  }

  private func start(
    _ context: ServiceContext, _ keys: BusKeys?, _ endpoints: BusEndpoints, _ stage: Stage, _ admin: HTTPServer,
    _ makeBus: MakeBus
  ) async throws -> RunningService {
    let log = context.log
    var handlers = BusHandlers { message, description in
      log.error("handler failed", ["message": .text(message), "error": .text(description)])
    }
    let begin: Start
    do {
      begin = try await prepare(context, &handlers)
    } catch {
      throw error as? ExitError ?? ExitError(.configuration, "\(error)")
    }
    Self.registerRecords(of: context, in: &handlers)
    if role != .share { context.cluster.register(in: &handlers) }
    let adminURL = SocketAddress.url(context.options.address("admin")?.host ?? "", admin.port)
    let made: MadeBus
    do {
      made = try makeBus(context.name, role, endpoints.own, adminURL, handlers, busConfiguration(context, keys))
    } catch {
      throw ExitError(.configuration, "--bus: \((error as? BusError)?.reason ?? "\(error)").")
    }
    BusMetrics.add(to: context.metrics, made)
    context.cluster.start(on: made.bus, shareEndpoints: endpoints.shares)
    let service: any Service
    do {
      service = try await begin(made.bus)
    } catch {
      made.bus.close()
      throw error as? ExitError ?? ExitError(.io, "\(error)")
    }
    await stage.started(service.checks + (role == .share ? [] : [Self.clusterCheck(context.cluster)]))
    made.bus.setReady(true)
    let following =
      (keys.map { keys in [Task { await BusKeyFiles.follow(context, keys, on: made.bus) }] } ?? [])
      + [Task { await Self.sample(context) }]
    let running = RunningService(
      context: context, service: service, bus: made.bus, endpoint: made.endpoint, admin: admin, adminURL: adminURL,
      stage: stage, following: following)
    do {
      try running.writeReadyFile()
    } catch {
      await running.stop(within: .seconds(2))
      throw error
    }
    log.info("started", ["bus": .text(made.endpoint), "admin": .text(adminURL), "version": .text(Release.version)])
    return running
  }

  /// A process keeps its map while the share service is away, so this check fails only until the first map arrives.
  private static func clusterCheck(_ cluster: Cluster) -> HealthCheck {
    HealthCheck("cluster") { cluster.current == nil ? "no cluster map has come from the share service yet" : nil }
  }

  private func busConfiguration(_ context: ServiceContext, _ keys: BusKeys?) -> BusConfiguration {
    let (log, clock) = (context.log, context.clock)
    // Limits events that strangers or endless retries can cause to a few lines in half a minute each.
    let paces = (0..<4).map { _ in LogPace(lineCount: 3, perSeconds: 30) }
    var configuration = BusConfiguration()
    configuration.keys = keys
    configuration.shardFormat = shardFormat
    configuration.clusters = clusters(context.options)
    configuration.heldByteCount = max(
      MemoryLimit(context.options, role: role).byteCount / 8, 2 * configuration.partByteLimit)
    configuration.observe = { event in
      func pace(_ index: Int) -> Int64? { paces[index].admit(at: clock.now).map { Int64($0) } }
      switch event {
      case .peerConnected(let peer): log.info("peer connected", ["peer": .text(peer.name)])
      case .peerLost(let peer): log.info("peer lost", ["peer": .text(peer.name)])
      case .superseded(let peer): log.error("another process has this name", ["endpoint": .text(peer.endpoint)])
      case .malformedFrame:
        if let leftOut = pace(0) { log.warning("malformed frame", ["leftOut": .integer(leftOut)]) }
      case .refusedConnection(let reason):
        if let leftOut = pace(1) {
          log.warning("connection refused", ["reason": .text(reason), "leftOut": .integer(leftOut)])
        }
      case .refusedFrame(let name, let reason):
        if let leftOut = pace(2) {
          log.error("frame refused", ["peer": .text(name), "reason": .text(reason), "leftOut": .integer(leftOut)])
        }
      case .failedHandshake(let endpoint, let reason):
        if let leftOut = pace(3) {
          log.warning(
            "not connected", ["endpoint": .text(endpoint), "reason": .text(reason), "leftOut": .integer(leftOut)])
        }
      case .stalledLink(let name): log.warning("stalled link", ["peer": .text(name)])
      case .refusedEndpoint(let endpoint, let reason):
        log.error("endpoint refused", ["endpoint": .text(endpoint), "reason": .text(reason)])
      }
    }
    return configuration
  }

  // MARK: The system's side

  public static let zeroMQ: MakeBus = { name, role, endpoint, adminURL, handlers, configuration in
    if configuration.keys == nil, endpoint.hasPrefix("ipc://"), let problem = SocketFolder(of: endpoint).prepare() {
      throw BusError(.refused, problem)
    }
    let bus = try ZeroMQBus(
      name: name, role: role, endpoint: endpoint, adminURL: adminURL, handlers: handlers, configuration: configuration)
    return MadeBus(bus: bus, endpoint: bus.endpoint) { await bus.statistics() }
  }

  /// The environment of this process.
  public static let variable: @Sendable (String) -> String? = { name in getenv(name).map { String(cString: $0) } }

  static func expanded(_ name: String) -> String {
    guard let mark = name.firstRange(of: "%h") else { return name }
    var buffer = [CChar](repeating: 0, count: 256)
    let host =
      gethostname(&buffer, buffer.count - 1) == 0
      ? String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self) : "unknown"
    return name.replacingCharacters(in: mark, with: host)
  }
}

/// Checks names of processes, which become parts of file names, labels and log lines.
enum RoleName {
  static func isValid(_ name: String) -> Bool {
    (1...64).contains(name.utf8.count)
      && name.utf8.allSatisfy { byte in
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
          UInt8(ascii: "0")...UInt8(ascii: "9"):
          true
        default: ".-_".utf8.contains(byte)
        }
      }
  }
}

extension String {
  fileprivate func replacingCharacters(in range: Range<String.Index>, with text: String) -> String {
    self[..<range.lowerBound] + text + self[range.upperBound...]
  }
}
