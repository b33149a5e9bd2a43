// A schema's GRANTs made ready for asking about permissions, once per version of the schema (S10).

/// Who may do what with the records of each type in the public database.
public struct GrantIndex: Sendable {
  /// What may be done; `write` says that an existing record may be changed and deleted.
  public struct Permissions: OptionSet, Hashable, Sendable {
    public let rawValue: UInt8
    public init(rawValue: UInt8) { self.rawValue = rawValue }
    public static let read = Permissions(rawValue: 1)
    public static let create = Permissions(rawValue: 2)
    public static let write = Permissions(rawValue: 4)
  }

  /// The grants of one type.
  public struct TypeGrants: Hashable, Sendable {
    /// `_world`: everybody, also without a user.
    public fileprivate(set) var world: Permissions = []
    /// `_icloud`: everybody who is signed in.
    public fileprivate(set) var signedIn: Permissions = []
    /// `_creator`: who made the record, and only for that record.
    public fileprivate(set) var creator: Permissions = []
    /// By custom role.
    public fileprivate(set) var roles: [String: Permissions] = [:]
  }

  private let grants: [String: TypeGrants]

  /// What every type starts with, and what one without any GRANT has: everybody reads, who is signed in creates, the creator writes.
  public static let standard = TypeGrants(Schema.Grant.forMirroredTypes)

  public init(_ schema: Schema) {
    var grants: [String: TypeGrants] = [:]
    for recordType in schema.recordTypes {
      let own = TypeGrants(recordType.grants)
      // Most types have the standard ones: they need no entry.
      if !recordType.grants.isEmpty, own != Self.standard { grants[recordType.name] = own }
    }
    self.grants = grants
  }

  public func grants(of recordType: String) -> TypeGrants { grants[recordType] ?? Self.standard }
}

extension GrantIndex.TypeGrants {
  fileprivate init(_ grants: [Schema.Grant]) {
    for grant in grants {
      let permissions = GrantIndex.Permissions(grant.permissions)
      switch grant.role {
      case "_world": world.formUnion(permissions)
      case "_icloud": signedIn.formUnion(permissions)
      case "_creator": creator.formUnion(permissions)
      default: roles[grant.role, default: []].formUnion(permissions)
      }
    }
  }
}

extension GrantIndex.Permissions {
  /// Who may write a record sees it in the answer, and needs its tag to begin with: so WRITE grants READ, too.
  fileprivate init(_ permissions: [Schema.Grant.Permission]) {
    self = []
    for permission in permissions {
      switch permission {
      case .read: insert(.read)
      case .create: insert(.create)
      case .write: formUnion([.read, .write])
      }
    }
  }
}
