// A caller's permissions on records of the public database. The schema's GRANTs decide, on reads and in each commit.

import ObjectModel
package import Records
package import ServiceBus

/// A caller's permissions in the public database; in a private database `RecordPlaneCall.permissions` is nil.
///
/// An unreadable record looks like a missing one: NOT_FOUND in a lookup, and no hit of a query.
package struct RecordPermissions: Sendable {
  /// The records of a type that a caller may read.
  package enum Readable: Hashable, Sendable {
    case all
    /// Records that this user created.
    case created(by: String)
    case none
  }

  private let grants: GrantIndex
  /// nil for a request with only an API token, which has the role `_world` and no other.
  private let user: String?
  private let roles: [String]
  /// An operator reads everything, and writes nothing without a user.
  private let isOperator: Bool

  init(grants: GrantIndex, user: String?, roles: [String] = [], isOperator: Bool = false) {
    self.grants = grants
    self.user = user
    self.roles = roles
    self.isOperator = isOperator
  }

  /// Decides for a whole query, not for each record.
  package func readable(_ recordType: String) -> Readable {
    let grants = grants.grants(of: recordType)
    if isOperator || always(grants).contains(.read) { return .all }
    if let user, grants.creator.contains(.read) { return .created(by: user) }
    return .none
  }

  package func mayRead(_ record: Record) -> Bool {
    switch readable(record.recordType) {
    case .all: true
    case .created(let user): record.created.userRecordName == user
    case .none: false
    }
  }

  /// `_creator` does not apply to records that do not exist yet.
  package func mayCreate(_ recordType: String) -> Bool {
    user != nil && always(grants.grants(of: recordType)).contains(.create)
  }

  package func mayWrite(_ record: Record) -> Bool {
    guard let user else { return false }
    let grants = grants.grants(of: record.recordType)
    return always(grants).contains(.write) || (record.created.userRecordName == user && grants.creator.contains(.write))
  }

  /// The caller's permissions on every record of a type.
  private func always(_ grants: GrantIndex.TypeGrants) -> GrantIndex.Permissions {
    guard user != nil else { return grants.world }
    var permissions = grants.world.union(grants.signedIn)
    if !grants.roles.isEmpty { for role in roles { permissions.formUnion(grants.roles[role] ?? []) } }
    return permissions
  }
}

extension EnvironmentSchema {
  /// The public database's permissions of a user without a request, such as a subscriber or an exported store's user.
  package func permissions(ofAbsentUser userRecordName: String) -> RecordPermissions {
    RecordPermissions(grants: grants, user: userRecordName, roles: userRoles[userRecordName] ?? [])
  }

  /// - Returns: nil for a private database.
  package func permissions(of caller: Caller, in database: DatabaseID) -> RecordPermissions? {
    guard database.isPublic else { return nil }
    return RecordPermissions(
      grants: grants, user: caller.userRecordName, roles: caller.roles, isOperator: caller.isOperator)
  }
}
