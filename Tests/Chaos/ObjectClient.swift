// A client of the object plane: a device that saves transactions into its store.

import Installations
import JSON

/// Saves until the ledger says that it is over.
actor ObjectClient {
  private let population: Population
  private let database: Database
  private let ledger: Ledger
  private let index: Int
  private let waitPercent: Int
  private var random: SeededRandom
  private var number = 0
  private var own: [String] = []

  private static let ownLimit = 400

  /// - Parameter waitPercent: the percentage of saves that wait for their export.
  init(_ population: Population, _ database: Database, index: Int, seed: UInt64, waitPercent: Int, ledger: Ledger) {
    self.waitPercent = waitPercent
    self.population = population
    self.database = database
    self.ledger = ledger
    self.index = index
    random = SeededRandom(seed: seed, stream: index)
  }

  nonisolated var client: String { "objects-\(index)" }
  nonisolated private var store: String { name(client: index, number: 0) }

  func run() async {
    do {
      try await population.makeStore(store, of: database)
      while !ledger.isOver { try await step() }
    } catch {
      ledger.refused("\(error)")
    }
  }

  private func step() async throws {
    number += 1
    let value = Int64(number)
    let dice = Int.random(in: 0..<100, using: &random)
    if own.count > Self.ownLimit || dice >= 85, !own.isEmpty {
      let victim = own.remove(at: Int.random(in: own.indices, using: &random))
      try await save("delete", [Change(name: victim, kind: .delete)])
    } else if dice >= 60, let object = own.randomElement(using: &random) {
      try await save("update", [Change(name: object, kind: .put(value))])
    } else {
      let names = (0..<(dice < 12 ? Int.random(in: 2...20, using: &random) : 1)).map {
        name(client: index, number: number, index: $0)
      }
      if try await save("insert", names.map { Change(name: $0, kind: .put(value)) }) { own += names }
    }
  }

  /// - Returns: true when the save was acknowledged.
  @discardableResult
  private func save(_ changeType: String, _ changes: [Change]) async throws -> Bool {
    let start = monotonicNanoseconds()
    let body = object {
      $0.key("transactions")
      $0.beginArray()
      $0.beginObject()
      $0.member("transactionID", name(client: index, number: number))
      $0.member("timestamp", "2026-11-20T07:33:24.123Z")
      $0.member("author", "chaos")
      $0.key("changes")
      $0.beginArray()
      for change in changes { write(changeType, change, to: &$0) }
      $0.endArray()
      $0.endObject()
      $0.endArray()
    }
    let wait = random.chance(waitPercent) ? "?wait=export" : ""
    let answer = try await population.calls.send(
      "POST", population.storePath(store) + "/transactions" + wait, bearer: database.webAuthToken, body: body,
      preferred: index)
    guard answer.status == 200 else {
      ledger.refused(
        """
        \(database.name): transaction \(index)-\(number) is answered \(answer.status): \
        \(answer.json["reason"]?.string ?? "")
        """
      )
      return false
    }
    ledger.acknowledged(
      Save(
        client: client, number: number, database: database.name, changes: changes, started: start,
        ended: monotonicNanoseconds(),
        attemptCount: answer.attemptCount))
    return true
  }

  private func write(_ changeType: String, _ change: Change, to writer: inout JSONWriter) {
    writer.beginObject()
    writer.member("changeType", changeType)
    writer.member("entity", "Item")
    writer.member("objectID", change.name)
    if case .put(let value) = change.kind {
      writer.key("attributes")
      writer.beginObject()
      writer.member("value", value)
      writer.endObject()
    }
    writer.endObject()
  }

  /// The history of the client's store, page by page.
  func log() async throws -> TransactionLog {
    var log = TransactionLog(client: client, numbers: [])
    var token: String?
    while true {
      let query = token.map { "&after=" + percentEncoded($0) } ?? ""
      let page = try await population.calls.get(
        "GET", population.storePath(store) + "/history?limit=200" + query, bearer: database.webAuthToken,
        preferred: index)
      for transaction in page["transactions"]?.elements ?? [] {
        if let id = transaction["transactionID"]?.string, let number = saveNumber(in: id) { log.numbers.append(number) }
      }
      token = page["historyToken"]?.string
      guard page["moreComing"]?.bool == true else { return log }
    }
  }
}
