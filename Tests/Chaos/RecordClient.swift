// A client of the record plane: creates, updates, counts and deletes in its zone, one save after the other.

import Installations
import JSON

/// Saves until the ledger says that the run is over.
actor RecordClient {
  private struct Own {
    let name: String
    var tag: String
  }

  private let population: Population
  private let database: Database
  private let ledger: Ledger
  private let index: Int
  private var random: SeededRandom
  private var number = 0
  /// Records that this client created and did not delete.
  private var own: [Own] = []
  /// The last known value and tag of each counter.
  private var known: [String: (value: Int64, tag: String)] = [:]

  private static let ownLimit = 400

  init(_ population: Population, _ database: Database, index: Int, seed: UInt64, ledger: Ledger) {
    self.population = population
    self.database = database
    self.ledger = ledger
    self.index = index
    random = SeededRandom(seed: seed, stream: index)
  }

  func run() async {
    do {
      while !ledger.isOver { try await step() }
    } catch {
      ledger.refused("\(error)")
    }
  }

  func makeCounters(_ names: [String]) async throws {
    number += 1
    try await save(
      names.map { Operation(kind: "create", name: $0, tag: nil, value: 0) },
      names.map { Change(name: $0, kind: .put(0)) })
  }

  private func step() async throws {
    number += 1
    let dice = Int.random(in: 0..<100, using: &random)
    if own.count > Self.ownLimit || dice >= 90, !own.isEmpty {
      let victim = own.remove(at: Int.random(in: own.indices, using: &random))
      try await save(
        [Operation(kind: "delete", name: victim.name, tag: victim.tag)], [Change(name: victim.name, kind: .delete)])
    } else if dice >= 75 {
      try await count()
    } else if dice >= 50, !own.isEmpty {
      let place = Int.random(in: own.indices, using: &random)
      let operation = Operation(kind: "update", name: own[place].name, tag: own[place].tag, value: Int64(number))
      if let tag = try await save([operation], [Change(name: operation.name, kind: .put(Int64(number)))])?.first {
        own[place].tag = tag
      }
    } else {
      let names = (0..<(dice < 10 ? Int.random(in: 2...20, using: &random) : 1)).map {
        name(client: index, number: number, index: $0)
      }
      let operations = names.map { Operation(kind: "create", name: $0, tag: nil, value: Int64(number)) }
      let tags = try await save(operations, names.map { Change(name: $0, kind: .put(Int64(number))) })
      for (name, tag) in zip(names, tags ?? []) { own.append(Own(name: name, tag: tag)) }
    }
  }

  // MARK: Requests

  private struct Operation {
    let kind: String
    let name: String
    let tag: String?
    var value: Int64?
  }

  /// Sends one request until it is acknowledged or refused for good, and notes the outcome.
  /// - Returns: the new tags in the operations' order; nil when it was refused.
  @discardableResult
  private func save(_ operations: [Operation], _ changes: [Change]) async throws -> [String]? {
    let start = monotonicNanoseconds()
    let answer = try await modify(operations, requestID: "chaos-\(index)-\(number)")
    let records = answer.json["records"]?.elements ?? []
    if let problem = Self.problem(answer, operations.count) {
      ledger.refused("\(database.name): save \(index)-\(number) was refused: \(problem)")
      return nil
    }
    acknowledged(changes, records, start, answer.attemptCount)
    return records.map { $0["recordChangeTag"]?.string ?? "" }
  }

  private func acknowledged(_ changes: [Change], _ records: [JSONValue], _ start: UInt64, _ attemptCount: Int) {
    let tags = records.compactMap { $0["recordChangeTag"]?.string.flatMap { Int64($0, radix: 36) } }
    ledger.acknowledged(
      Save(
        client: "records-\(index)", number: number, database: database.name, changes: changes, tags: tags,
        started: start, ended: monotonicNanoseconds(),
        attemptCount: attemptCount))
  }

  /// Increments a shared counter from its last known value; on a conflict it tries again from the present one.
  private func count() async throws {
    let counter = Population.counters[Int.random(in: Population.counters.indices, using: &random)]
    var attemptCount = 0
    let start = monotonicNanoseconds()
    while true {
      attemptCount += 1
      let before = if let value = known[counter] { value } else { try await lookUp(counter) }
      let operation = Operation(kind: "update", name: counter, tag: before.tag, value: before.value + 1)
      let answer = try await modify([operation], requestID: "chaos-\(index)-\(number)-\(attemptCount)")
      let record = answer.json["records"]?.elements.first
      if record?["serverErrorCode"]?.string == "CONFLICT" {
        known[counter] = nil
        continue
      }
      guard Self.problem(answer, 1) == nil, let record, let tag = record["recordChangeTag"]?.string else {
        ledger.refused("\(database.name): counting \(counter) was refused: \(Self.problem(answer, 1) ?? "no tag")")
        return
      }
      known[counter] = (before.value + 1, tag)
      acknowledged([Change(name: counter, kind: .add)], [record], start, answer.attemptCount)
      return
    }
  }

  private func lookUp(_ name: String) async throws -> (value: Int64, tag: String) {
    let body = object {
      zone(&$0)
      $0.key("records")
      $0.beginArray()
      $0.beginObject()
      $0.member("recordName", name)
      $0.endObject()
      $0.endArray()
    }
    let answer = try await population.calls.get(
      "POST", population.recordPath("records/lookup", of: database), body: body, preferred: index, isLater: Self.isLater
    )
    guard let record = answer["records"]?.elements.first, let tag = record["recordChangeTag"]?.string,
      let value = record["fields"]?["value"]?["value"]?.int64
    else { throw RunError("\(database.name): \(name) can't be looked up") }
    return (value, tag)
  }

  private func modify(_ operations: [Operation], requestID: String) async throws -> Calls.Answer {
    let body = object {
      zone(&$0)
      $0.member("atomic", true)
      $0.key("operations")
      $0.beginArray()
      for operation in operations { write(operation, to: &$0) }
      $0.endArray()
    }
    return try await population.calls.send(
      "POST", population.recordPath("records/modify", of: database), requestID: requestID, body: body, preferred: index,
      isLater: Self.isLater)
  }

  private func zone(_ writer: inout JSONWriter) {
    guard case .records(let zoneName) = database.plane else {
      preconditionFailure("\(database.name) is of the object plane")
    }
    writer.key("zoneID")
    writer.beginObject()
    writer.member("zoneName", zoneName)
    writer.endObject()
  }

  private func write(_ operation: Operation, to writer: inout JSONWriter) {
    writer.beginObject()
    writer.member("operationType", operation.kind)
    writer.key("record")
    writer.beginObject()
    writer.member("recordName", operation.name)
    if let tag = operation.tag { writer.member("recordChangeTag", tag) }
    if let value = operation.value {
      writer.member("recordType", "Item")
      writer.key("fields")
      writer.beginObject()
      writer.key("value")
      writer.beginObject()
      writer.member("value", value)
      writer.member("type", "INT64")
      writer.endObject()
      writer.endObject()
    }
    writer.endObject()
    writer.endObject()
  }

  private static func isLater(_ json: JSONValue) -> Bool {
    json["records"]?.elements.contains { $0["serverErrorCode"]?.string == "TRY_AGAIN_LATER" } ?? false
  }

  /// The reason why an answer refuses; nil when it acknowledges every operation.
  private static func problem(_ answer: Calls.Answer, _ count: Int) -> String? {
    guard answer.status == 200 else {
      return
        """
        status \(answer.status), \(answer.json["serverErrorCode"]?.string ?? "") \(answer.json["reason"]?.string ?? "")
        """
    }
    let records = answer.json["records"]?.elements ?? []
    if let refused = records.first(where: { $0["serverErrorCode"] != nil }) {
      return "\(refused["serverErrorCode"]?.string ?? "") \(refused["reason"]?.string ?? "")"
    }
    return records.count == count ? nil : "\(records.count) answers for \(count) operations"
  }
}
