// How long tokens of the sign-in page live, and how they follow one another: pure.

import Crypto

/// Unit of all times: milliseconds.
struct SessionPolicy: Hashable, Sendable {
  /// The age from which a good answer hands out a token's successor; 0: every answer does.
  var rotation: Int64 = 300_000
  /// How long a token counts after its successor was handed out; 0: not at all.
  var grace: Int64 = 300_000
  /// Of a token without a successor (docs/protocol/record-plane.md#sessions), in a usual and in a kept session.
  var lifetime: Int64 = 1_800_000
  var keptLifetime: Int64 = 14 * 86_400_000

  /// More sessions of one user end those that would end first, those that have ended for lack of use before all.
  static let sessionsPerUser = 200
  /// Dead tokens are remembered that long: an answer that was under way when its token died still hands out the successor.
  static let memory: Int64 = 600_000
  /// Sessions that ended for lack of use are remembered that long, as long as couriers live: an address that was given out in one works on,
  /// one of a session that was ended doesn't.
  static let grantMemory: Int64 = 42 * 86_400_000

  /// `ses_` and 128 hex digits: clients take a token for a full one from 100 characters on, and none of these needs percent-encoding.
  static let prefix = "ses_"

  static func token(_ bytes: [UInt8]) -> String { prefix + Hex.encode(bytes) }

  /// The one successor of a token: nobody can make it without the installation's key, and everybody who asks gets the same.
  static func successor(of token: String, key: [UInt8]) -> String {
    let halves = [UInt8(1), 2].flatMap { HMACSHA256.code(for: purpose + [$0] + Array(token.utf8), key: key) }
    return Self.token(halves)
  }

  private static let purpose = Array("aquifer session successor".utf8)
}

/// A token of a session, as the directory has it.
struct SessionToken: Hashable, Sendable {
  let created: Int64
  /// Refused from then on.
  let expires: Int64
  let isRotated: Bool

  /// How long from `now` until answers hand out a successor.
  func rotationDelay(_ policy: SessionPolicy, now: Int64) -> Int64 { isRotated ? 0 : max(0, created + policy.rotation - now) }

  /// How long from `now` it counts for certain: another gateway may rotate it as soon as it is due.
  func validity(_ policy: SessionPolicy, now: Int64) -> Int64 {
    let left = max(0, expires - now)
    return isRotated ? left : min(left, rotationDelay(policy, now: now) + policy.grace)
  }
}
