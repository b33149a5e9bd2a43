// Ends of the zone while a story goes on, and what each device makes of them.

import Foundation
import MirrorWire
import ReplicaSync
import Synchronization

/// An end of the zone by another program or by the operator.
struct ZoneEnding: Sendable {
  /// As the operator spells it.
  let reason: String
  /// The story's turn after which the zone ends.
  let turn: Int

  /// One story of three has an end or two. They take numbers of a stream of their own: the other stories stay as they
  /// are.
  /// - Parameter always: each story has.
  /// - Returns: in order.
  static func endings(_ seed: Int, turns: Int, always: Bool) -> [ZoneEnding] {
    let chance = Chance(seed, stream: 40)
    guard chance.number(3) == 0 || always else { return [] }
    let endings = (0...chance.number(2)).map { _ in
      ZoneEnding(reason: chance.pick(["deleted", "encryptedDataReset", "purged"]), turn: chance.number(turns))
    }
    return endings.sorted { $0.turn < $1.turn }
  }

  /// What a device asks of the server at an end; nil: the standard of each reason.
  static func policy(_ seed: Int, device: Int) -> [String: String]? {
    let chance = Chance(seed, stream: 50 + device)
    // Most stories have one policy, so that they show whether all comes back.
    let decision = Chance(seed, stream: 41).number(3) > 0 ? Chance(seed, stream: 42) : chance
    guard let way = decision.pick([nil, "keep-and-reupload", "keep-and-reupload", "delete"]) else { return nil }
    return ["deleted": way, "encryptedDataReset": way, "purged": way]
  }

  /// True if a device with this policy sends again all that it has.
  func isUndone(by policy: [String: String]?) -> Bool {
    policy?[reason].map { $0 == "keep-and-reupload" } ?? (reason != "purged")
  }
}

/// The ends so far, and what is written after each.
final class ZoneEnds: Sendable {
  private let state = Mutex((count: 0, heard: [String: Int]()))

  var count: Int { state.withLock { $0.count } }
  func note() { state.withLock { $0.count += 1 } }

  /// - Parameter heard: the ends that the device has heard of that writes the text.
  func note(_ text: String, heard: Int) {
    state.withLock { $0.heard[AttributeValue.string(text).shown] = heard }
  }

  /// True if the text was written on a device that had heard of all ends.
  /// - Parameter text: as replicas show it.
  func isCurrent(_ text: String) -> Bool { state.withLock { $0.heard[text] == $0.count } }
}

extension Server {
  /// Ends a zone of somebody's as the operator; nothing if there is no such zone yet.
  package func end(_ zoneName: String, of user: User, _ reason: String) async throws {
    let zone = "\(gateway)/admin/1/zone/\(Self.container)/development/\(user.recordName)/\(zoneName)"
    let request = TransportRequest(
      "POST", "\(zone)/end", headers: [("Authorization", "Bearer \(operatorToken)")],
      body: Array(#"{"reason":"\#(reason)"}"#.utf8))
    let answer = try await transport.send(request)
    guard [200, 404].contains(answer.status) else {
      throw Unexpected("\(answer.status): \(String(decoding: answer.body, as: UTF8.self))")
    }
  }
}
