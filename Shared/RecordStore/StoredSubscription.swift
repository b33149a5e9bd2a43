// A subscription's row: whose it is is the store's business, what it says is not.

public import Records

/// A user's subscription to a database.
public struct StoredSubscription: Hashable, Sendable {
  /// Never used again: a subscription that is stored anew gets another, so that what was read of a key stays true.
  public let key: Int64
  public let databaseKey: Int64
  public let userRecordName: String
  /// As what the user addresses the database.
  public let scope: DatabaseScope
  /// Chosen by the client or drawn for it; unique for the user and scope.
  public let identifier: String
  /// What the subscription says, opaque here.
  public let payload: [UInt8]

  public init(key: Int64, databaseKey: Int64, userRecordName: String, scope: DatabaseScope, identifier: String, payload: [UInt8]) {
    self.key = key
    self.databaseKey = databaseKey
    self.userRecordName = userRecordName
    self.scope = scope
    self.identifier = identifier
    self.payload = payload
  }
}
