// A named reader of history beside the saves that it reads of; the process that does both is killed.

import AquiferClient
import FoundationEssentials

/// A ledger for the saves, and one beside the store with the numbers of the transactions that the reader was told: a
/// process may die before a line of it.
struct HistoryReader {
  let store: String
  let ledger: String

  /// - Parameter count: pieces of work, each with two transactions and a page for each; nil: until somebody ends the
  ///   process.
  func run(count: Int?) async throws {
    let container = try await PersistentContainer(.measured, stores: [StoreDescription(path: store)])
    let (saves, told) = (Ledger(ledger), Ledger("\(store)-told", isSynced: true))
    var request = HistoryRequest()
    request.limit = 1
    let first = (try await container.fetch(Photo.all.sorted(\.size.descending).prefix(1)).first?.size ?? 0) + 1
    var number = first
    while count.map({ number < first + Int64($0) }) ?? true {
      try await container.save { [number] save in
        for half in ["a", "b"] { try save.insert(Photo(displayName: half, size: number)) }
      }
      try await container.save { [number] save in
        try save.updateAll(Photo.filter { $0.size == number }) { $0.uniqueName = "\(number)" }
      }
      try await container.consume("reader", request) { page in
        for transaction in page.transactions { told.write("\(transaction.transactionNumber)\n") }
      }
      saves.write("\(number)\n")
      number += 1
    }
    await container.close()
  }
}
