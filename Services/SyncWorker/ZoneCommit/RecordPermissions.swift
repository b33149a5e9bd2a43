// What a caller may do with the records of the public database: decided by the schema's GRANTs, on reads and in the transaction that writes.

import ObjectModel
import Records
import ServiceBus

/// A caller's permissions in the public database. In a private database there is nothing to ask: `RecordPlaneCall.permissions` is nil.
///
/// What a caller may not read looks like what does not exist: NOT_FOUND in a lookup, and no hit of a query.
struct RecordPermissions: Sendable {
  /// Which records of a type a caller may read.
  enum Readable: Hashable, Sendable {
    case all
    /// Those that this user created.
    case created(by: String)
    case none
  }

  private let grants: GrantIndex
  /// nil: an API token alone; it has the role `_world` and no other.
  private let user: String?
  private let roles: [String]
  /// An operator sees everything, and writes as little as anybody without a user.
  private let isOperator: Bool

  init(grants: GrantIndex, user: String?, roles: [String] = [], isOperator: Bool = false) {
    self.grants = grants
    self.user = user
    self.roles = roles
    self.isOperator = isOperator
  }

  /// For a query: decided once, not for each record.
  func readable(_ recordType: String) -> Readable {
    let grants = grants.grants(of: recordType)
    if isOperator || always(grants).contains(.read) { return .all }
    if let user, grants.creator.contains(.read) { return .created(by: user) }
    return .none
  }

  func mayRead(_ record: Record) -> Bool {
    switch readable(record.recordType) {
    case .all: true
    case .created(let user): record.created.userRecordName == user
    case .none: false
    }
  }

  /// `_creator` says nothing about records that are not there yet.
  func mayCreate(_ recordType: String) -> Bool {
    user != nil && always(grants.grants(of: recordType)).contains(.create)
  }

  func mayWrite(_ record: Record) -> Bool {
    guard let user else { return false }
    let grants = grants.grants(of: record.recordType)
    return always(grants).contains(.write) || (record.created.userRecordName == user && grants.creator.contains(.write))
  }

  /// What the caller may do with every record of a type.
  private func always(_ grants: GrantIndex.TypeGrants) -> GrantIndex.Permissions {
    guard user != nil else { return grants.world }
    var permissions = grants.world.union(grants.signedIn)
    if !grants.roles.isEmpty { for role in roles { permissions.formUnion(grants.roles[role] ?? []) } }
    return permissions
  }
}

extension EnvironmentSchema {
  /// What a user may do in the public database who is not there to be asked: whose store is exported, or who has subscribed.
  func permissions(ofAbsentUser userRecordName: String) -> RecordPermissions {
    RecordPermissions(grants: grants, user: userRecordName, roles: userRoles[userRecordName] ?? [])
  }

  /// - Returns: nil for a private database.
  func permissions(of caller: Caller, in database: DatabaseID) -> RecordPermissions? {
    guard database.isPublic else { return nil }
    return RecordPermissions(grants: grants, user: caller.userRecordName, roles: caller.roles, isOperator: caller.isOperator)
  }
}

extension RecordPlaneCall {
  /// What the caller may do; nil in a private database, where he is the owner.
  func permissions() async throws(RecordError) -> RecordPermissions? {
    guard database.isPublic else { return nil }
    return try await context.schemas.schema(of: database.container, database.environment).permissions(of: request.caller, in: database)
  }
}
