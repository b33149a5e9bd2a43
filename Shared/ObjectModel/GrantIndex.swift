// A schema's GRANTs made ready for asking about permissions, once per version of the schema (S10).

/// The permissions of roles for the records of each type in the public database.
public struct GrantIndex: Sendable {
  /// A set of permissions; `write` allows changing and deleting existing records.
  public struct Permissions: OptionSet, Hashable, Sendable {
    public let rawValue: UInt8
    public init(rawValue: UInt8) { self.rawValue = rawValue }
    public static let read = Permissions(rawValue: 1)
    public static let create = Permissions(rawValue: 2)
    public static let write = Permissions(rawValue: 4)
  }

  /// The grants of one type.
  public struct TypeGrants: Hashable, Sendable {
    /// `_world`: everybody, signed in or not.
    public fileprivate(set) var world: Permissions = []
    /// `_icloud`: every signed-in user.
    public fileprivate(set) var signedIn: Permissions = []
    /// `_creator`: the user who created the record, for that record only.
    public fileprivate(set) var creator: Permissions = []
    /// By the name of a custom role.
    public fileprivate(set) var roles: [String: Permissions] = [:]
  }

  private let grants: [String: TypeGrants]

  /// The grants that a record type starts with, also in force where it has none: everybody reads, signed-in users
  /// create, the creator writes.
  public static let standard = TypeGrants(Schema.Grant.forMirroredTypes)

  public init(_ schema: Schema) {
    var grants: [String: TypeGrants] = [:]
    for recordType in schema.recordTypes {
      let own = TypeGrants(recordType.grants)
      // Most types have the standard grants and need no entry.
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
  /// The answer to a write shows the record, and a write begins from its change tag: WRITE therefore includes READ.
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
