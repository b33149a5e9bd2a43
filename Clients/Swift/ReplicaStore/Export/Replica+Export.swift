// Batches of saves for the server, and what its answers do.

import FoundationEssentials
package import MirrorWire
import SQLite

extension Replica {
  package func nextBatch(transactionLimit: Int, byteLimit: Int) async throws(StoreError) -> ExportBatch? {
    try await writeBehindZones { writer, _ in
      try Outbox(writer).nextBatch(transactionLimit: transactionLimit, byteLimit: byteLimit)
    }.value
  }

  package func acknowledge(_ batch: ExportBatch, historyToken: String) async throws(StoreError) {
    if !batch.checksums.isEmpty { try await readWaitingSaves() }
    try await write { writer, outcome in
      try Outbox(writer).acknowledge(batch)
      var position = writer.position
      position.serverHistoryToken = historyToken
      outcome.position = position
    }
  }

  /// The commits before one that asks what waiting saves name: the app saves between them.
  private func readWaitingSaves() async throws(StoreError) {
    while try await write({ writer, outcome in
      outcome.changesFigures = false
      return try WaitingSaves(writer.connection).readNext()
    }) {}
  }

  package func sendAgain() async throws(StoreError) {
    // None of the zones' objects names a position of the server's former life.
    _ = try await writeBehindZones { writer, outcome in
      try ExportedSaves(writer).sendAgain()
      var position = writer.position
      position.isTokenRefused = true
      position.restoreCount = (position.restoreCount ?? 0) + 1
      outcome.position = position
      outcome.hasExports = true
    }
  }

  package func refuse(_ batch: ExportBatch, at index: Int?, error: ServerError) async throws(StoreError) -> [Rejected] {
    try await write { writer, _ in
      let outbox = Outbox(writer)
      if batch.transactions.count == 1 { return try outbox.reject(batch, error) }
      try outbox.halve(batch, at: index)
      return []
    }
  }
}
