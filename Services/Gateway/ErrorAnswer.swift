// The error dictionary of both planes (docs/protocol/record-plane.md#errors, docs/protocol/mirror-api.md#errors).

import HTTPServer
import JSON
import Records
import WebServices

enum ErrorAnswer {
  static let jsonHeader = (name: "Content-Type", value: "application/json")

  /// - Parameter showsCKErrorCode: true on the mirror API; clients of the record plane refuse keys that Apple never
  ///   sends.
  static func response(_ error: RecordError, uuid: String, showsCKErrorCode: Bool) -> HTTPResponse {
    var writer = JSONWriter()
    writer.beginObject()
    writer.member("uuid", uuid)
    error.writeMembers(to: &writer)
    if showsCKErrorCode { writer.member("ckErrorCode", error.code.row.ckErrorCode) }
    writer.endObject()
    var headers = [jsonHeader]
    if let retryAfter = error.retryAfter { headers.append(("Retry-After", String(retryAfter))) }
    return HTTPResponse(status: error.status, headers: headers, body: .bytes(writer.bytes))
  }
}
