// Backups, scrubs and the acceptance of restored data over HTTP.

import JSON
import Records
import ServiceKit
import WebServices

extension OperatorAPI {
  /// `POST shards/accept` `{"what"}`: the number of a shard, `data`, `assets` or `all`. The answer lists the accepted
  /// subjects.
  func acceptData(_ body: [UInt8]) async throws -> OperatorAnswer {
    guard let what = try JSONValue.request(body)["what"]?.string else {
      throw RecordError(.badRequest, "what is missing")
    }
    let accepted = try await directory.acceptData(what)
    log.warning("data were accepted as they are", ["what": .text(accepted.joined(separator: " "))])
    return OperatorAnswer { writer in
      writer.key("accepted")
      writer.beginArray()
      for subject in accepted { writer.string(subject) }
      writer.endArray()
    }
  }

  /// `POST` begins a job (202; 409 while one of its kind runs), `GET` tells the state of the latest one.
  func storage(_ request: Request, _ kind: StorageJob.Kind) async throws -> OperatorAnswer {
    switch (request.method, request.rest, kind) {
    case ("GET", [], _):
      guard let job = await jobs.job(kind) else {
        throw RecordError(.notFound, "There was no \(kind.rawValue) since the share service started")
      }
      return job.answer()
    case ("POST", [], .backup):
      guard let directory = try JSONValue.request(request.body)["directory"]?.string else {
        throw RecordError(.badRequest, "directory is missing")
      }
      return try await jobs.backUp(to: directory).answer(status: 202)
    case ("POST", [], .scrub):
      return try await jobs.scrub(readsAssets: request.flag("assets"), mendsLinks: request.flag("mendLinks")).answer(
        status: 202)
    default: throw Self.noSuchCall(request)
    }
  }
}
