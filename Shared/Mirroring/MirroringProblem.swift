// The reason why an export or import left out one record or object. Events list these per record; the others go on.

public import Records

/// A record that could not be mirrored.
public struct MirroringProblem: Error, Hashable, Sendable {
  public let recordName: String
  /// The entity's name, or the record type if no entity is known.
  public let entity: String
  public let code: ServerErrorCode
  public let cocoaErrorCode: CocoaErrorCode?
  /// One sentence that names the property; never a user's value.
  public let reason: String
  public let cause: QuarantineCause

  public init(
    recordName: String, entity: String, code: ServerErrorCode, cocoaErrorCode: CocoaErrorCode? = nil, reason: String,
    cause: QuarantineCause = .other
  ) {
    self.recordName = recordName
    self.entity = entity
    self.code = code
    self.cocoaErrorCode = cocoaErrorCode
    self.reason = reason
    self.cause = cause
  }

  /// CKError's number; 28 (userDeletedZone) if the object's zone has ended.
  public var ckErrorCode: Int {
    cause == .zoneEnded || cause == .zonePaused ? Self.userDeletedZone : code.row.ckErrorCode
  }

  private static let userDeletedZone = 28

  /// Stored bytes that cannot be read. The log has the details, the client does not get them.
  public static func damaged(_ recordName: String, _ entity: String) -> MirroringProblem {
    MirroringProblem(
      recordName: recordName, entity: entity, code: .internalError,
      reason: "the change needs stored data that can't be read", cause: .damaged)
  }
}

/// A value that does not fit its attribute (R10).
struct ValueMismatch: Error {
  /// `entity.attribute` and the expected value, in words.
  let reason: String
}
