// Changes whose outcome becomes known after their calls were refused.

import CSQLite
import FaultyDisk
import InMemoryServiceBus
import Records
import ServiceBus
import ServiceKit
import Testing

@testable import ShareService

@Suite(.timeLimit(.minutes(1))) struct LateChangeTests {
  @Test func `a change that may be stored although its call was refused is announced once the directory knows`()
    async throws
  {
    let folder = TemporaryFolder()
    let disk = DiskFaultTests.Disk(folder)
    let network = InMemoryNetwork(time: .stepped)
    let service = try ShareService(
      .init(dataPath: folder.path, operatorToken: World.operatorToken), clock: FixedClock(),
      random: SeededRandom(seed: 1), log: .silent)
    var handlers = BusHandlers()
    service.register(in: &handlers)
    let bus = InMemoryBus(name: "share", role: .share, network: network, handlers: handlers, isReady: true)
    let running = Task { try await service.run(on: bus) }
    let gateway = BusTests.Neighbour("gateway-1", .gateway, network)
    await gateway.bus.waitForPeers { $0.contains { $0.role == .share } }
    for (method, path, body) in [
      ("POST", "/admin/1/containers", #"{"container":"\#(World.photos)"}"#),
      ("PUT", "/mirror/1/\(World.photos)/development/model", modelXML()),
      ("POST", "/admin/1/users", #"{"name":"eve"}"#),
    ] { #expect(try await gateway.operate(method, path, body).status == 200) }
    disk.fail(FAULTY_DISK_SYNC, DiskFaultTests.Disk.syncError)
    #expect(try await gateway.operate("POST", "/admin/1/users/eve/disable").status == 503)
    disk.fail(nil)
    #expect(try await gateway.operate("GET", "/admin/1/users").status == 200)
    // No call announces both.
    while let change = await gateway.nextChange() {
      if change.credentials, change.schemas == ["\(World.photos)/development"] { break }
    }
    running.cancel()
    try await running.value
    gateway.bus.close()
    bus.close()
    await service.close()
    withExtendedLifetime((folder, disk)) {}
  }
}
