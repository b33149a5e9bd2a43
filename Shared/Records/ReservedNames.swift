// Every name that CloudKit and Core Data's mirroring reserve. Other files use these constants and never spell a name
// out.

/// Names on the wire and in records that belong to the protocol, not to an app
/// (docs/protocol/mirroring.md#names-and-limits).
public enum ReservedName {
  /// Zones.
  public static let defaultZone = "_defaultZone"
  public static let privateMirrorZone = "com.apple.coredata.cloudkit.zone"
  public static let shareZonePrefix = "com.apple.coredata.cloudkit.share."
  /// The owner of the public database's zone in answers.
  public static let defaultOwner = "_defaultOwner"
  /// Begins the device of a change that a member of the staff made; no store's identifier begins with it.
  public static let staffDevicePrefix = "staff:"
  /// Owners that mean "the caller" in requests.
  public static let callerOwners: Set<String> = [defaultOwner, "__defaultOwner__"]

  /// Record types and names.
  public static let recordTypePrefix = "CD_"
  public static let linkRecordType = "CDMR"
  public static let legacyLinkPrefix = "CD_M2M_"
  public static let shareRecordType = "cloudkit.share"
  public static let zoneShareRecordName = "cloudkit.zoneshare"
  /// The prefix of a share's own fields; no other field has a dot in its name.
  public static let shareFieldPrefix = "cloudkit."
  public static let shareTitle = "cloudkit.title"
  public static let shareType = "cloudkit.type"
  public static let shareThumbnail = "cloudkit.thumbnailImageData"
  public static let fakeRecordPrefix = "CD_FAKE_"
  public static let usersRecordType = "Users"

  /// Fields.
  public static let fieldPrefix = "CD_"
  /// The name of a record's `parent` in the index of references; no field can have this name.
  public static let parentReference = "___parent"
  public static let assetSuffix = "_ckAsset"
  public static let entityName = "CD_entityName"
  public static let moveReceipt = "CD_moveReceipt"
  /// A tombstone's field: the zone to which its record was moved. No client can give a field this name.
  public static let movedTo = "___movedTo"
  public static let linkEntityNames = "CD_entityNames"
  public static let linkRelationships = "CD_relationships"
  public static let linkRecordNames = "CD_recordNames"
  /// Separates the two parts of a link record's fields.
  public static let linkSeparator: Character = ":"

  /// User info keys of a model.
  public static let ignoredPropertyKey = "NSCloudKitMirroringDelegateIgnoredPropertyKey"
  public static let encryptedAttributeKey = "NSPersistentCloudKitContainerEncryptedAttributeKey"
  /// User info keys of this project: an attribute's conflict policy, an entity's delete policy.
  public static let conflictPolicyKey = "AquiferConflictPolicy"
  public static let deletePolicyKey = "AquiferDeletePolicy"
  /// A relationship's user info key: a shared or moved graph ends at this relationship.
  public static let shareBoundaryKey = "AquiferShareBoundary"
  /// A Decimal attribute's user info key: a second field keeps all of its digits.
  public static let exactDecimalKey = "AquiferExactDecimal"
  public static let exactSuffix = "_exact"
  /// Attributes that the mirroring keeps for itself and never exports.
  public static let reservedAttributes: Set<String> = ["ckRecordID", "ckRecordSystemFields"]

  /// The subscription that pings of a mirrored database name.
  public static func mirrorSubscription(_ scope: DatabaseScope) -> String {
    "com.apple.coredata.cloudkit.\(scope.rawValue).subscription"
  }

  /// The prefix of authors of the mirroring's own transactions, such as `NSCloudKitMirroringDelegate.import`.
  public static let mirroringAuthorPrefix = "NSCloudKitMirroringDelegate."
  /// The author of transactions that send objects again: they give a zone what it lacks (P8).
  public static let reuploadAuthor = "reupload"
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
  /// Records whose DELETE_SELF references point to one record.
  public static let sourcesPerTarget = 750
  /// Records, links among them, that one move takes to another zone, and the bytes of their fields: one or two seconds
  /// of the shard's writer.
  public static let moveCount = 20_000
  public static let moveByteCount = 268_435_456
  /// Records that one request deletes by DELETE_SELF references, beyond those it names: about 0.1 s of the shard's
  /// writer.
  public static let cascadeCount = 5000
  /// Records, deleted ones among them, that one request passes on its ways up and down hierarchies: about 0.2 s of the
  /// shard's writer.
  public static let hierarchyStepCount = 20_000
  /// Of the fields of records that one request moves into a share or out of one along with a record above them.
  public static let hierarchyByteCount = 67_108_864
  /// Of one user to one database; a user's shared database counts as one.
  public static let subscriptionsPerUser = 500
  /// Of all users to one database: every save evaluates each query subscription to the saved record's type.
  public static let subscriptionsPerDatabase = 10_000
  /// Of one subscription's dictionary: all subscriptions of a user fit into one answer.
  public static let subscriptionByteCount = 8_000
  public static let assetByteCount = 50_000_000
  /// Besides the owner; participants who joined by the link count too.
  public static let participantsPerShare = 100
  /// People who wait for access to one share; the next limit is for people blocked from it.
  public static let requestersPerShare = 100
  public static let blockedPerShare = 500
  public static let requestByteCount = 8 * 1024 * 1024
  public static let jsonDepth = 64
}
