// The changes that an export could not write. The store keeps one row for each object of a mirrored store.

/// An object with held back changes, without the changes themselves.
public struct StoredQuarantine: Hashable, Sendable {
  /// Ascending in the order in which rows were first made; 0 before it is stored.
  public var key: Int64
  public let mirror: Int64
  /// The object's ID; unique within the mirror.
  public let name: String
  public var entity: String
  /// `QuarantineCause` of Mirroring.
  public var cause: Int
  /// The spelling of a `ServerErrorCode`.
  public var code: String
  public var cocoaErrorCode: Int?
  /// Names the property, never a user's value.
  public var reason: String
  /// The times at which the first change was held back and at which the changes were last tried, in milliseconds since
  /// 1970.
  public var firstAt: Int64
  public var lastAt: Int64
  public var attempts: Int
  /// The time of the next attempt in milliseconds since 1970; `never` when only a client or an operator can solve the
  /// cause.
  public var dueAt: Int64
  /// The environment's schema version at the last attempt.
  public var schemaVersion: Int64

  public static let never = Int64.max

  public init(
    key: Int64 = 0, mirror: Int64, name: String, entity: String, cause: Int, code: String, cocoaErrorCode: Int? = nil,
    reason: String, firstAt: Int64,
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

/// Selects held back objects of a store.
public enum QuarantineSelection: Hashable, Sendable {
  case all
  case names([String])
  case cause(Int)
  /// Objects last tried with another version of the schema.
  case otherSchema(than: Int64)
}
