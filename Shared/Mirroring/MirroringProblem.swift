// Why one record or object was left out of an export or import: listed per record in events, never a reason to stop the others.

public import Records

/// A record that could not be mirrored.
public struct MirroringProblem: Error, Hashable, Sendable {
  public let recordName: String
  /// The entity, or the record type where no entity is known.
  public let entity: String
  public let code: ServerErrorCode
  public let cocoaErrorCode: CocoaErrorCode?
  /// Names the property; never a user's value.
  public let reason: String
  public let cause: QuarantineCause

  public init(
    recordName: String, entity: String, code: ServerErrorCode, cocoaErrorCode: CocoaErrorCode? = nil, reason: String, cause: QuarantineCause = .other
  ) {
    self.recordName = recordName
    self.entity = entity
    self.code = code
    self.cocoaErrorCode = cocoaErrorCode
    self.reason = reason
    self.cause = cause
  }

  /// CKError's number: 28 where the object's zone is gone.
  public var ckErrorCode: Int { cause == .zoneEnded || cause == .zonePaused ? Self.userDeletedZone : code.row.ckErrorCode }

  private static let userDeletedZone = 28

  /// Something that is stored can't be read; what it was the log says, and not the client.
  public static func damaged(_ recordName: String, _ entity: String) -> MirroringProblem {
    MirroringProblem(
      recordName: recordName, entity: entity, code: .internalError, reason: "something stored that the change needs can't be read", cause: .damaged)
  }
}

/// A value that does not fit its attribute (R10).
struct ValueMismatch: Error {
  /// `entity.attribute` and what was expected.
  let reason: String
}
