// A subscription's row. The store knows its user but not its content.

public import Records

public struct StoredSubscription: Hashable, Sendable {
  /// Never reused: a subscription that is stored again gets another key, so that cached content of a key stays valid.
  public let key: Int64
  public let databaseKey: Int64
  public let userRecordName: String
  /// The scope in which the user addresses the database.
  public let scope: DatabaseScope
  /// Chosen by the client or drawn for it. Unique for the user and scope.
  public let identifier: String
  /// The encoded subscription, opaque to the store.
  public let payload: [UInt8]

  public init(
    key: Int64, databaseKey: Int64, userRecordName: String, scope: DatabaseScope, identifier: String, payload: [UInt8]
  ) {
    self.key = key
    self.databaseKey = databaseKey
    self.userRecordName = userRecordName
    self.scope = scope
    self.identifier = identifier
    self.payload = payload
  }
}
