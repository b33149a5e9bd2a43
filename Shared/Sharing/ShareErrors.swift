// Errors of shares, with CKError's numbers where the table of codes has no row of its own.

public import Records

extension RecordError {
  public static let shareAccessDenied = RecordError(
    .accessDenied, "The operation is not permitted for this participant of the share")

  /// CKError 29, tooManyParticipants.
  public static let tooManyParticipants = RecordError(
    .badRequest, "A share has at most \(Limit.participantsPerShare) participants besides its owner",
    specialCKErrorCode: SpecialCKErrorCode.tooManyParticipants.rawValue)

  /// CKError 30, alreadyShared.
  public static func alreadyShared(_ reason: String) -> RecordError {
    RecordError(.exists, reason, specialCKErrorCode: SpecialCKErrorCode.alreadyShared.rawValue)
  }

  /// CKError 37, participantAlreadyInvited.
  public static let participantAlreadyInvited = RecordError(
    .exists, "The user is invited to this share already and has to accept that invitation",
    specialCKErrorCode: SpecialCKErrorCode.participantAlreadyInvited.rawValue)
}
