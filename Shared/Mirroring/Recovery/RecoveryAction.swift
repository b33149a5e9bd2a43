// The steps of a client when its copy and the server's have come apart (P6).

/// A set of steps with the bits of Core Data's purge helper: `recovery` in answers.
public struct RecoveryAction: OptionSet, Hashable, Sendable {
  public let rawValue: Int

  public init(rawValue: Int) { self.rawValue = rawValue }

  /// Delete the zone's objects and what is known of their records.
  public static let deleteObjects = RecoveryAction(rawValue: 1)
  /// Forget the records' system fields, so that every object is sent again.
  public static let wipeSystemFields = RecoveryAction(rawValue: 2)
  /// Forget the import tokens.
  public static let clearTokens = RecoveryAction(rawValue: 4)
  /// Make what is known of the zone anew.
  public static let recreateZone = RecoveryAction(rawValue: 8)
  /// Forget whose data it is.
  public static let forgetIdentity = RecoveryAction(rawValue: 16)
  /// Forget how far the history was exported.
  public static let clearHistoryToken = RecoveryAction(rawValue: 32)
  /// Forget the zone's queries; those of all zones.
  public static let clearZoneQuery = RecoveryAction(rawValue: 64)
  public static let clearZoneQueries = RecoveryAction(rawValue: 128)
  /// Look over every object instead of the history.
  public static let bypassHistory = RecoveryAction(rawValue: 256)

  /// 298: keep the objects, make the zone again and send everything.
  public static let keepAndReupload: RecoveryAction = [.bypassHistory, .clearHistoryToken, .recreateZone, .wipeSystemFields]
  /// 294: the same, of everything the store has.
  public static let reuploadStore: RecoveryAction = [.bypassHistory, .clearHistoryToken, .clearTokens, .wipeSystemFields]
  /// 9: the zone's objects go, and nothing is sent.
  public static let deleteZone: RecoveryAction = [.deleteObjects, .recreateZone]
  /// 299: the zone's objects go, and what is left is sent.
  public static let deleteAndReupload: RecoveryAction = [.keepAndReupload, .deleteObjects]
  /// 37: objects and tokens go; the server's truth is fetched anew.
  public static let refetch: RecoveryAction = [.deleteObjects, .clearTokens, .clearHistoryToken]
}
