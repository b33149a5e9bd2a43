// The interface between a service and the process that runs it.

public import ServiceBus

public protocol Service: Sendable {
  /// The service's own checks. Every process adds `started`, and all except the share service add `cluster`.
  var checks: [HealthCheck] { get }
  /// Addresses for the ready file, by purpose, e.g. `["http": "http://127.0.0.1:8081"]`.
  var addresses: [String: String] { get }
  /// Takes no further work and finishes the current work. Peers on the bus know about the drain and can still be
  /// called. The bus finishes its own work and closes afterwards.
  func drain() async
  /// Closes files. Called after the bus is closed and the last handler has ended.
  func close() async
}

extension Service {
  public var checks: [HealthCheck] { [] }
  public var addresses: [String: String] { [:] }
  public func close() async {}
}

/// The parts that a process provides to its service.
public struct ServiceContext: Sendable {
  /// Unique among the running processes and stable over restarts, e.g. `notifier-1`.
  public let name: String
  public let role: Role
  public let options: Options
  public let log: Log
  public let metrics: Metrics
  public let clock: any WallClock
  public let random: any RandomSource
  public let timing: Timing
  /// The cluster map. Every process except the share service, which makes the map, receives it over the bus.
  public let cluster: Cluster
  /// The reason why the service has not started yet.
  public let obstacle = StartObstacle()
  /// Ends the process from within.
  public let ending = ProcessEnding()
  /// The process's latest log lines.
  public let recentLog: RecentLog

  public init(
    name: String, role: Role, options: Options, log: Log, metrics: Metrics, clock: any WallClock,
    random: any RandomSource, timing: Timing, cluster: Cluster, recentLog: RecentLog = RecentLog()
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
    self.recentLog = recentLog
  }
}
