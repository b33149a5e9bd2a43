// The values that cross the seam between a store's file and mirroring.

package import FoundationEssentials
package import MirrorWire

/// How far a store and the server know each other.
package struct MirrorPosition: Sendable, Equatable, Codable {
  /// Chosen by the file, and chosen anew when the file is a copy (K15).
  package let storeIdentifier: String
  /// Of the model that the file has.
  package internal(set) var modelHash: String
  package internal(set) var configuration: String?
  /// The token to ask the next page with; during a reset the second file's. nil: from the beginning.
  package var importToken: String?
  package var serverHistoryToken: String?
  package var isInitialImportDone = false
  /// Conflicts that wait for a decision at the server, as the last page told; nil: none has.
  package var openConflictCount: Int?
  /// Zones whose shares pages told to be others, and that are not fetched since; nil: none is.
  package var staleShares: [ZoneID]?
  /// The reset under way.
  package var resetReason: String?
  /// The token of what the store shows during a reset. An abandoned one goes back to it.
  var tokenBeforeReset: String?
  /// The server was restored since, and refuses the token of what the store shows.
  var isTokenRefused: Bool?
  /// Restores of the server that the store has heard of; nil: none.
  var restoreCount: Int?
  /// Resets given up since one was done.
  package var failedResetCount = 0
  /// The hash and identifier of the latest set-up that the server took. Another one is due when they differ.
  package var setUpModelHash: String?
  package var setUpIdentifier: String?
  /// The user whose objects the file has.
  package var account: String?
  package var leaseToken: String?
  package var leaseUntil: Date?
  /// The token of a lease that the store asks for, or has asked for and may have got.
  package var newLeaseToken: Int64?
  /// The last ping's token, and where the stream of the server's events is.
  package var pingToken: String?
  package var lastServerEvent: String?

  package init(storeIdentifier: String, modelHash: String, configuration: String?) {
    self.storeIdentifier = storeIdentifier
    self.modelHash = modelHash
    self.configuration = configuration
  }

  /// The token of what the store shows, which a save names as what it was based on; nil: the server knows none.
  var shownToken: String? {
    if isTokenRefused == true { return nil }
    return resetReason == nil ? importToken : tokenBeforeReset
  }
}

/// A commit of a store.
package struct Commit: Sendable, Equatable {
  /// Of the history transaction; unchanged when the commit has none.
  package let transactionNumber: Int64
  package let isImport: Bool
  /// Something is to be sent that was not before.
  package let hasExports: Bool
  package let entityNames: Set<String>

  package init(transactionNumber: Int64, isImport: Bool, hasExports: Bool, entityNames: Set<String>) {
    self.transactionNumber = transactionNumber
    self.isImport = isImport
    self.hasExports = hasExports
    self.entityNames = entityNames
  }
}

package struct MirrorFigures: Sendable, Equatable {
  package var pendingTransactions = 0
  package var pendingObjects = 0
  package var pendingByteCount = 0
  package var rejectedCount = 0
  package var missingContents = 0
  package var objectsToReread = 0

  package init(
    pendingTransactions: Int = 0, pendingObjects: Int = 0, pendingByteCount: Int = 0, rejectedCount: Int = 0,
    missingContents: Int = 0, objectsToReread: Int = 0
  ) {
    self.pendingTransactions = pendingTransactions
    self.pendingObjects = pendingObjects
    self.pendingByteCount = pendingByteCount
    self.rejectedCount = rejectedCount
    self.missingContents = missingContents
    self.objectsToReread = objectsToReread
  }
}

/// Saves that travel together.
package struct ExportBatch: Sendable, Equatable {
  /// Of the first and last row of the outbox.
  package let rows: ClosedRange<Int64>
  /// Each as JSON (`Transaction`), in order. Contents are asset references without receipts.
  package let transactions: [[UInt8]]
  /// The contents that they name (`ContentName.checksum`), ascending.
  package let checksums: [String]
  /// The batch left before, and nobody knows whether it arrived.
  package let isRepeated: Bool
  /// Valid receipts by `fileChecksum`, to be put into the transactions before they leave.
  package let receipts: [String: AssetReference]
  /// Objects that it saves, and that it deletes; one that several saves touch counts for each.
  package let savedCount: Int
  package let deletedCount: Int

  package init(
    rows: ClosedRange<Int64>, transactions: [[UInt8]], checksums: [String], isRepeated: Bool,
    receipts: [String: AssetReference], savedCount: Int, deletedCount: Int
  ) {
    self.rows = rows
    self.transactions = transactions
    self.checksums = checksums
    self.isRepeated = isRepeated
    self.receipts = receipts
    self.savedCount = savedCount
    self.deletedCount = deletedCount
  }
}

/// A transaction that the server refused, and waits for a decision.
package struct Rejected: Sendable, Equatable {
  package let identifier: String
  package let transactionNumber: Int64
  package let author: String?
  package let objects: [AnyObjectID]
  package let error: ServerError
  /// It was not refused itself, but builds on one that was.
  package let isConsequence: Bool
  package let date: Date

  package init(
    identifier: String, transactionNumber: Int64, author: String?, objects: [AnyObjectID], error: ServerError,
    isConsequence: Bool, date: Date
  ) {
    self.identifier = identifier
    self.transactionNumber = transactionNumber
    self.author = author
    self.objects = objects
    self.error = error
    self.isConsequence = isConsequence
    self.date = date
  }
}

package struct AppliedPage: Sendable, Equatable {
  /// What to ask the next page with.
  package let importToken: String
  package let savedCount: Int
  package let deletedCount: Int
  package let endedZones: [EndedZone]
  /// The page ended a reset: the store shows the second file's state.
  package let didSwap: Bool
  /// The objects of an ended zone wait to be sent again.
  package let sendsAgain: Bool
  /// Of contents that went with their zone.
  package let errors: [MirrorEvent.ObjectError]

  package init(
    importToken: String, savedCount: Int, deletedCount: Int, endedZones: [EndedZone],
    didSwap: Bool, sendsAgain: Bool = false, errors: [MirrorEvent.ObjectError] = []
  ) {
    self.importToken = importToken
    self.savedCount = savedCount
    self.deletedCount = deletedCount
    self.endedZones = endedZones
    self.didSwap = didSwap
    self.sendsAgain = sendsAgain
    self.errors = errors
  }
}

/// An event of mirroring (`NSPersistentCloudKitContainer.Event`), kept in the store.
package struct MirrorEvent: Sendable, Equatable, Codable {
  package enum Kind: Int, Sendable, Codable { case setup, `import`, export }

  package let identifier: UUID
  package let kind: Kind
  package let startDate: Date
  package var endDate: Date?
  package var succeeded: Bool
  package var errors: [ObjectError]
  package var savedCount: Int
  package var deletedCount: Int

  package struct ObjectError: Sendable, Equatable, Codable {
    package let object: AnyObjectID?
    package let error: ServerError

    package init(object: AnyObjectID?, error: ServerError) { (self.object, self.error) = (object, error) }

    /// An attribute is sent again without its content.
    /// - Parameter reason: the end of the sentence about the content.
    init(_ object: AnyObjectID, withoutContentOf column: Column, _ reason: String) {
      let sentence = "the content of \(object.entityName).\(column.name) \(reason)"
      self.init(
        object: object,
        error: ServerError(status: 0, serverErrorCode: "", reason: sentence, ckErrorCode: Self.assetNotAvailable))
    }

    private static let assetNotAvailable = 35
  }

  package init(
    identifier: UUID, kind: Kind, startDate: Date, endDate: Date? = nil, succeeded: Bool = false,
    errors: [ObjectError] = [],
    savedCount: Int = 0, deletedCount: Int = 0
  ) {
    self.identifier = identifier
    self.kind = kind
    self.startDate = startDate
    self.endDate = endDate
    self.succeeded = succeeded
    self.errors = errors
    self.savedCount = savedCount
    self.deletedCount = deletedCount
  }
}

package enum ZonePermission: Int, Sendable, Codable { case readOnly = 1, readWrite, owner }

package struct CachedZone: Sendable, Equatable {
  package let zoneID: ZoneID
  /// The share as the server answered it, JSON.
  package let share: Data?
  package let permission: ZonePermission
  /// The zone ended and waits for a decision (P4).
  package let isPaused: Bool
  package let objectCount: Int
  /// Objects with changes that the server has not acknowledged.
  package let pendingCount: Int

  package init(
    zoneID: ZoneID, share: Data?, permission: ZonePermission, isPaused: Bool, objectCount: Int, pendingCount: Int
  ) {
    self.zoneID = zoneID
    self.share = share
    self.permission = permission
    self.isPaused = isPaused
    self.objectCount = objectCount
    self.pendingCount = pendingCount
  }
}

/// Content beside a store.
package struct Content: Sendable, Equatable {
  /// The first 20 bytes of the SHA-256, hexadecimal (`ContentName`).
  package let checksum: String
  package let byteCount: Int64
  /// The file; nil: it is not here.
  package let path: String?
  package let downloadURL: String?
  package let expiry: Date?

  init(checksum: String, byteCount: Int64, path: String?, downloadURL: String?, expiry: Date?) {
    self.checksum = checksum
    self.byteCount = byteCount
    self.path = path
    self.downloadURL = downloadURL
    self.expiry = expiry
  }
}
