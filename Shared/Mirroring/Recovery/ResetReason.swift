// The reason why a store begins anew (P1).

/// The reasons of Core Data's reset notifications. The raw value is theirs, and stored: never renumber.
public enum ResetReason: Int, Hashable, Sendable, CaseIterable {
  /// Any reason that this release does not know.
  case other = 0
  case accountLogin = 1
  case accountLogout = 2
  case accountChange = 3
  case userPurgedZone = 4
  case zoneDeleted = 5
  case historyExpired = 6
  case serverChangeTokenExpired = 7

  /// The reason in Core Data's spelling.
  public var name: String {
    let name = "\(self)"
    return name.prefix(1).uppercased() + name.dropFirst()
  }

  /// - Parameter name: the client's text; unknown text and nil give `other`.
  public init(name: String?) { self = Self.allCases.first { $0.name == name } ?? .other }
}

/// Resets that follow one another without one being seen to its end: something makes the client start over again and
/// again (P5, T-R09).
public enum ResetBreaker {
  /// The number of unfinished resets that are allowed.
  public static let limit = 2

  public static func allows(openResetCount: Int) -> Bool { openResetCount < limit }
}
