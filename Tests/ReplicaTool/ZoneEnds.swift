// A zone that ends again and again, whose objects are sent again each time: the process that does it is killed.

import MirrorWire
import ReplicaStore

/// A piece of work is a page that brings two objects and tells the end of their zone, and then the sending of all
/// objects. The server is a file beside the store, a line for each object: the number of the end, the transaction, the
/// object.
struct ZoneEnds {
  let store: String
  let ledger: String

  /// - Parameter count: pieces of work; nil: until somebody ends the process.
  func run(count: Int?) async throws {
    let model = Endless.model(1)
    let replica = try await Replica.open(
      Endless.configuration(store), ManagedObjectModel(hash: model.hash, entities: model.entities))
    let work = Endless(store: store, ledger: ledger)
    let (ledger, server) = (Ledger(ledger), Ledger("\(store)-server", isSynced: true))
    let last = try await work.largest(in: replica)
    // What the former process did not bring to an end.
    try await send(replica, last, to: server)
    var number = last + 1
    while count.map({ number <= last + $0 }) ?? true {
      var page = work.page(number)
      page.changes.append(
        .zone(EndedZone(zoneID: ZoneID(zoneName: "z"), reason: "deleted", action: .reupload)))
      try await replica.apply(page, event: nil)
      try await send(replica, number, to: server)
      ledger.write("\(number)\n")
      number += 1
    }
    await replica.close()
  }

  private func send(_ replica: Replica, _ number: Int, to server: Ledger) async throws {
    while let batch = try await replica.nextBatch(transactionLimit: 1, byteLimit: 1 << 20) {
      for body in batch.transactions {
        let transaction = try Transaction(json: body)
        for change in transaction.changes {
          server.write("\(number) \(transaction.transactionID) \(change.objectID)\n")
        }
      }
      try await replica.acknowledge(batch, historyToken: "\(number)")
    }
  }
}
