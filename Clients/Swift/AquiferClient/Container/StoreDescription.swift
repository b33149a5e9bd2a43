// What an app says of its stores before they open.

public import ReplicaStore
public import ReplicaSync

/// Where a store is mirrored (`NSPersistentCloudKitContainerOptions`).
public struct CloudOptions: Sendable {
  public var containerIdentifier: String
  public var databaseScope: DatabaseScope
  /// `development` or `production`.
  public var environment = "production"
  public var deviceName: String?
  /// Large values are fetched with their objects up to this size, and else when they are read.
  public var eagerAssetByteCount: Int64 = 256 * 1024
  /// Bytes of large values that the device keeps of those that the server has; values that were not read for the
  /// longest time go first, and come again when they are read. nil: all stay.
  public var contentByteLimit: Int64?

  public init(containerIdentifier: String, databaseScope: DatabaseScope = .private) {
    self.containerIdentifier = containerIdentifier
    self.databaseScope = databaseScope
  }
}

/// One store (`NSPersistentStoreDescription`). History is always kept, and remote changes are always told.
public struct StoreDescription: Sendable {
  /// A file; nil: in memory, gone with the process. If that is killed, the next process that opens such a store an hour
  /// later or more removes what it left; other users of the machine never read it.
  public var path: String?
  /// One of the model's; nil: all entities.
  public var configuration: String?
  /// nil: the store stays on this device.
  public var cloudOptions: CloudOptions?
  /// Another process may write; this one reads.
  public var isReadOnly = false
  /// Older history is purged, but never what was not exported or a consumer has not read.
  public var historyRetention = Duration.seconds(90 * 24 * 3600)
  /// Bytes of the write-ahead log from which on the oldest pinned generation expires.
  public var generationByteLimit = 256 * 1024 * 1024
  public var hooks = StoreHooks()
  /// What lightweight migration can't infer.
  public var migrationStages: [MigrationStep] = []

  public init(path: String?, configuration: String? = nil, cloudOptions: CloudOptions? = nil) {
    self.path = path
    self.configuration = configuration
    self.cloudOptions = cloudOptions
  }
}

/// A step of a migration in code: it runs once, on files of one earlier version, after their tables fit the model.
public struct MigrationStep: Sendable {
  let fromHash: String
  let body: @Sendable (SaveContext) throws -> Void

  /// - Parameter body: what it does is saved by the author `migration`, in the commit that migrates the file.
  public init(from model: ManagedObjectModel, _ body: @escaping @Sendable (SaveContext) throws -> Void) {
    fromHash = model.hash
    self.body = body
  }
}

/// What an app decides. Without a decision, nothing is lost.
public struct StoreHooks: Sendable {
  /// `keepApart`: the former account finds its file as it left it, with what was not sent. `delete`: the file is
  /// removed. `reupload`: as `keepApart`, and the new account's file gets the objects that it never had, in one save of
  /// the author `reupload` that mirroring sends. A large value that is not on the device stays empty, and an import's
  /// event names its object. A duplicate of what the user has becomes that object, unless `saveRejected` decides
  /// otherwise. Stores of other databases than the private one are kept apart.
  public enum AccountDecision: Sendable { case keepApart, reupload, delete }
  /// `delete`: the objects go. `reupload`: the objects stay and are sent again under their names, by the author
  /// `reupload`; the server makes the zone again with them. It takes only what it lacks, so several devices may decide
  /// so, and newer edits and deletions stay. A large value that is not on the device is emptied, unless another device
  /// sends it; an import's event names its object. `pause`: the objects stay here, and nothing of the zone is imported
  /// until `sync.decide`. Of somebody else's zone, which a user can't make again, `pause` keeps the objects, and the
  /// others let them go.
  public enum ZoneDecision: Sendable { case delete, pause, reupload }
  /// `revert`: the objects become what the server has. `keepForLater`: the app goes on showing the edit, and imports
  /// leave it alone. Either way the save waits among the rejections until it is retried or discarded.
  /// `adoptWinner`: what leads to a duplicate leads to the object that the server has, and the rest of the save is sent
  /// again.
  public enum RejectionDecision: Sendable { case revert, keepForLater, adoptWinner }

  /// A zone is gone. nil: what the server says.
  public var zoneEnded: (@Sendable (ZoneEnd) async -> ZoneDecision)?
  /// Somebody else is signed in than the user whose objects the store has; both by record names. The store goes on with
  /// that account's own file, and tells so as of a change. nil: the former account's file is kept apart.
  public var accountChanged: (@Sendable (_ former: String, _ user: String) async -> AccountDecision)?
  /// The server refused a save that was accepted here. A process that ends before its answer is asked again by the
  /// next. nil: the save waits among the rejections, and its objects become what the server has. Objects that are sent
  /// again (`reupload`) stay as they are, also after `revert`: the save changed nothing here. Only `discard` gives them
  /// up.
  public var saveRejected: (@Sendable (Rejection) async -> RejectionDecision)?

  public init() {}
}

/// A zone that ended.
public struct ZoneEnd: Sendable {
  public let zone: Zone
  /// `deleted`, `purged`, `encryptedDataReset` or `left`.
  public let reason: String
  /// Objects of the zone that the device has.
  public let objectCount: Int
  /// Those of them whose changes the server has not acknowledged.
  public let unexportedCount: Int
}
