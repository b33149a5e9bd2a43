// Makes the answers of a guest to its home, and reads those of guests of earlier releases.

import JSON
import Mirroring
import ObjectPlane
import Records
import ServiceBus
import ServiceKit
import WebServices

extension GuestPage {
  init(_ batch: WrittenImportBatch, _ page: ImportedPage, hasKept: Bool) {
    self.init(
      changes: batch.changes, changeCount: batch.changeCount, deletedCount: page.deletedCount,
      quarantined: batch.quarantined.map(ForwardOutcome.Problem.init), importToken: batch.importToken,
      moreComing: batch.moreComing, isResetDone: batch.state.reset?.isDone != false, done: batch.state.done,
      total: batch.state.total, hasKept: hasKept)
  }
}

extension GuestStatus {
  init(_ status: StoreStatus) {
    self.init(
      downloads: status.pending.downloads, quarantined: status.pending.quarantined,
      notImported: status.pending.notImported, isCaughtUp: status.caughtUp)
  }
}

// MARK: Earlier releases

extension GuestPage: ProcessAnswer {
  init(earlier json: JSONValue) throws(RecordError) {
    guard let importToken = json["importToken"]?.string else { throw AnswerForm.unreadable }
    let changes = json["changes"]?.elements ?? []
    self.init(
      changes: Array(changes.map(\.written).joined(separator: [UInt8(ascii: ",")])), changeCount: changes.count,
      deletedCount: changes.count { ["delete", "unlink", "zone"].contains($0["changeType"]?.string) },
      quarantined: (json["quarantined"]?.elements ?? []).map { entry in
        ForwardOutcome.Problem(
          MirroringProblem(
            recordName: entry["objectID"]?.string ?? "", entity: entry["entity"]?.string ?? "",
            code: (entry["serverErrorCode"]?.string).flatMap(ServerErrorCode.init(rawValue:)) ?? .internalError,
            cocoaErrorCode: (entry["cocoaErrorCode"]?.int64).flatMap { CocoaErrorCode(rawValue: Int($0)) },
            reason: entry["reason"]?.string ?? ""))
      },
      importToken: importToken, moreComing: json["moreComing"]?.bool == true,
      isResetDone: json["reset"]?["done"]?.bool != false, done: json["progress"]?["done"]?.int64 ?? 0,
      total: json["progress"]?["total"]?.int64 ?? 0, hasKept: json["hasKept"]?.bool == true)
  }
}

extension GuestStatus: ProcessAnswer {
  init(earlier json: JSONValue) {
    func figure(_ name: String) -> Int { json["pending"]?[name]?.int64.flatMap(Int.init(exactly:)) ?? 0 }
    self.init(
      downloads: figure("downloads"), quarantined: figure("quarantined"), notImported: figure("notImported"),
      isCaughtUp: json["caughtUp"]?.bool == true)
  }
}

extension RetriedCount: ProcessAnswer {
  init(earlier json: JSONValue) { retried = json["retried"]?.int64.flatMap(Int.init(exactly:)) ?? 0 }
}
