// The questions of gateways and workers to the share service's directory.

public import ObjectModel
public import Records

/// Turns credentials into a principal. Gateways cache the answer for `lifetimeSeconds`, or until `DirectoryChanged`.
public struct Authenticate: Message {
  public static let name = "directory.authenticate/1"
  public static let senders: Set<Role> = [.gateway, .notifier]
  public static let isRepeatable = true

  /// A principal, or the reason for a refusal.
  public struct Reply: Codable, Sendable {
    public enum Refusal: String, Codable, Sendable {
      /// The API token is missing, unknown, revoked, or of another container or environment.
      case apiToken
      /// The web-auth or bearer token is unknown, expired or revoked, its user is disabled, or the key ID is unknown or
      /// revoked.
      case userToken
      /// The container does not exist.
      case container
    }

    public let refusal: Refusal?
    public let userRecordName: String?
    public let isOperator: Bool
    /// The API token's allowed origins; empty for any origin.
    public let allowedOrigins: [String]
    public let lifetimeSeconds: Int
    /// The user's roles and quota in the requested container and environment; nil if the operator granted none.
    public let standing: UserStanding?
    /// The API token's address to which the sign-in page sends a browser without an opener.
    public var callbackURL: String?
    /// SubjectPublicKeyInfo of `keyID`: the caller is `userRecordName` if this key made the request's signature.
    public var publicKey: [UInt8]?
    /// Set if the user token comes from the sign-in page.
    public var session: Session?
    /// A name for the API token and the user's credentials that is no credential itself; `VerifyGrant` tells whether
    /// they still hold.
    public var grant: String?
    /// The member of the staff with a session of the console.
    public var member: StaffMember?
    /// The end of that session, in milliseconds since 1970.
    public var sessionEnd: Int64?

    /// The additional facts about a token of the sign-in page.
    public struct Session: Codable, Hashable, Sendable {
      /// Milliseconds from now after which an answer carries the token's successor (`RotateSession`).
      public let rotationDelay: Int64
      /// Milliseconds from now for which the token surely holds, unless it is revoked.
      public let validity: Int64

      public init(rotationDelay: Int64, validity: Int64) {
        self.rotationDelay = rotationDelay
        self.validity = validity
      }
    }

    public init(
      refusal: Refusal? = nil, userRecordName: String? = nil, isOperator: Bool = false, allowedOrigins: [String] = [],
      lifetimeSeconds: Int = 60,
      standing: UserStanding? = nil
    ) {
      self.refusal = refusal
      self.userRecordName = userRecordName
      self.isOperator = isOperator
      self.allowedOrigins = allowedOrigins
      self.lifetimeSeconds = lifetimeSeconds
      self.standing = standing
    }
  }

  /// nil for paths without a container (`/admin/1/…`): only an operator's bearer token and a token of the console count
  /// there.
  public let container: ContainerID?
  public let environment: Environment?
  public let apiToken: String?
  /// `ckWebAuthToken`, or the bearer token of an `Authorization` header: a user's or an operator's.
  public let userToken: String?
  /// The key ID of a signed request, which has no tokens.
  public let keyID: String?

  public init(
    container: ContainerID?, environment: Environment?, apiToken: String?, userToken: String?, keyID: String? = nil
  ) {
    self.container = container
    self.environment = environment
    self.apiToken = apiToken
    self.userToken = userToken
    self.keyID = keyID
  }
}

/// A user's own data, for `users/caller`.
public struct LookUpUser: Message {
  public static let name = "directory.user/1"
  public static let senders: Set<Role> = [.gateway]
  public static let isRepeatable = true

  public struct Reply: Codable, Sendable {
    public let userRecordName: String
    public let givenName: String?
    public let familyName: String?
    public let emailAddress: String?
    /// nil also where it must not be shown.
    public var phoneNumber: String?

    public init(userRecordName: String, givenName: String?, familyName: String?, emailAddress: String?) {
      self.userRecordName = userRecordName
      self.givenName = givenName
      self.familyName = familyName
      self.emailAddress = emailAddress
    }
  }

  public let userRecordName: String

  public init(userRecordName: String) { self.userRecordName = userRecordName }
}

/// The display name and address of a container's app, for the pages on which people sign in and accept shares. Gateways
/// cache it until a `DirectoryChanged` with stale credentials.
public struct LookUpApp: Message {
  public static let name = "directory.app/1"
  public static let senders: Set<Role> = [.gateway]
  public static let isRepeatable = true

  public struct Reply: Codable, Hashable, Sendable {
    /// nil if the operator set none.
    public let displayName: String?
    /// An absolute URL of https or a scheme of the app's own; nil if the operator set none.
    public let appURL: String?

    public init(displayName: String? = nil, appURL: String? = nil) {
      self.displayName = displayName
      self.appURL = appURL
    }
  }

  public let container: ContainerID

  public init(container: ContainerID) { self.container = container }
}

/// A container's environment for workers: its models by hash, and its schema. Workers cache it until
/// `DirectoryChanged`.
public struct FetchSchema: Message {
  public static let name = "directory.schema/1"
  public static let senders: Set<Role> = [.worker]
  public static let isRepeatable = true

  public struct Reply: Codable, Sendable {
    /// Rises with every change of the environment's schema or models.
    public let version: Int64
    /// The models pushed to this environment, by hash.
    public let models: [String: ManagedObjectModel]
    /// The hash of the latest model.
    public let latestModelHash: String?
    public let schema: Schema
    /// The number of resets of the environment; nil: none. Databases of earlier generations begin anew.
    public var generation: Int64?
    /// Users' custom roles by record name, for work on behalf of users who are not connected; nil if no user has any.
    public var userRoles: [String: [String]]?
    /// The environment's rules of uniqueness; nil if there are none.
    public var rules: EnvironmentRules?

    public init(version: Int64, models: [String: ManagedObjectModel], latestModelHash: String?, schema: Schema) {
      self.version = version
      self.models = models
      self.latestModelHash = latestModelHash
      self.schema = schema
    }
  }

  public let container: ContainerID
  public let environment: Environment

  public init(container: ContainerID, environment: Environment) {
    self.container = container
    self.environment = environment
  }
}

/// Adds the record types and fields that a save in *development* brought up (M7).
public struct ExtendSchema: Message {
  public static let name = "directory.extend-schema/1"
  public static let senders: Set<Role> = [.worker]
  public static let isRepeatable = true
  public typealias Reply = Acknowledgement

  public let container: ContainerID
  public let fields: [SchemaField]

  public struct SchemaField: Codable, Sendable, Hashable {
    public let recordType: String
    public let field: String
    public let type: FieldType
    public let isEncrypted: Bool

    public init(recordType: String, field: String, type: FieldType, isEncrypted: Bool) {
      self.recordType = recordType
      self.field = field
      self.type = type
      self.isEncrypted = isEncrypted
    }
  }

  public init(container: ContainerID, fields: [SchemaField]) {
    self.container = container
    self.fields = fields
  }
}

/// An operator's HTTP request, forwarded unchanged: `/admin/1/…` and the mirror API's model and schema calls. The
/// answer's body is the HTTP body.
public struct OperatorRequest: Message {
  public static let name = "directory.operator/1"
  public static let senders: Set<Role> = [.gateway]
  public static let isRepeatable = false

  public struct Reply: Codable, Sendable {
    public let status: Int
    public let contentType: String
    /// Seconds after which a retry may succeed; nil for a final answer.
    public let retryAfter: Int?

    public init(status: Int, contentType: String, retryAfter: Int? = nil) {
      self.status = status
      self.contentType = contentType
      self.retryAfter = retryAfter
    }
  }

  public let method: String
  /// Percent-decoded, with its prefix: `["admin","1","users"]`, `["mirror","1",container,environment,"model"]`.
  public let path: [String]
  public let query: [String: String]
  /// The caller; nil from a gateway of an earlier release, which lets only the holder of the operator token through.
  public let member: StaffMember?

  public init(method: String, path: [String], query: [String: String], member: StaffMember? = nil) {
    self.method = method
    self.path = path
    self.query = query
    self.member = member
  }
}

/// Keys that all processes of an installation share, for signing asset URLs and courier tokens.
public struct FetchSecrets: Message {
  public static let name = "directory.secrets/1"
  public static let senders: Set<Role> = [.gateway, .notifier, .worker]
  public static let isRepeatable = true

  public struct Reply: Codable, Sendable {
    /// 32 random bytes, drawn with the installation.
    public let signingKey: [UInt8]

    public init(signingKey: [UInt8]) { self.signingKey = signingKey }
  }

  public init() {}
}

/// The directory's version within one run of the share service.
public struct DirectoryVersion: Hashable, Sendable, Codable {
  /// Drawn when the share service starts.
  public let epoch: UInt64
  /// The number of changes announced since.
  public let count: Int64

  public init(epoch: UInt64, count: Int64) {
    self.epoch = epoch
    self.count = count
  }

  /// True if a process that knows `earlier` has missed no change but this one.
  public func follows(_ earlier: DirectoryVersion) -> Bool { epoch == earlier.epoch && count == earlier.count + 1 }
}

/// The share service pushes it to every process when cached answers became stale.
public struct DirectoryChanged: Message {
  public static let name = "directory.changed/1"
  public static let senders: Set<Role> = [.share]
  public static let isRepeatable = true
  public typealias Reply = Acknowledgement

  /// All cached answers about credentials are stale.
  public let credentials: Bool
  /// Environments whose schema or models are stale, as `container/environment`.
  public let schemas: [String]
  /// The version after this change; nil from a release that does not send it.
  public var version: DirectoryVersion?

  public init(credentials: Bool, schemas: [String], version: DirectoryVersion? = nil) {
    self.credentials = credentials
    self.schemas = schemas
    self.version = version
  }
}

/// The share service pushes it to gateways and notifiers that connect, or that a `DirectoryChanged` did not reach. A
/// process that knows another version has missed changes and drops its cached credentials.
public struct PublishDirectoryVersion: Message {
  public static let name = "directory.version/1"
  public static let senders: Set<Role> = [.share]
  public static let isRepeatable = true
  public typealias Reply = Acknowledgement

  public let version: DirectoryVersion

  public init(version: DirectoryVersion) { self.version = version }
}
