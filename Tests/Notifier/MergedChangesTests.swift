// Changes that merged on their way are told to the devices that would have heard one of them, and to no others.

import Records
import ServiceBus
import Testing

@testable import Notifier

@Suite struct MergedChangesTests {
  private struct Origin: Hashable, CustomTestStringConvertible {
    let device: String?
    let user: String?
    var testDescription: String { "\(device ?? "a server") of \(user ?? "anybody")" }
  }

  private static let origins = [
    Origin(device: nil, user: nil), Origin(device: "phone", user: "ann"), Origin(device: "laptop", user: "ann"),
    Origin(device: "phone", user: "bob"),
  ]

  /// Every sequence of one to three origins.
  private static var stories: [[Origin]] {
    let pairs = origins.flatMap { first in origins.map { [first, $0] } }
    return origins.map { [$0] } + pairs + pairs.flatMap { pair in origins.map { pair + [$0] } }
  }

  private let scope: PingBoard.Scope
  private var board = PingBoard()

  init() throws {
    scope = PingBoard.Scope(container: try #require(ContainerID(rawValue: "iCloud.a")), environment: .development)
    for (user, device) in [("ann", "phone"), ("ann", "laptop"), ("bob", "phone")] {
      _ = board.connect(.init(scope: scope, userRecordName: user, devices: [device]))
    }
  }

  private func change(by origin: Origin, _ sequence: Int) -> ZoneChange {
    ZoneChange(
      database: DatabaseID(container: scope.container, environment: scope.environment, owner: "ann"), zoneName: "Z",
      sequence: Int64(sequence), syncToken: "t\(sequence)", originStore: origin.device, originUser: origin.user,
      audience: ["ann", "bob"])
  }

  private func told(_ change: ZoneChange) -> Set<PingBoard.ListenerID> {
    Set(board.deliveries(of: change).flatMap(\.listeners))
  }

  @Test func `a device hears of merged changes if another made one of them, and never of its own alone`() throws {
    #expect(Self.stories.count == 84)
    for story in Self.stories {
      let changes = story.enumerated().map { change(by: $0.element, $0.offset) }
      let expected = changes.reduce(into: Set()) { $0.formUnion(told($1)) }
      let merged = changes.dropFirst().reduce(changes[0]) { $0.merged(with: $1) }
      #expect(told(merged) == expected, "\(story)")
      #expect(merged.sequence == Int64(story.count - 1))
      // An earlier change that comes late.
      let late = changes.dropLast().reversed().reduce(changes[story.count - 1]) { $0.merged(with: $1) }
      #expect(told(late) == expected && late.sequence == merged.sequence, "\(story)")
    }
  }

  private func notification(by device: String?, _ sequence: Int) -> SubscriptionNotification {
    SubscriptionNotification(
      container: scope.container, environment: scope.environment, userRecordName: "ann", subscriptionID: "s",
      scope: .private, zone: Zone.ID(zoneName: "Z", ownerName: "ann"), sequence: Int64(sequence),
      originDevice: device, notificationID: "n\(sequence)", json: [])
  }

  @Test func `so does a subscription's notification`() throws {
    let devices = ["phone", "laptop", nil]
    for story in devices.flatMap({ first in devices.map { [first, $0] } }) {
      let all = story.enumerated().map { notification(by: $0.element, $0.offset) }
      let expected = all.reduce(into: Set()) { $0.formUnion(board.listeners(to: $1)) }
      #expect(Set(board.listeners(to: all[0].merged(with: all[1]))) == expected, "\(story)")
      #expect(Set(board.listeners(to: all[1].merged(with: all[0]))) == expected, "\(story)")
    }
  }
}
