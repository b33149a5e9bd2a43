// The share service as a process beside others of its kind: the epoch in which it leads, and its end.

import InMemoryServiceBus
import PostgreSQL
import PrivateCluster
import ServiceBus
import ServiceKit
import Testing

@testable import ShareService

@Suite(.timeLimit(.minutes(1))) struct LeadershipTests {
  private static let endpoint = "ipc:///nowhere/share.sock"
  private let folder = TemporaryFolder()
  private let network = InMemoryNetwork()

  private func start(_ options: [String] = []) async throws -> RunningService {
    let process = ServiceProcess(role: .share, summary: "A test.", options: ShareService.options) { context, handlers in
      let share = try await ShareService.leading(context)
      share.register(in: &handlers)
      return { bus in try await share.start(on: bus, context) }
    }
    return try await process.start(
      arguments: ["--data", folder.path, "--bus", Self.endpoint, "--operator-token", World.operatorToken] + options,
      environment: { _ in nil },
      makeBus: { name, role, endpoint, adminURL, handlers, configuration in
        let bus = InMemoryBus(
          name: name, role: role, network: network, handlers: handlers, endpoint: endpoint, adminURL: adminURL,
          configuration: configuration)
        return ServiceProcess.MadeBus(bus: bus, endpoint: bus.endpoint) { await bus.statistics() }
      }, log: .silent)
  }

  /// The epoch that a start with these options announces.
  private func epoch(_ options: [String] = []) async throws -> Int64? {
    let running = try await start(options)
    let epoch = running.bus.own.epoch
    await running.stop(within: .seconds(5))
    return epoch
  }

  @Test func `a share service leads with the highest epoch that its directory was ever given`() async throws {
    #expect(try await epoch() == nil)
    #expect(try await epoch(["--epoch", "3"]) == 3)
    #expect(try await epoch() == 3)
    #expect(try await epoch(["--epoch", "2"]) == 3)
    #expect(try await epoch(["--epoch", "4"]) == 4)
  }

  @Test func `a share service is not ready any more once a process follows another one, and says why`() async throws {
    let running = try await start(["--epoch", "1"])
    let gateway = InMemoryBus(name: "gateway-1", role: .gateway, network: network, handlers: BusHandlers())
    gateway.connect(to: Self.endpoint)
    await gateway.waitForPeers { $0.contains { $0.isReady && $0.epoch == 1 } }
    #expect(await problems(of: running) == [])
    gateway.setEpoch(2)
    await gateway.waitForPeers { $0.contains { !$0.isReady } }
    #expect(await problems(of: running) == ["the share service of epoch 2 leads"])
    // Nothing makes it ready again.
    running.bus.setReady(true)
    for await _ in running.bus.peerChanges() where !running.bus.own.isReady { break }
    await running.stop(within: .seconds(5))
    gateway.close()
  }

  @Test func `a share service that another one of its database has followed asks for its end, and may lead again`()
    async throws
  {
    let database = PostgreSQLDirectory.Configuration(address: try PrivateCluster.shared.get().address)
    let options = ["--directory", database.address, "--allow-asynchronous"]
    let former = try await start(options)
    let epoch = try #require(former.bus.own.epoch)
    #expect(former.context.ending.reason == nil)
    _ = try Session(database.session).rows(TenureCommand.raise.command, [.integer(0)])
    // Its next change finds the higher epoch.
    let directory = try #require(former.service as? RunningShareService).share.directory
    await #expect(throws: PostgreSQLDirectory.Led(epoch: epoch + 1)) { try await directory.change {} }
    while former.context.ending.reason == nil { try await Task.sleep(for: .milliseconds(10)) }
    #expect(former.context.ending.reason?.code == .tryAgain)
    #expect(await problems(of: former).contains("the share service of epoch \(epoch + 1) leads"))
    await former.stop(within: .seconds(5))
    let again = try await start(options)
    #expect(again.bus.own.epoch == epoch + 2)
    await again.stop(within: .seconds(5))
  }

  @Test func `one that waits says why, and counts as a standby only while another one leads`() async throws {
    let options = try Options(ShareService.options, arguments: ["--data", folder.path], environment: { _ in nil })
    let context = ServiceContext(
      name: "share-2", role: .share, options: options, log: .silent, metrics: Metrics(), clock: FixedClock(),
      random: SeededRandom(seed: 1), timing: .system, cluster: Cluster(name: "share-2", role: .share))
    func isStandby() async -> Bool {
      String(decoding: await context.metrics.text(), as: UTF8.self).contains("aquifer_standby 1\n")
    }
    let waiting = Waiting(context)
    waiting.note("the database is away", asStandby: false)
    #expect(await !isStandby())
    waiting.note("another one leads", asStandby: true)
    #expect(await isStandby())
    #expect(context.obstacle.text == "another one leads")
    waiting.ended()
    #expect(await !isStandby())
    #expect(context.obstacle.text == nil)
  }

  private func problems(of running: RunningService) async -> [String] {
    var problems: [String] = []
    for check in running.service.checks { if let problem = await check.problem() { problems.append(problem) } }
    return problems
  }
}
