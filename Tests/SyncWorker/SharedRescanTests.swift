// Scans and exports of a shared store's home, which has a history and no objects.

import History
import JSON
import RecordStore
import Records
import ServiceBus
import ServiceKit
import Testing

@testable import ObjectPlane
@testable import SharedStores
@testable import WorkerHost
@testable import ZoneCommit

@Suite struct `The scan of a shared store's history` {
  @Test func `ends at once in the home, which has no objects`() async throws {
    try await SharedWorld.withTrip { world in
      let insert = HistoryChange(changeType: .insert, entity: "Tag", objectID: "T")
      // As if the worker had died before it forwarded a save.
      try await world.store(of: "_bob").enqueue { transaction in
        let database = try #require(try transaction.database(SharedWorld.database("_bob")))
        let mirror = try #require(try transaction.mirror("S", in: database.key))
        try transaction.append(
          StoredTransaction(
            number: mirror.lastTransactionNumber + 1, transactionID: "t", author: nil, appendedAt: 0,
            payload: HistoryTransaction(transactionID: "t", timestamp: 0, changes: [insert]).encoded()), to: mirror.key)
      }.value
      let request = DatabaseRequest(
        plane: .object, method: "POST", path: ["stores", "S", "reset"], query: [:],
        database: SharedWorld.database("_bob"), scope: .shared, caller: Caller(userRecordName: "_bob"),
        requestID: world.random.uuid(), baseURL: "https://host")
      let call = StoreCall(
        request: request, body: [], storeIdentifier: "S", user: "_bob", store: try world.store(of: "_bob"),
        plane: world.plane.objects)
      try await call.rescanHistory()
      let mirror = try await call.locate()
      try #require(mirror.exportedTransactionNumber < mirror.lastTransactionNumber)
      let error = try #require(
        await #expect(throws: RecordError.self) { try await call.exportEverything(of: mirror) })
      #expect(error.code == .tryAgainLater)
    }
  }
}
