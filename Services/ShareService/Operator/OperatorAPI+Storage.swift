// Backups, scrubs and the acceptance of restored data over HTTP.

import Assets
import JSON
import RecordStore
import Records
import ServiceBus
import ServiceKit
import WebServices

extension OperatorAPI {
  /// `POST shards/accept` `{"what"}`: the number of a shard, `data`, `assets` or `all`. The answer lists the accepted
  /// subjects, and those that are left out because they are in use.
  func acceptData(_ body: [UInt8]) async throws -> OperatorAnswer {
    guard let what = try JSONValue.request(body)["what"]?.string else {
      throw RecordError(.badRequest, "what is missing")
    }
    let known = await map()?.reachedClusters ?? []
    let acceptance = try await directory.acceptData(what, known: known, open: await openShards())
    await clustersChanged()
    log.warning("data were accepted as they are", ["what": .text(acceptance.accepted.joined(separator: " "))])
    return OperatorAnswer { writer in
      for (key, subjects) in [("accepted", acceptance.accepted), ("inUse", acceptance.inUse)] {
        writer.key(key)
        writer.beginArray()
        for subject in subjects { writer.string(subject) }
        writer.endArray()
      }
    }
  }

  /// `POST` begins a job (202; 409 while one of its kind runs), `GET` tells the state of the latest one, or with
  /// `startedAt` of the one that began then.
  func storage(_ request: Request, _ kind: StorageJob.Kind) async throws -> OperatorAnswer {
    switch (request.method, request.rest, kind) {
    case ("GET", [], _):
      let startedAt = try request.query["startedAt"].map { text in
        guard let time = Int64(text) else { throw RecordError(.badRequest, "startedAt is no number") }
        return time
      }
      guard let job = await jobs.job(kind, startedAt: startedAt) else {
        throw RecordError(
          .notFound,
          "There was no \(startedAt == nil ? "" : "such ")\(kind.rawValue) since the share service started")
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
    case ("POST", [], .verification):
      return try await jobs.verify(try Self.backup(try JSONValue.request(request.body)["directory"]?.string)).answer(
        status: 202)
    default: throw Self.noSuchCall(request)
    }
  }

  private static func backup(_ directory: String?) throws(RecordError) -> FinishedBackup {
    guard let directory, directory.hasPrefix("/") else {
      throw RecordError(.badRequest, "directory is missing, or no absolute path")
    }
    do throws(StoreError) {
      return try FinishedBackup(directory)
    } catch {
      throw RecordError(.badRequest, StorageJobs.reason(error))
    }
  }

  /// `GET` with `directory`: the whole backups directly below a folder, as the share service sees it.
  func backups(_ request: Request) async throws -> OperatorAnswer {
    guard request.method == "GET", request.rest.isEmpty else { throw Self.noSuchCall(request) }
    guard let parent = request.query["directory"], parent.hasPrefix("/") else {
      throw RecordError(.badRequest, "directory is missing, or no absolute path")
    }
    let folders: [String]
    do throws(StoreError) {
      folders = try FinishedBackup.folders(below: parent)
    } catch {
      throw RecordError(.badRequest, StorageJobs.reason(error))
    }
    let own = InstallationID(signingKey: directory.signingKey).text
    return OperatorAnswer(list: "backups", folders) { folder, writer in
      writer.member("directory", folder)
      do throws(StoreError) {
        let manifest = try FinishedBackup(folder).manifest
        writer.member("startedAt", manifest.startedAt)
        writer.member("createdAt", manifest.createdAt)
        writer.member("shards", manifest.shards.count)
        writer.member("records", manifest.recordCount)
        writer.member("bytes", manifest.byteCount)
        writer.member("isOfThisInstallation", manifest.installation == own)
        BackupManifest.write(manifest.missing, to: &writer)
      } catch {
        writer.member("problem", StorageJobs.reason(error))
      }
    }
  }
}
