// The error dictionary: of a whole request and of single items (docs/protocol/record-plane.md#errors).

public import JSON
public import Records

extension RecordError {
  /// The body of a failed request.
  /// - Parameter uuid: the request's identifier, which the log has too.
  public func dictionary(uuid: String) -> [UInt8] {
    var writer = JSONWriter(reservingByteCount: 200)
    writer.beginObject()
    writer.member("uuid", uuid)
    writeMembers(to: &writer)
    writer.endObject()
    return writer.bytes
  }

  /// Writes the error's members into the object of an item or of the whole answer. Items carry no `uuid`, because a
  /// strict client refuses it.
  public func writeMembers(to writer: inout JSONWriter) {
    writer.member("serverErrorCode", code.rawValue)
    writer.member("reason", reason)
    // For errors that `serverErrorCode` does not tell apart: too many participants, shared already, invited already.
    if let specialCKErrorCode { writer.member("ckErrorCode", specialCKErrorCode) }
    if let retryAfter { writer.member("retryAfter", retryAfter) }
    if let redirectURL { writer.member("redirectURL", redirectURL) }
    if let cocoaErrorCode { writer.member("cocoaErrorCode", cocoaErrorCode.rawValue) }
  }
}
