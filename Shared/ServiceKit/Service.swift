// What a service is to the process that runs it.

public import ServiceBus

/// A service that has started.
public protocol Service: Sendable {
  /// Beside the checks every process has (started, not draining, knows the cluster).
  var checks: [HealthCheck] { get }
  /// Addresses for the ready file by what they are for, e.g. `["http": "http://127.0.0.1:8081"]`.
  var addresses: [String: String] { get }
  /// Takes nothing new, finishes what is in hand. Peers on the bus have been told and can still be called; afterwards the bus finishes
  /// what runs there and closes.
  func drain() async
  /// The bus is closed, no handler runs any more: close files.
  func close() async
}

extension Service {
  public var checks: [HealthCheck] { [] }
  public var addresses: [String: String] { [:] }
  public func close() async {}
}

/// What a process gives its service.
public struct ServiceContext: Sendable {
  /// Unique among the living processes and stable over restarts, e.g. `notifier-1`.
  public let name: String
  public let role: Role
  public let options: Options
  public let log: Log
  public let metrics: Metrics
  public let clock: any WallClock
  public let random: any RandomSource
  public let timing: Timing
  /// Registered on the bus and started with it, but in the share service, which makes the map itself.
  public let cluster: Cluster
  /// What keeps the service from starting.
  public let obstacle = StartObstacle()

  public init(
    name: String, role: Role, options: Options, log: Log, metrics: Metrics, clock: any WallClock, random: any RandomSource, timing: Timing, cluster: Cluster
  ) {
    self.name = name
    self.role = role
    self.options = options
    self.log = log
    self.metrics = metrics
    self.clock = clock
    self.random = random
    self.timing = timing
    self.cluster = cluster
  }
}
