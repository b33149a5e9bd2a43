// A started service, with its ready file and its stop.

internal import Glibc
internal import HTTPServer
internal import JSON
public import ServiceBus
internal import Synchronization

/// The phase of a process, for `/readyz`.
actor Stage {
  private enum Phase {
    case starting
    case running([HealthCheck])
    case draining
  }

  private var phase = Phase.starting
  private let obstacle: StartObstacle

  init(_ obstacle: StartObstacle) { self.obstacle = obstacle }

  func started(_ checks: [HealthCheck]) { phase = .running(checks) }
  func drains() { phase = .draining }

  var checks: [HealthCheck] {
    switch phase {
    case .starting: [HealthCheck("started") { [obstacle] in obstacle.text ?? "the process is starting" }]
    case .running(let checks): [HealthCheck("started") { nil }] + checks
    case .draining: [HealthCheck("started") { "the process is stopping" }]
    }
  }
}

/// A started process, without its signals and its exit.
public final class RunningService: Sendable {
  public let context: ServiceContext
  public let service: any Service
  public let bus: any Bus
  /// The endpoint that the bus is bound to.
  public let endpoint: String
  public let adminURL: String
  private let admin: HTTPServer
  private let stage: Stage
  /// Follow the file of known peers, and sample the process's figures.
  private let following: [Task<Void, Never>]
  /// Retries the ready file until the disk has space.
  private let readyFileTask = Mutex<Task<Void, Never>?>(nil)

  init(
    context: ServiceContext, service: any Service, bus: any Bus, endpoint: String, admin: HTTPServer, adminURL: String,
    stage: Stage,
    following: [Task<Void, Never>]
  ) {
    self.context = context
    self.service = service
    self.bus = bus
    self.endpoint = endpoint
    self.admin = admin
    self.adminURL = adminURL
    self.stage = stage
    self.following = following
  }

  /// Announces the stop, drains the service and then the bus, and closes both. Called once.
  /// - Parameter limit: the time for the bus. The service's own drain keeps its own limits.
  public func stop(within limit: Duration) async {
    context.log.info("stopping")
    await stage.drains()
    bus.setReady(false)
    for task in following { task.cancel() }
    readyFileTask.withLock { $0?.cancel() }
    await service.drain()
    await bus.drain(within: limit)
    bus.close()
    await service.close()
    context.cluster.close()
    await admin.drain(within: .milliseconds(100))
    admin.stop()
    removeReadyFile()
    context.log.info("stopped")
  }

  /// The content of the ready file: `{"pid","name","role","bus","admin", and the service's addresses}`.
  var readyFacts: [UInt8] {
    var writer = JSONWriter()
    writer.beginObject()
    writer.member("pid", Int(getpid()))
    writer.member("name", context.name)
    writer.member("role", context.role.rawValue)
    writer.member("bus", endpoint)
    writer.member("admin", adminURL)
    for (name, address) in service.addresses.sorted(by: { $0.key < $1.key }) { writer.member(name, address) }
    writer.endObject()
    return writer.bytes + [UInt8(ascii: "\n")]
  }

  /// Writes the file beside its final place and renames it, so that no reader sees half of it. On a full disk the
  /// process serves without the file, and retries until there is space.
  func writeReadyFile() throws(ExitError) {
    guard try !tryReadyFile() else { return }
    context.log.warning("the ready file can't be written yet: its disk is full")
    readyFileTask.withLock { task in
      task = Task { [self] in
        while !Task.isCancelled {
          // Dropped because a cancelled sleep ends the loop.
          try? await context.timing.sleep(.seconds(1))
          // Dropped because the process serves already, and its supervisor sees that the file is missing.
          if !Task.isCancelled, (try? tryReadyFile()) ?? false { return }
        }
      }
    }
  }

  /// - Returns: false when the disk has no space for it.
  private func tryReadyFile() throws(ExitError) -> Bool {
    guard let path = context.options.text("ready-file") else { return true }
    let temporary = "\(path).\(getpid())"
    let bytes = readyFacts
    let fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
    if fd < 0, Self.isFull(errno) { return false }
    guard fd >= 0 else {
      throw ExitError(.io, "--ready-file: '\(temporary)' can't be written: \(String(cString: strerror(errno))).")
    }
    let isWritten = write(fd, bytes, bytes.count) == bytes.count
    let isFull = !isWritten && Self.isFull(errno)
    close(fd)
    guard isWritten, rename(temporary, path) == 0 else {
      if isFull || Self.isFull(errno) {
        unlink(temporary)
        return false
      }
      let reason = String(cString: strerror(errno))
      unlink(temporary)
      throw ExitError(.io, "--ready-file: '\(path)' can't be written: \(reason).")
    }
    return true
  }

  /// No space is left, or none of the account's.
  static func isFull(_ code: Int32) -> Bool { code == ENOSPC || code == EDQUOT }

  private func removeReadyFile() {
    if let path = context.options.text("ready-file") { unlink(path) }
  }
}
