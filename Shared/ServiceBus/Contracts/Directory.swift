// What gateways and workers ask of the share service's directory.

public import ObjectModel
public import Records

/// Turns credentials into a principal. Answers are cached by gateways until `DirectoryChanged` or `lifetimeSeconds`.
public struct Authenticate: Message {
  public static let name = "directory.authenticate/1"
  public static let senders: Set<Role> = [.gateway, .notifier]
  public static let isRepeatable = true

  /// A principal, or why there is none.
  public struct Reply: Codable, Sendable {
    public enum Refusal: String, Codable, Sendable {
      /// The API token is missing, unknown, revoked, or of another container or environment.
      case apiToken
      /// The web-auth or bearer token is unknown, expired or revoked, or its user disabled; or the key ID is unknown or revoked.
      case userToken
      /// The container does not exist.
      case container
    }

    public let refusal: Refusal?
    public let userRecordName: String?
    public let isOperator: Bool
    /// Of the API token; empty: any origin.
    public let allowedOrigins: [String]
    public let lifetimeSeconds: Int
    /// What the user may beyond any other, in the container and environment that were asked about; nil: nothing.
    public let standing: UserStanding?
    /// Of the API token: where the sign-in page sends a browser that has no opener to tell.
    public var callbackURL: String?
    /// SubjectPublicKeyInfo of `keyID`: the caller is `userRecordName` when the request's signature is this key's.
    public var publicKey: [UInt8]?
    /// The user token is one of the sign-in page's.
    public var session: Session?
    /// Names the API token and the user's credentials without being any: as long as they hold, `VerifyGrant` says so.
    public var grant: String?

    /// What a token of the sign-in page has that others don't.
    public struct Session: Codable, Hashable, Sendable {
      /// Milliseconds from now after which an answer hands out its successor (`RotateSession`).
      public let rotationDelay: Int64
      /// Milliseconds from now for which the token certainly counts, whatever happens to it but revocation.
      public let validity: Int64

      public init(rotationDelay: Int64, validity: Int64) {
        self.rotationDelay = rotationDelay
        self.validity = validity
      }
    }

    public init(
      refusal: Refusal? = nil, userRecordName: String? = nil, isOperator: Bool = false, allowedOrigins: [String] = [], lifetimeSeconds: Int = 60,
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

  /// nil for paths without one (`/admin/1/…`): then only an operator's bearer token is accepted.
  public let container: ContainerID?
  public let environment: Environment?
  public let apiToken: String?
  /// `ckWebAuthToken`, or the bearer token of an `Authorization` header (a user's or an operator's).
  public let userToken: String?
  /// Of a signed request, which has no tokens.
  public let keyID: String?

  public init(container: ContainerID?, environment: Environment?, apiToken: String?, userToken: String?, keyID: String? = nil) {
    self.container = container
    self.environment = environment
    self.apiToken = apiToken
    self.userToken = userToken
    self.keyID = keyID
  }
}

/// A person, as `users/caller` shows him to himself.
public struct LookUpUser: Message {
  public static let name = "directory.user/1"
  public static let senders: Set<Role> = [.gateway]
  public static let isRepeatable = true

  public struct Reply: Codable, Sendable {
    public let userRecordName: String
    public let givenName: String?
    public let familyName: String?
    public let emailAddress: String?
    /// nil also where it is not to be shown.
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

/// What a container's app is called to people, and where it is: for the pages on which they sign in and accept shares. Gateways cache it until
/// `DirectoryChanged` says that credentials are stale.
public struct LookUpApp: Message {
  public static let name = "directory.app/1"
  public static let senders: Set<Role> = [.gateway]
  public static let isRepeatable = true

  public struct Reply: Codable, Hashable, Sendable {
    /// nil: the operator gave none.
    public let displayName: String?
    /// Absolute, of https or a scheme of the app's own; nil: the operator gave none.
    public let appURL: String?

    public init(displayName: String? = nil, appURL: String? = nil) {
      self.displayName = displayName
      self.appURL = appURL
    }
  }

  public let container: ContainerID

  public init(container: ContainerID) { self.container = container }
}

/// What a container's environment holds for workers: its models by hash, and its schema. Workers cache it until `DirectoryChanged`.
public struct FetchSchema: Message {
  public static let name = "directory.schema/1"
  public static let senders: Set<Role> = [.worker]
  public static let isRepeatable = true

  public struct Reply: Codable, Sendable {
    /// Rises with every change of the environment's schema or models.
    public let version: Int64
    /// The models that were pushed to this environment, by hash.
    public let models: [String: ManagedObjectModel]
    /// The hash of the latest.
    public let latestModelHash: String?
    public let schema: Schema
    /// How often the environment was reset; nil: never. Databases of earlier generations begin anew.
    public var generation: Int64?
    /// The custom roles of users, by record name, for what is done for them while they are not there to be asked. nil: nobody has any.
    public var userRoles: [String: [String]]?
    /// What is unique in the environment's zones. nil: nothing.
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

/// An operator's HTTP request, forwarded as it came: `/admin/1/…` and the mirror API's model and schema calls. The answer's body is
/// the HTTP body.
public struct OperatorRequest: Message {
  public static let name = "directory.operator/1"
  public static let senders: Set<Role> = [.gateway]
  public static let isRepeatable = false

  public struct Reply: Codable, Sendable {
    public let status: Int
    public let contentType: String
    /// Seconds, of a refusal that may pass.
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

  public init(method: String, path: [String], query: [String: String]) {
    self.method = method
    self.path = path
    self.query = query
  }
}

/// Keys every process of an installation shares (signing of asset URLs and courier tokens), from the directory.
public struct FetchSecrets: Message {
  public static let name = "directory.secrets/1"
  public static let senders: Set<Role> = [.gateway, .notifier, .worker]
  public static let isRepeatable = true

  public struct Reply: Codable, Sendable {
    /// 32 random bytes, made with the installation.
    public let signingKey: [UInt8]

    public init(signingKey: [UInt8]) { self.signingKey = signingKey }
  }

  public init() {}
}

/// How far the directory has changed, in one life of the share service.
public struct DirectoryVersion: Hashable, Sendable, Codable {
  /// Drawn when the share service starts.
  public let epoch: UInt64
  /// Changes that were announced since.
  public let count: Int64

  public init(epoch: UInt64, count: Int64) {
    self.epoch = epoch
    self.count = count
  }

  /// Whether somebody who knows `earlier` has missed nothing but this change.
  public func follows(_ earlier: DirectoryVersion) -> Bool { epoch == earlier.epoch && count == earlier.count + 1 }
}

/// Pushed by the share service to everybody when cached answers went stale.
public struct DirectoryChanged: Message {
  public static let name = "directory.changed/1"
  public static let senders: Set<Role> = [.share]
  public static let isRepeatable = true
  public typealias Reply = Acknowledgement

  /// Everything cached of credentials is stale.
  public let credentials: Bool
  /// The schema or models of these are stale: `container/environment`.
  public let schemas: [String]
  /// After this change.
  public var version: DirectoryVersion?

  public init(credentials: Bool, schemas: [String], version: DirectoryVersion? = nil) {
    self.credentials = credentials
    self.schemas = schemas
    self.version = version
  }
}

/// Pushed by the share service to gateways and notifiers that connect (again) or were not reached by a `DirectoryChanged`: whoever
/// knows another version has missed changes, and forgets what he knows of credentials.
public struct PublishDirectoryVersion: Message {
  public static let name = "directory.version/1"
  public static let senders: Set<Role> = [.share]
  public static let isRepeatable = true
  public typealias Reply = Acknowledgement

  public let version: DirectoryVersion

  public init(version: DirectoryVersion) { self.version = version }
}
