import Glibc
import HTTPClient
import HTTPServer
import InMemoryServiceBus
import JSON
import ServiceBus
import Synchronization
import Testing

@testable import ServiceKit

/// Notes its life-cycle calls in order.
private final class NotingService: Service {
  private let notes = Mutex<[String]>([])
  private let problem = Mutex<String?>(nil)

  var noted: [String] { notes.withLock { $0 } }
  func note(_ text: String) { notes.withLock { $0.append(text) } }
  func fail(_ text: String?) { problem.withLock { $0 = text } }

  var checks: [HealthCheck] { [HealthCheck("disk") { self.problem.withLock { $0 } }] }
  var addresses: [String: String] { ["http": "http://127.0.0.1:1"] }
  func drain() async { note("drain") }
  func close() async { note("close") }
}

struct ServiceProcessTests {
  private let service = NotingService()
  private let network = InMemoryNetwork()
  private let client = HTTPClient()

  private func process(
    role: Role = .share, options: [Option] = [], prepare: @escaping ServiceProcess.Prepare
  ) -> ServiceProcess {
    ServiceProcess(role: role, summary: "A test.", options: options, prepare: prepare)
  }

  private var plain: ServiceProcess { process { _, _ in { _ in service } } }

  private func start(_ process: ServiceProcess, _ arguments: [String] = []) async throws -> RunningService {
    try await process.start(
      arguments: arguments, environment: { _ in nil },
      makeBus: { name, role, endpoint, adminURL, handlers, configuration in
        let bus = InMemoryBus(
          name: name, role: role, network: network, handlers: handlers, endpoint: endpoint, adminURL: adminURL,
          configuration: configuration)
        return ServiceProcess.MadeBus(bus: bus, endpoint: bus.endpoint) { await bus.statistics() }
      }, log: .silent)
  }

  private func get(_ running: RunningService, _ path: String) async throws -> (
    status: Int, body: JSONValue?, text: String
  ) {
    let response = try await client.send("GET", running.adminURL + path)
    // Dropped because metrics are no JSON; their tests read the text.
    return (response.status, try? JSONValue(parsing: response.body), String(decoding: response.body, as: UTF8.self))
  }

  @Test func `a service is started with what it registered, is ready, and stops in order`() async throws {
    struct Hello: Message {
      static let name = "test.hello/1"
      static let senders = Set(Role.allCases)
      static let isRepeatable = true
      typealias Reply = Acknowledgement
    }
    let path = "/tmp/aquifer-ready-\(getpid())-\(UInt64.random(in: 0 ... .max))"
    let running = try await start(
      process(options: [Option("greeting", .text, default: "hi", help: "What to say.")]) { context, handlers in
        service.note("prepare \(context.options.requiredText("greeting")) \(context.name)")
        handlers.on(Hello.self) { _, _, _ in
          service.note("hello")
          return Answer(Acknowledgement())
        }
        return { bus in
          service.note("start \(bus.own.name) \(bus.own.isReady)")
          return service
        }
      }, ["--name=s-%h", "--ready-file", path, "--greeting", "moin"])
    let other = InMemoryBus(name: "other", role: .gateway, network: network, handlers: BusHandlers())
    other.connect(to: running.endpoint)
    await other.waitForPeers { $0.contains { $0.role == .share && $0.isReady } }
    _ = try await other.call(Hello(), to: .role(.share), within: .seconds(10))
    #expect(other.peers.first?.adminURL == running.adminURL)

    let name = running.context.name
    #expect(name.hasPrefix("s-") && !name.contains("%"))
    let ready = try await get(running, "/readyz")
    #expect(ready.status == 200)
    #expect(ready.body?["ready"]?.bool == true)
    #expect(ready.body?["checks"]?.elements.map { $0["name"]?.string } == ["started", "disk"])
    let file = try #require(Self.read(path))
    let facts = try JSONValue(parsing: Array(file.utf8))
    #expect(facts["pid"]?.int64 == Int64(getpid()))
    #expect(facts["role"]?.string == "share")
    #expect(facts["bus"]?.string == running.endpoint)
    #expect(facts["admin"]?.string == running.adminURL)
    #expect(facts["http"]?.string == "http://127.0.0.1:1")

    await running.stop(within: .seconds(5))
    #expect(service.noted == ["prepare moin \(name)", "start \(name) false", "hello", "drain", "close"])
    #expect(Self.read(path) == nil)
    await #expect(throws: HTTPClientError.self) { try await client.send("GET", running.adminURL + "/livez") }
  }

  private static func read(_ path: String) -> String? {
    guard let file = fopen(path, "r") else { return nil }
    defer { fclose(file) }
    var buffer = [UInt8](repeating: 0, count: 4096)
    return String(decoding: buffer[..<fread(&buffer, 1, 4096, file)], as: UTF8.self)
  }

  @Test func `readiness names the check that fails, liveness does not ask them`() async throws {
    let running = try await start(plain)
    service.fail("no space left")
    let ready = try await get(running, "/readyz")
    #expect(ready.status == 503)
    #expect(ready.body?["ready"]?.bool == false)
    #expect(ready.text.contains("{\"name\":\"disk\",\"ok\":false,\"problem\":\"no space left\"}"))
    #expect(try await get(running, "/livez").status == 200)
    service.fail(nil)
    #expect(try await get(running, "/readyz").status == 200)
    await running.stop(within: .seconds(5))
  }

  @Test func `a process that needs the cluster is ready once a map has come`() async throws {
    let running = try await start(
      process(role: .notifier) { _, _ in { _ in service } }, ["--share", "ipc:///nowhere/share.sock"])
    #expect(try await get(running, "/readyz").text.contains("no cluster map"))
    try await publishMap(at: "ipc:///nowhere/share.sock")
    #expect(try await get(running, "/readyz").status == 200)
    await running.stop(within: .seconds(5))
  }

  /// Acts like a share service at that endpoint.
  private func publishMap(at endpoint: String) async throws {
    let share = InMemoryBus(
      name: "share", role: .share, network: network, handlers: BusHandlers(), endpoint: endpoint, isReady: true)
    await share.waitForPeers { !$0.isEmpty }
    _ = try await share.call(
      PublishClusterMap(map: ClusterMap(version: 1, members: [], holders: [])), to: .role(.notifier),
      within: .seconds(10))
  }

  @Test func `a process that is told several share services is ready with a map of any, and checks each address`()
    async throws
  {
    let running = try await start(
      process(role: .notifier) { _, _ in { _ in service } },
      ["--share", "ipc:///nowhere/first.sock,ipc:///nowhere/second.sock"])
    try await publishMap(at: "ipc:///nowhere/second.sock")
    #expect(try await get(running, "/readyz").status == 200)
    await running.stop(within: .seconds(5))
    let exposed = await exitCode(
      process(role: .notifier) { _, _ in { _ in service } },
      ["--share", "ipc:///nowhere/first.sock,tcp://10.9.8.7:1"])
    #expect(exposed?.code == .configuration)
    #expect(exposed?.description.hasPrefix("--share: tcp://10.9.8.7:1 could carry unencrypted data") == true)
  }

  @Test func `metrics, version and unknown paths`() async throws {
    let running = try await start(
      process { context, _ in
        context.metrics.counter("things_total", "Things.").increment()
        return { _ in service }
      })
    let metrics = try await get(running, "/metrics")
    #expect(metrics.status == 200)
    for text in [
      "aquifer_things_total 1\n", "aquifer_bus_calls_total 0\n", "aquifer_bus_peers{role=\"worker\"} 0\n",
      "process_open_fds ",
    ] {
      #expect(metrics.text.contains(text))
    }
    #expect(try await get(running, "/version").body?["version"]?.string == Release.version)
    for path in ["/", "/nope", "/metrics/x"] { #expect(try await get(running, path).status == 404) }
    #expect(try await client.send("POST", running.adminURL + "/livez").status == 404)
    await running.stop(within: .seconds(5))
  }

  private func exitCode(_ process: ServiceProcess, _ arguments: [String] = []) async -> ExitError? {
    do {
      let running = try await start(process, arguments)
      await running.stop(within: .seconds(1))
      return nil
    } catch { return error as? ExitError }
  }

  @Test func `an error at the start has a code and a sentence`() async throws {
    struct Broken: Error, CustomStringConvertible { let description = "The folder is missing." }
    #expect(await exitCode(process { _, _ in throw Broken() }) == ExitError(.configuration, "The folder is missing."))
    #expect(await exitCode(process { _, _ in { _ in throw Broken() } }) == ExitError(.io, "The folder is missing."))
    #expect(
      await exitCode(process { _, _ in { _ in throw ExitError(.tryAgain, "Later.") } })
        == ExitError(.tryAgain, "Later."))
    #expect(await exitCode(plain, ["--name", "a b"])?.code == .configuration)
    #expect(
      await exitCode(plain, ["--admin", "192.0.2.1:1"])?.description.hasPrefix("--admin: Can't listen on 192.0.2.1:1")
        == true)
    #expect(await exitCode(plain, ["--ready-file", "/nonexistent/x"])?.code == .io)
    #expect(await exitCode(plain, ["--share", "tcp://h:1"])?.code == .usage)
    #expect(service.noted == ["drain", "close"])
  }

  @Test(arguments: [(ENOSPC, true), (EDQUOT, true), (EACCES, false), (EROFS, false)])
  func `an account without space left is as good as a full disk`(code: Int32, isFull: Bool) {
    #expect(RunningService.isFull(code) == isFull)
  }

  @Test func `a bus that can't be bound is named`() async throws {
    do {
      _ = try await plain.start(
        arguments: ["--bus", "ipc:///proc/nonexistent/x.sock"], environment: { _ in nil }, log: .silent)
      Issue.record("it started")
    } catch let error as ExitError {
      #expect(error.code == .configuration)
      #expect(error.description.hasPrefix("--bus: "))
    }
  }
}
