// The hold that a writer has of its shard: the transactions of its groups, which another owner's epoch ends.

/// The writer's thread owns it.
protocol ShardTenure: AnyObject {
  var connection: StoreConnection { get }

  /// Begins the transaction of a group.
  /// - Throws: `StoreError.fenced` when another owner has taken the shard over; an `EngineError`.
  func begin(_ transaction: SQLiteTransaction) throws
  /// Makes the group durable.
  /// - Throws: an error that means that nothing of the group is stored. A failed commit must be rolled back.
  func commit() throws
  func rollback() throws
  /// The most bodies of a group whose look-ups are fetched together; 1 when none are.
  var fetchedBodyLimit: Int { get }
  /// Does the engine's own work between two groups, if some is due.
  func rest()
  /// Ends the hold and closes the connection.
  func close()

  /// The pages of the engine's log that the shard occupies; 0 when it has none of its own.
  var logPageCount: Int { get }
}
