// What is refused about shares, with CKError's numbers where the table of codes has no row of its own.

public import Records

extension RecordError {
  public static let shareAccessDenied = RecordError(.accessDenied, "The operation is not permitted for this participant of the share")

  /// 29.
  public static let tooManyParticipants = RecordError(
    .badRequest, "A share has at most \(Limit.participantsPerShare) participants besides its owner", specialCKErrorCode: SpecialCKErrorCode.tooManyParticipants.rawValue)

  /// 30.
  public static func alreadyShared(_ reason: String) -> RecordError { RecordError(.exists, reason, specialCKErrorCode: SpecialCKErrorCode.alreadyShared.rawValue) }

  /// 37.
  public static let participantAlreadyInvited = RecordError(
    .exists, "The user is invited to this share already and has to accept that invitation", specialCKErrorCode: SpecialCKErrorCode.participantAlreadyInvited.rawValue)
}
