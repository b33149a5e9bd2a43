import Records
import ServiceBus
import Synchronization
import Testing

@testable import Gateway

struct AppBookTests {
  private static func container(_ name: String = GatewayWorld.container) throws -> ContainerID {
    try #require(ContainerID(rawValue: name))
  }

  @Test func `an app's name is asked for once, and again after a change of the directory`() async throws {
    let world = try await GatewayWorld()
    let id = try Self.container()
    for _ in 0..<2 {
      #expect(
        await world.gateway.app(of: id)
          == LookUpApp.Reply(displayName: "Photo Book", appURL: "https://photos.example.org"))
    }
    #expect(world.record.withLock(\.appQuestions) == 1)
    world.record.withLock { $0.app = LookUpApp.Reply(displayName: "Albums") }
    world.state.apps.expire()
    #expect(await world.gateway.app(of: id) == LookUpApp.Reply(displayName: "Albums"))
    #expect(world.record.withLock(\.appQuestions) == 2)
  }

  @Test func `the last answer is good while nobody answers, and without one a page does without`() async throws {
    let world = try await GatewayWorld()
    let id = try Self.container()
    _ = await world.gateway.app(of: id)
    world.record.withLock { $0.app = nil }
    world.state.apps.expire()
    #expect(await world.gateway.app(of: id).displayName == "Photo Book")
    #expect(await world.gateway.app(of: try Self.container("iCloud.other")) == LookUpApp.Reply())
  }

  @Test(.timeLimit(.minutes(5))) func `a gateway remembers a bounded number of apps`() async throws {
    let world = try await GatewayWorld()
    // On a busy machine an answer can come later than a gateway waits for it; then the app is asked for again.
    for number in 1...AppBook.entryLimit {
      let id = try Self.container("iCloud.a\(number)")
      while world.state.apps.count < number { _ = await world.gateway.app(of: id) }
    }
    #expect(world.state.apps.count == AppBook.entryLimit)
    while world.state.apps.count == AppBook.entryLimit { _ = await world.gateway.app(of: try Self.container()) }
    #expect(world.state.apps.count == 1)
  }
}
