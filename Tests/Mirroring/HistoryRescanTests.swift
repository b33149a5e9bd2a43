// Scans of long histories: how much of one is in memory, and how often it is read.

import History
import Testing

@testable import Mirroring

private func transaction(_ changes: [HistoryChange]) -> HistoryTransaction {
  HistoryTransaction(transactionID: "t", timestamp: 0, changes: changes)
}

private func insert(_ name: String) -> HistoryChange {
  HistoryChange(changeType: .insert, entity: "Tag", objectID: name)
}

private func update(_ name: String) -> HistoryChange {
  HistoryChange(changeType: .update, entity: "Tag", objectID: name)
}

/// The length of a transaction with one change of `name` that sets nothing.
private func length(_ name: String) -> Int { transaction([insert(name)]).encoded().count }

/// A history, its transactions numbered from 1 on.
private struct ScannedHistory {
  let transactions: [HistoryTransaction]
  private(set) var readCount = 0
  private(set) var rounds: [HistoryRescan.Round] = []

  init(_ transactions: [HistoryTransaction]) { self.transactions = transactions }

  mutating func scan(objectLimit: Int, byteLimit: Int, hasRecord: (String) -> Bool = { _ in false }) {
    var rescan = HistoryRescan()
    for (index, transaction) in transactions.enumerated() {
      rescan.note(transaction, number: Int64(index + 1), hasRecord: hasRecord)
    }
    while var round = rescan.nextRound(objectLimit: objectLimit, byteLimit: byteLimit) {
      for number in round.spans.joined() {
        readCount += 1
        round.add(transactions[Int(number) - 1])
      }
      rounds.append(round)
    }
  }
}

@Suite struct `Scans of a history` {
  @Test(arguments: [100, 1000, 10_000]) func `objects that are made and forgotten are read once`(count: Int) {
    // Each object is edited soon after it was made.
    func name(_ number: Int) -> String { "T\(10_000 + max(number, 0))" }
    var history = ScannedHistory((0..<count).map { transaction([insert(name($0)), update(name($0 - 3))]) })
    history.scan(objectLimit: 40, byteLimit: 200 * length(name(0)))
    #expect(history.rounds.count >= count / 110 && history.rounds.count <= count / 90 + 1)
    #expect(history.readCount <= count + 5 * history.rounds.count, "\(history.readCount)")
    for round in history.rounds {
      #expect(round.batches.count <= 3)
      #expect(round.batches.joined().reduce(0) { $0 + $1.changes.count } <= 220)
    }
  }

  @Test func `a batch has all changes of its objects in order, wherever they are in the history`() {
    var history = ScannedHistory([
      transaction([insert("A"), insert("B")]), transaction([update("B"), insert("known")]), transaction([insert("C")]),
      transaction([update("A"), update("C")]),
    ])
    history.scan(objectLimit: 2, byteLimit: 1000) { $0 == "known" }
    #expect(history.rounds.count == 1)
    let told = history.rounds[0].batches.map { $0.map { $0.changes.map(\.objectID) } }
    #expect(told == [[["A", "B"], ["B"], ["A"]], [["C"], ["C"]]])
  }

  @Test func `an object whose changes are longer than a round has one of its own`() {
    var history = ScannedHistory([transaction([insert("A")]), transaction([update("A")]), transaction([insert("B")])])
    history.scan(objectLimit: 400, byteLimit: length("A") * 3 / 2)
    #expect(history.rounds.map { $0.batches[0].map { $0.changes[0].objectID } } == [["A", "A"], ["B"]])
  }

  @Test func `an object that is edited all the time does not have the history read again and again`() {
    var history = ScannedHistory(
      [transaction((0..<10).map { insert("long \($0)") })]
        + (0..<10_000).map {
          transaction([$0 % 100 == 0 ? update("long \($0 / 100 % 10)") : insert("T\(10_000 + $0)")])
        })
    history.scan(objectLimit: 400, byteLimit: 500 * length("T10000"))
    #expect(history.rounds.count > 15)
    #expect(history.rounds.flatMap(\.batches).joined().reduce(0) { $0 + $1.changes.count } == 10_010)
    #expect(history.readCount <= 15_000, "\(history.readCount)")
  }

  @Test func `a large object counts with its own length, however many small ones its transactions change`() {
    let photo = NamedValue(name: "data", value: AttributeValue.binary(Array(repeating: 7, count: 10_000)))
    let edits = (0..<100).map { update("known \($0)") }
    var history = ScannedHistory(
      (0..<20).map { number in
        transaction(
          [
            HistoryChange(changeType: .insert, entity: "Photo", objectID: "P\(number)", attributes: [photo])
          ] + edits)
      })
    history.scan(objectLimit: 400, byteLimit: 25_000) { $0.hasPrefix("known") }
    #expect(history.rounds.count == 10)
    for round in history.rounds {
      #expect(round.batches.joined().reduce(0) { $0 + $1.encoded().count } <= 25_000)
    }
  }

  @Test func `the mirroring's own transactions are no changes of a store`() {
    var own = transaction([insert("A")])
    own.author = "NSCloudKitMirroringDelegate.setup"
    var history = ScannedHistory([own, transaction([update("B")])])
    history.scan(objectLimit: 400, byteLimit: 1000)
    #expect(history.rounds.map(\.batches.count) == [1] && history.rounds[0].batches[0].count == 1)
  }
}
