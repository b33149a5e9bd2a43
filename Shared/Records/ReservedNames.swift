// Every name that CloudKit and Core Data's mirroring reserve, in one place: nothing else spells them out.

/// Names on the wire and in records that belong to the protocol, not to an app
/// (docs/protocol/mirroring.md#names-and-limits).
public enum ReservedName {
  /// Zones.
  public static let defaultZone = "_defaultZone"
  public static let privateMirrorZone = "com.apple.coredata.cloudkit.zone"
  public static let shareZonePrefix = "com.apple.coredata.cloudkit.share."
  /// The owner of the public database's zone in answers.
  public static let defaultOwner = "_defaultOwner"
  /// Owners that mean "the caller" in requests.
  public static let callerOwners: Set<String> = [defaultOwner, "__defaultOwner__"]

  /// Record types and names.
  public static let recordTypePrefix = "CD_"
  public static let linkRecordType = "CDMR"
  public static let legacyLinkPrefix = "CD_M2M_"
  public static let shareRecordType = "cloudkit.share"
  public static let zoneShareRecordName = "cloudkit.zoneshare"
  /// A share's own fields; no other field has a dot in its name.
  public static let shareFieldPrefix = "cloudkit."
  public static let shareTitle = "cloudkit.title"
  public static let shareType = "cloudkit.type"
  public static let shareThumbnail = "cloudkit.thumbnailImageData"
  public static let fakeRecordPrefix = "CD_FAKE_"
  public static let usersRecordType = "Users"

  /// Fields.
  public static let fieldPrefix = "CD_"
  /// How the index of references names a record's `parent`; no field can be called so.
  public static let parentReference = "___parent"
  public static let assetSuffix = "_ckAsset"
  public static let entityName = "CD_entityName"
  public static let moveReceipt = "CD_moveReceipt"
  /// Of a tombstone alone: the zone that its record was moved to. No client can give a field such a name.
  public static let movedTo = "___movedTo"
  public static let linkEntityNames = "CD_entityNames"
  public static let linkRelationships = "CD_relationships"
  public static let linkRecordNames = "CD_recordNames"
  /// Between the two parts of a link record's fields.
  public static let linkSeparator: Character = ":"

  /// User info keys of a model.
  public static let ignoredPropertyKey = "NSCloudKitMirroringDelegateIgnoredPropertyKey"
  public static let encryptedAttributeKey = "NSPersistentCloudKitContainerEncryptedAttributeKey"
  /// Policies of conflicts, of this project's own.
  public static let conflictPolicyKey = "AquiferConflictPolicy"
  public static let deletePolicyKey = "AquiferDeletePolicy"
  /// A relationship's: what is shared or moved ends there, on purpose.
  public static let shareBoundaryKey = "AquiferShareBoundary"
  /// A Decimal attribute's: all of its digits are kept, in a field of their own.
  public static let exactDecimalKey = "AquiferExactDecimal"
  public static let exactSuffix = "_exact"
  /// Attributes the mirroring keeps for itself and never exports.
  public static let reservedAttributes: Set<String> = ["ckRecordID", "ckRecordSystemFields"]

  /// The subscription that a mirrored database's pings name.
  public static func mirrorSubscription(_ scope: DatabaseScope) -> String { "com.apple.coredata.cloudkit.\(scope.rawValue).subscription" }

  /// Authors of transactions that the mirroring writes itself, e.g. `NSCloudKitMirroringDelegate.import`.
  public static let mirroringAuthorPrefix = "NSCloudKitMirroringDelegate."
}

/// The limits that clients, workers and tests read from the same place
/// (docs/protocol/mirroring.md#names-and-limits, docs/protocol/record-plane.md#limits).
public enum Limit {
  public static let operationsPerRequest = 200
  public static let recordsPerResponse = 200
  public static let recordByteCount = 1_000_000
  public static let inlineRecordByteCount = 700_000
  public static let exportItemCount = 400
  public static let exportByteCount = 1_572_864
  public static let nameByteCount = 255
  public static let fieldsPerRecordType = 256
  public static let zonesPerDatabase = 1000
  /// Records with a DELETE_SELF reference to one record.
  public static let sourcesPerTarget = 750
  /// Records that one move takes to another zone, links among them, and how many bytes their fields have: a second or two of the shard's writer.
  public static let moveCount = 20_000
  public static let moveByteCount = 268_435_456
  /// Records that one request deletes by DELETE_SELF references, beyond those it names: about 0.1 s of the shard's writer.
  public static let cascadeCount = 5000
  /// Of one user to one database, as he addresses it.
  public static let subscriptionsPerUser = 500
  /// Of all users to one database: every query among them is asked about every record of its type that is saved.
  public static let subscriptionsPerDatabase = 10_000
  /// Of one subscription's dictionary, so that all of a user's fit into an answer.
  public static let subscriptionByteCount = 8_000
  public static let assetByteCount = 50_000_000
  /// Besides its owner; public ones count too.
  public static let participantsPerShare = 100
  /// Of those who ask for access to one share, and of those who are kept from it.
  public static let requestersPerShare = 100
  public static let blockedPerShare = 500
  public static let requestByteCount = 8 * 1024 * 1024
  public static let jsonDepth = 64
}
