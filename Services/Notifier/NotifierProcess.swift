// The notifier as a process: its options, its handlers on the bus, its start and its stop.

import Authentication
import HTTPClient
import HTTPServer
public import ServiceBus
public import ServiceKit

extension Notifier {
  /// The options of `aquifer-notifier` besides those of every process.
  public static let options: [Option] =
    [
      Option(
        "http", .address, default: "127.0.0.1:8081",
        help: "The address where devices connect, for event streams and the web courier. Port 0: any free port."),
      Option(
        "public-url", .url,
        help: "The notifier's URL for devices, if it differs from the address it listens on; the ready file shows it."),
      Option(
        "connections", .integer(1...1_000_000), default: "20000",
        help:
          """
          The limit of connected devices; the notifier answers more with TRY_AGAIN_LATER. Memory and open files may \
          lower the limit.
          """
      ),
      Option(
        "courier-hold", .seconds(0.1...300), default: "50",
        help: "The time that the notifier holds a web courier's poll before it answers without a notification."),
      Option(
        "user-devices", .integer(1...1_000_000), default: "256",
        help:
          """
          The limit of one user's open event streams, and of their web couriers; the notifier answers more with \
          THROTTLED.
          """
      ),
      Option(
        "heartbeat", .seconds(0.1...3600), default: "25",
        help: "The pause between two keep-alive comments of a silent event stream."),
      Option(
        "push-interval", .seconds(0...3600), default: "2",
        help: "The least time between two pushes of one zone or subscription to a sleeping device."),
      Option(
        "push-authorities", .path,
        help: "A PEM file of the authorities to trust for push services and webhooks, in place of the system's."),
      Option(
        "push-private-addresses", .flag,
        help:
          """
          Lets clients register browsers' services and webhooks at private addresses, such as 127.0.0.1 and 10.0.0.7. \
          Clients can then make the notifier call machines of its network.
          """
      ),
    ] + ClientListening.options

  /// Makes the notifier from the process's options.
  /// - Parameter adjust: changes limits that have no option.
  public convenience init(_ context: ServiceContext, adjust: (inout Limits) -> Void = { _ in }) {
    var limits = Limits()
    if let hold = context.options.duration("courier-hold") { limits.courierHold = hold }
    if let heartbeat = context.options.duration("heartbeat") { limits.heartbeat = heartbeat }
    if let count = context.options.integer("user-devices") {
      (limits.streamsPerUser, limits.couriersPerUser) = (count, count)
    }
    if let interval = context.options.duration("push-interval") { limits.pushes.interval = interval }
    if context.options.flag("push-private-addresses") { limits.pushReach = .everywhere }
    limits.pushAuthorities = context.options.text("push-authorities")
    adjust(&limits)
    limits.pushes.fit(files: Int(clamping: ProcessStatus.fileLimit))
    limits.tick = min(limits.tick, limits.courierHold / 4, limits.heartbeat / 4, limits.recheck / 4)
    self.init(
      limits: limits, metrics: context.metrics, timing: context.timing, wallClock: context.clock,
      random: context.random, log: context.log, name: context.name)
  }

  /// The most memory of a held connection with its stream or poll.
  private static let connectionByteCount = 12 * 1024

  /// The number of connections that three quarters of the memory can hold.
  static func connectionLimit(memoryByteCount: Int) -> Int { memoryByteCount / 4 * 3 / connectionByteCount }

  /// Registers handlers for the messages of workers and of the share service.
  public func register(in handlers: inout BusHandlers) {
    handlers.on(PushZoneChanges.self) { [self] message, _, _ in
      deliver(message.changes)
      return Answer(Acknowledgement())
    }
    handlers.on(PushNotifications.self) { [self] message, _, _ in
      deliver(message.notifications)
      return Answer(Acknowledgement())
    }
    handlers.on(OpenCourier.self) { [self] message, _, _ in Answer(OpenCourier.Reply(isOpen: try await open(message))) }
    handlers.on(NotificationsDelivered.self) { [self] message, _, _ in
      forget(message.deliveries)
      return Answer(Acknowledgement())
    }
    handlers.on(PushRegistrationsChanged.self) { [self] _, _, _ in
      sleepers.registrationsChanged()
      return Answer(Acknowledgement())
    }
    handlers.on(FetchPings.self) { [self] message, _, _ in Answer(Acknowledgement(), body: answer(message)) }
    handlers.on(FetchPushRecords.self) { [self] message, _, _ in
      Answer(Acknowledgement(), body: sleepers.answer(message))
    }
    handlers.serve(authenticator) { [self] in credentialsChanged() }
  }

  /// Begins to serve devices.
  /// - Throws: `ExitError` when the address can't be listened on.
  public func start(on bus: any Bus, _ context: ServiceContext) async throws(ExitError) -> any Service {
    attach(bus)
    let options = context.options
    var configuration = try ClientListening.configuration(context)
    configuration.connectionLimit = min(
      options.integer("connections") ?? configuration.connectionLimit,
      Self.connectionLimit(memoryByteCount: MemoryLimit(options, role: context.role).byteCount))
    configuration.otherFileCount += limits.pushes.connectionCount
    // No call has a body, and small buffers make ten thousand held connections cheap.
    configuration.bodyByteLimit = 64 * 1024
    configuration.headerByteLimit = 8 * 1024
    let server: HTTPServer
    do throws(HTTPServer.StartError) {
      server = try HTTPServer(configuration: configuration, handler: NotifierHandler(notifier: self))
    } catch {
      throw ExitError(.configuration, "--http: \(error.description)")
    }
    context.metrics.addClients(of: server)
    context.log.connectionLimit(of: server, wanted: configuration.connectionLimit)
    return RunningNotifier(
      notifier: self, server: server, url: ClientListening.url(configuration, port: server.port),
      publicURL: options.url("public-url"),
      housekeeping: Task { await self.run() }, telling: Task { await self.deliveries.run(on: bus) },
      waking: Task { await self.wakeSleepers(on: bus) })
  }
}

struct RunningNotifier: Service {
  let notifier: Notifier
  let server: HTTPServer
  let url: String
  let publicURL: String?
  /// The process's long-lived tasks; `drain` ends them.
  let housekeeping: Task<Void, Never>
  let telling: Task<Void, Never>
  let waking: Task<Void, Never>

  var addresses: [String: String] { ["http": url, "publicURL": publicURL ?? url] }

  /// Devices reconnect to another notifier, or to this one's successor. Change tokens reveal what they missed
  /// meanwhile.
  func drain() async {
    housekeeping.cancel()
    telling.cancel()
    waking.cancel()
    await server.drain(within: .seconds(5))
    server.stop()
  }
}
