// What an export could not write, as the store keeps it until it can: one row an object of a mirrored store.

/// An object whose changes are held back, without the changes themselves.
public struct StoredQuarantine: Hashable, Sendable {
  /// Ascending in the order rows were first made; 0 before it is stored.
  public var key: Int64
  public let mirror: Int64
  /// The object's ID; unique within the mirror.
  public let name: String
  public var entity: String
  /// `QuarantineCause` of Mirroring.
  public var cause: Int
  /// `ServerErrorCode` as it is spelled.
  public var code: String
  public var cocoaErrorCode: Int?
  /// Names the property; never a user's value.
  public var reason: String
  /// Milliseconds since 1970: when the first of the changes was held back, and when they were last tried.
  public var firstAt: Int64
  public var lastAt: Int64
  public var attempts: Int
  /// Milliseconds since 1970: when they are tried again; `never` for what only a client or an operator can solve.
  public var dueAt: Int64
  /// The environment's schema version at the last try.
  public var schemaVersion: Int64

  public static let never = Int64.max

  public init(
    key: Int64 = 0, mirror: Int64, name: String, entity: String, cause: Int, code: String, cocoaErrorCode: Int? = nil, reason: String, firstAt: Int64,
    lastAt: Int64, attempts: Int, dueAt: Int64, schemaVersion: Int64
  ) {
    self.key = key
    self.mirror = mirror
    self.name = name
    self.entity = entity
    self.cause = cause
    self.code = code
    self.cocoaErrorCode = cocoaErrorCode
    self.reason = reason
    self.firstAt = firstAt
    self.lastAt = lastAt
    self.attempts = attempts
    self.dueAt = dueAt
    self.schemaVersion = schemaVersion
  }
}

/// Which of a store's held back objects are meant.
public enum QuarantineSelection: Hashable, Sendable {
  case all
  case names([String])
  case cause(Int)
  /// Last tried with another version of the schema.
  case otherSchema(than: Int64)
}
