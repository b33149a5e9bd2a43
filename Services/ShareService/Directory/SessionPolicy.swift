// Lifetimes and succession of the sign-in page's tokens, as pure functions.

import Crypto

/// All times are in milliseconds.
struct SessionPolicy: Hashable, Sendable {
  /// The age from which a successful answer carries a token's successor; 0: every answer does.
  var rotation: Int64 = 300_000
  /// The time for which a token counts after its successor was handed out; 0: not at all.
  var grace: Int64 = 300_000
  /// Of a token without a successor (docs/protocol/record-plane.md#sessions), in a usual and in a kept session.
  var lifetime: Int64 = 1_800_000
  var keptLifetime: Int64 = 14 * 86_400_000

  /// Beyond this number a user's sessions with the earliest end are deleted, which includes those that ended for lack
  /// of use.
  static let sessionsPerUser = 200
  /// Expired tokens are remembered this long, so that an answer under way at the expiry still carries the successor.
  static let memory: Int64 = 600_000
  /// Sessions that ended for lack of use are remembered this long, which is a courier's lifetime: a courier's address
  /// from such a session keeps working. Sessions that were revoked are not remembered.
  static let grantMemory: Int64 = 42 * 86_400_000

  /// `ses_` and 128 hex digits: clients accept only tokens of 100 characters or more as complete, and none of these
  /// needs percent-encoding.
  static let prefix = "ses_"

  static func token(_ bytes: [UInt8]) -> String { prefix + Hex.encode(bytes) }

  /// The successor of a token. It is the same for every caller, and needs the installation's key.
  static func successor(of token: String, key: [UInt8]) -> String {
    let halves = [UInt8(1), 2].flatMap { HMACSHA256.code(for: purpose + [$0] + Array(token.utf8), key: key) }
    return Self.token(halves)
  }

  private static let purpose = Array("aquifer session successor".utf8)
}

/// A session's token as the directory stores it.
struct SessionToken: Hashable, Sendable {
  let created: Int64
  /// The token is refused from this time on.
  let expires: Int64
  let isRotated: Bool

  /// Time from `now` until answers carry a successor.
  func rotationDelay(_ policy: SessionPolicy, now: Int64) -> Int64 {
    isRotated ? 0 : max(0, created + policy.rotation - now)
  }

  /// Time from `now` for which the token counts for certain: another gateway may rotate it as soon as that is due.
  func validity(_ policy: SessionPolicy, now: Int64) -> Int64 {
    let left = max(0, expires - now)
    return isRotated ? left : min(left, rotationDelay(policy, now: now) + policy.grace)
  }
}
