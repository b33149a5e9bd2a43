// How a store is opened, and what it is lent: clock, identifiers and names of its surroundings.

package import FoundationEssentials

/// A store's options. The store reads no clock and makes no identifiers of its own.
package struct ReplicaConfiguration: Sendable {
  /// The file. nil: a file in a folder of its own in `temporaryFolder`, which is removed with the store.
  package var path: String?
  package var temporaryFolder = "/tmp"
  /// The model's configuration, whose entities the store has.
  package var configuration: String?
  /// Saves are sent to a server.
  package var isMirrored = false
  /// The store is one of the shared database.
  package var isShared = false
  package var isReadOnly = false
  /// Older history is purged when the store opens, and now and then.
  package var historyRetention: Duration = .seconds(90 * 24 * 3600)
  /// Pinned generations end when the write-ahead log is longer, the oldest first.
  package var logByteLimit = 256 * 1024 * 1024
  /// Bytes of contents that stay of those that the server has; nil: all.
  package var contentByteLimit: Int64?
  /// Told once after an opening to write, when files of contents that nothing names are gone. Runs on a thread of the
  /// store's.
  package var didSweep: @Sendable (SweptContents) -> Void = { _ in }
  package var bundleID: String?
  package var processID: String
  /// Tells this machine from others, so that a copied file is noticed.
  package var machineIdentifier: String
  package var now: @Sendable () -> Date
  package var makeIdentifier: @Sendable () -> UUID
  /// Steps that lightweight migration can't infer.
  package var stages: [MigrationStage] = []

  package init(
    path: String?, processID: String, machineIdentifier: String, now: @escaping @Sendable () -> Date,
    makeIdentifier: @escaping @Sendable () -> UUID
  ) {
    self.path = path
    self.processID = processID
    self.machineIdentifier = machineIdentifier
    self.now = now
    self.makeIdentifier = makeIdentifier
  }
}

/// A step of a migration in code, after the tables fit the model and before anybody reads them.
package struct MigrationStage: Sendable {
  /// The hash of the model that the step begins with; the step is left out for files of other models.
  package let fromHash: String
  package let body: @Sendable (SaveTransaction) throws -> Void

  package init(fromHash: String, body: @escaping @Sendable (SaveTransaction) throws -> Void) {
    self.fromHash = fromHash
    self.body = body
  }
}
