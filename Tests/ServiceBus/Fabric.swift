// The transports of the conformance suite: buses in memory, or over ZeroMQ.

import Glibc
import InMemoryServiceBus
import ServiceBus
import Synchronization
import Testing

@testable import ServiceBusPeer

/// An implementation of the bus.
enum Transport: String, CaseIterable, CustomTestStringConvertible {
  case memory, ipc, tcp
  /// Over ipc, with every handler on the bus's own thread.
  case brief
  var testDescription: String { rawValue }
}

/// A bus of the suite, with a journal of its handlers.
struct Station: Sendable {
  let bus: any Bus
  let endpoint: String
  let state: HandlerState
  /// Kept alive, because the sockets are in its folder.
  let fabric: Fabric

  func call<M: Message>(_ message: M, body: [UInt8] = [], to name: String, within deadline: Duration = .seconds(100))
    async throws(BusError) -> Answer<M.Reply>
  {
    try await bus.call(message, body: body, to: .peer(name), within: deadline)
  }

  /// The failure of a call that must fail.
  func failure<M: Message>(_ message: M, body: [UInt8] = [], to name: String, within deadline: Duration = .seconds(100))
    async -> BusError?
  {
    do {
      _ = try await call(message, body: body, to: name, within: deadline)
      return nil
    } catch {
      return error
    }
  }

  func meets(_ names: String...) async {
    await bus.waitForPeers { peers in names.allSatisfy { name in peers.contains { $0.name == name } } }
  }

  func loses(_ name: String) async {
    await bus.waitForPeers { peers in !peers.contains { $0.name == name } }
  }

  /// Waits until a handler at `name` has written an entry.
  func journal(of name: String, contains entry: String) async throws {
    try await eventually { try await call(Journal(), to: name).reply.entries.contains(entry) }
  }
}

extension Station {
  /// Makes parallel calls to `b`, which must all succeed.
  /// - Parameter meanwhile: runs once the bus has all calls.
  /// - Returns: the numbers in the order in which the bus got them, which differs from the order of the tasks.
  @MainActor
  func appendAll(
    _ numbers: Range<Int>, key: String, bodyByteCount: Int = 0, meanwhile: @MainActor () async -> Void = {}
  ) async -> [Int] {
    var sent: [Int] = []
    let tasks = numbers.map { number in
      Task { @MainActor in
        // Nothing suspends between this line and the bus.
        sent.append(number)
        return await failure(Append(key: key, number: number), body: Array(repeating: 7, count: bodyByteCount), to: "b")
      }
    }
    await eventually { sent.count == numbers.count }
    await meanwhile()
    var failures: Set<BusError> = []
    for task in tasks {
      if let failure = await task.value { failures.insert(failure) }
    }
    #expect(failures == [])
    return sent
  }
}

/// Makes buses that can connect to each other, and ends them.
final class Fabric: Sendable {
  let transport: Transport
  let network = InMemoryNetwork()
  private let folder = SocketFolder()

  init(_ transport: Transport) { self.transport = transport }

  func station(
    _ name: String, _ role: Role = .worker, isReady: Bool = true, endpoint: String? = nil, incarnation: UInt64? = nil,
    configuration: BusConfiguration = BusConfiguration(), reports: @escaping @Sendable (String) -> Void = { _ in }
  ) throws -> Station {
    let state = HandlerState(name: name)
    let handlers = state.handlers(areBrief: transport == .brief, reports: reports)
    switch transport {
    case .memory:
      let bus = InMemoryBus(
        name: name, role: role, network: network, handlers: handlers, endpoint: endpoint, isReady: isReady,
        configuration: configuration, incarnation: incarnation)
      return Station(bus: bus, endpoint: bus.endpoint, state: state, fabric: self)
    case .ipc, .tcp, .brief:
      let bus = try ZeroMQBus(
        name: name, role: role, endpoint: endpoint ?? freshEndpoint(), isReady: isReady, handlers: handlers,
        configuration: configuration,
        incarnation: incarnation)
      return Station(bus: bus, endpoint: bus.endpoint, state: state, fabric: self)
    }
  }

  /// An unused endpoint for ZeroMQ.
  func freshEndpoint() -> String { transport == .tcp ? "tcp://127.0.0.1:*" : folder.endpoint() }

  /// Two stations, `a` connected to `b`.
  func pair(
    _ configuration: BusConfiguration = BusConfiguration(), reports: @escaping @Sendable (String) -> Void = { _ in }
  ) async throws -> (a: Station, b: Station) {
    let a = try station("a", .gateway, configuration: configuration)
    let b = try station("b", .worker, configuration: configuration, reports: reports)
    a.bus.connect(to: b.endpoint)
    await a.meets("b")
    await b.meets("a")
    return (a, b)
  }
}

/// Waits until a condition holds. The pause between two checks only saves processor time.
func eventually(_ condition: () async throws -> Bool) async rethrows {
  while try await !condition() {
    do { try await Task.sleep(for: .milliseconds(1)) } catch { return }
  }
}

/// A value that several tasks of a test change.
final class Guarded<Value: Sendable>: Sendable {
  private let state: Mutex<Value>
  init(_ value: Value) { state = Mutex(value) }
  var value: Value { state.withLock { $0 } }
  func change(_ body: (inout Value) -> Void) { state.withLock { body(&$0) } }
}

/// A folder for sockets, removed with the fabric.
final class SocketFolder: Sendable {
  let path: String
  private let count = Atomic<Int>(0)

  init() {
    var template = Array(("/tmp/aquifer-bus-" + String(repeating: "X", count: 6)).utf8CString)
    path = mkdtemp(&template).map { String(cString: $0) } ?? "/tmp"
  }

  func endpoint() -> String { "ipc://\(path)/\(count.wrappingAdd(1, ordering: .relaxed).newValue)" }

  deinit {
    for number in 0...count.load(ordering: .relaxed) { unlink("\(path)/\(number)") }
    rmdir(path)
  }
}
