// The steps of a client when its copy and the server's have come apart (P6).

/// A set of steps with the bits of Core Data's purge helper: `recovery` in answers.
public struct RecoveryAction: OptionSet, Hashable, Sendable {
  public let rawValue: Int

  public init(rawValue: Int) { self.rawValue = rawValue }

  /// Delete the zone's objects and everything stored about their records.
  public static let deleteObjects = RecoveryAction(rawValue: 1)
  /// Forget the records' system fields, so that every object is sent again.
  public static let wipeSystemFields = RecoveryAction(rawValue: 2)
  /// Forget the import tokens.
  public static let clearTokens = RecoveryAction(rawValue: 4)
  /// Make the zone anew.
  public static let recreateZone = RecoveryAction(rawValue: 8)
  /// Forget the account that the data belong to.
  public static let forgetIdentity = RecoveryAction(rawValue: 16)
  /// Forget how far the history was exported.
  public static let clearHistoryToken = RecoveryAction(rawValue: 32)
  /// Forget the queries of one zone; the next bit forgets those of all zones.
  public static let clearZoneQuery = RecoveryAction(rawValue: 64)
  public static let clearZoneQueries = RecoveryAction(rawValue: 128)
  /// Go over every object instead of the history.
  public static let bypassHistory = RecoveryAction(rawValue: 256)

  /// 298: keep the objects, make the zone again and send every object of it.
  public static let keepAndReupload: RecoveryAction = [
    .bypassHistory, .clearHistoryToken, .recreateZone, .wipeSystemFields,
  ]
  /// 294: keep the objects and send everything that the store has.
  public static let reuploadStore: RecoveryAction = [
    .bypassHistory, .clearHistoryToken, .clearTokens, .wipeSystemFields,
  ]
  /// 9: delete the zone's objects and send nothing.
  public static let deleteZone: RecoveryAction = [.deleteObjects, .recreateZone]
  /// 299: delete the zone's objects and send what remains in the store.
  public static let deleteAndReupload: RecoveryAction = [.keepAndReupload, .deleteObjects]
  /// 37: delete objects and tokens, then fetch the server's data anew.
  public static let refetch: RecoveryAction = [.deleteObjects, .clearTokens, .clearHistoryToken]
}
