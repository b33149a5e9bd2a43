// The places of sleeping devices on a notifier's board, while notifiers and registrations change together.

import FixedClocks
import Records
import ServiceBus
import ServiceKit
import Testing

@testable import Notifier

@Suite struct SleepingPlacesTests {
  private let book = PushBook()
  private let notifier = Notifier(
    limits: Notifier.Limits(), metrics: Metrics(), timing: .system, wallClock: FixedClock(), random: SystemRandom(),
    log: .silent, name: "a")

  private var devices: SleepingDevices { notifier.sleepers }

  /// Ann's devices, each named by its registration.
  private func register(_ count: Int) throws {
    for number in 1...count { try book.add("ann", "https://app.example/\(number)", device: "\(number)") }
  }

  /// The devices that hear of a user's zone, one entry for each time.
  private func hearing(_ user: String = "ann") throws -> [Int] {
    let change = ZoneChange(
      database: DatabaseID(
        container: try #require(ContainerID(rawValue: "iCloud.a")), environment: .development, owner: user),
      zoneName: "Z", sequence: 1, syncToken: "t", originStore: nil, audience: [user])
    let recipients = notifier.switchboard.deliver(change)
    #expect(recipients.count <= Recipients.deviceLimit)
    return recipients.devices.compactMap { Int($0) }.sorted()
  }

  /// Those of so many registrations that notifier "a" wakes beside "b".
  private func share(of count: Int) -> [Int] {
    (1...count).filter { PushRoster.rank("a", Int64($0)) >= PushRoster.rank("b", Int64($0)) }
  }

  @Test func `a notifier that comes while a page is taken leaves no device with two who wake it`() throws {
    try register(30)
    let page = devices.take(book.page(after: 0))
    devices.follow(["b"])
    devices.settle(page)
    let own = share(of: 30)
    #expect((1..<30).contains(own.count))
    #expect(try hearing() == own)
    devices.follow([])
    #expect(try hearing() == Array(1...30))
  }

  @Test func `a registration that is renewed while its notifier goes is woken by the one that stays`() throws {
    try register(30)
    devices.settle(devices.take(book.page(after: 0)))
    devices.follow(["b"])
    let own = share(of: 30)
    let known = try #require(book.page(after: 0).registrations.first { !own.contains(Int($0.id)) })
    let renewed = PushRegistration(
      id: known.id, revision: 31, device: known.device, address: .webhook(url: "https://app.example/", secret: "new"),
      hearsEveryZone: true)
    let page = devices.take(
      FetchPushRegistrations.Reply(registrations: [renewed], ended: [], revision: 31, isLast: true))
    devices.follow([])
    devices.settle(page)
    #expect(try hearing() == Array(1...30))
  }

  @Test func `a registration that is renewed hears what it asks for now`() throws {
    try register(2)
    devices.settle(devices.take(book.page(after: 0)))
    let known = try #require(book.page(after: 0).registrations.first)
    let renewed = PushRegistration(
      id: known.id, revision: 3,
      device: RegisterForPush.Device(
        container: known.device.container, environment: .development, userRecordName: "ann", clientID: "7",
        grant: "token-ann"), address: known.address, hearsEveryZone: true)
    devices.settle(
      devices.take(FetchPushRegistrations.Reply(registrations: [renewed], ended: [], revision: 3, isLast: true)))
    #expect(try hearing() == [2, 7])
  }

  @Test func `a registration of a restored directory takes nothing from an earlier one of its number`() throws {
    try register(3)
    devices.settle(devices.take(book.page(after: 0)))
    book.removeRegistrations()
    try book.add("bob", "https://app.example/bob", device: "9")
    devices.settle(devices.take(book.page(after: 3)))
    #expect(try hearing().isEmpty)
    #expect(try hearing("bob") == [9])
  }
}
