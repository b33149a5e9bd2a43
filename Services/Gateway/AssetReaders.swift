// Checks at each download that a participant still has access to the asset: a removed participant loses it at once.

import JSON
import Records
import ServiceBus
import ServiceKit
import WebServices

extension Gateway {
  /// Asks the worker that holds the owner's database, because that database lists the participants. Addresses made for
  /// the owner have no reader and cost no question.
  /// - Throws: `ACCESS_DENIED` when the user takes part no longer; the worker's error when it can't answer.
  func check(_ reader: AssetURL.Reader) async throws(RecordError) {
    let database = DatabaseID(container: reader.container, environment: reader.environment, owner: reader.owner)
    var body = JSONWriter()
    body.beginObject()
    if let zoneName = reader.zoneName {
      body.key("zones")
      body.beginArray()
      Zone.ID(zoneName: zoneName, ownerName: reader.owner).write(to: &body)
      body.endArray()
    }
    body.endObject()
    let request = DatabaseRequest(
      .record(reader.zoneName == nil ? .listZones : .lookUpZones), query: [:], database: database, scope: .shared,
      caller: Caller(userRecordName: reader.userRecordName), requestID: random.uuid(), baseURL: "")
    let answer = try await forwarding.forward(request.inParts, body: body.bytes)
    if answer.reply.status >= 500 {
      throw RecordError(
        .tryAgainLater, "The worker of the content's owner does not answer now",
        retryAfter: answer.reply.retryAfter ?? 1)
    }
    let isRefused = answer.reply.status != 200
    let zones = isRefused ? [] : try AnswerParts(answer.body, contentType: answer.reply.contentType).parts
    guard zones.contains(where: { $0.error == nil }) else {
      throw RecordError(.accessDenied, "The asset is no longer shared with the user whom the address belongs to")
    }
  }
}
