// Tests the chaos runs' checker with made-up histories: it accepts correct ones and finds each kind of damage.

import Installations
import Testing

@testable import aquifer_chaos

@Suite struct CheckerTests {
  /// Two clients of a zone with a counter, a device with a store, and a reader of each.
  static let sound: History = {
    func save(_ client: String, _ number: Int, _ database: String, _ changes: [Change], _ tags: [Int64] = []) -> Save {
      Save(client: client, number: number, database: database, changes: changes, tags: tags)
    }
    var history = History()
    history.saves = [
      save("records-9", 1, "zone", [Change(name: "counter", kind: .put(0))], [1]),
      save("records-0", 1, "zone", [Change(name: "a", kind: .put(1)), Change(name: "b", kind: .put(1))], [2, 3]),
      save("records-1", 1, "zone", [Change(name: "counter", kind: .add)], [4]),
      save("records-0", 2, "zone", [Change(name: "counter", kind: .add)], [5]),
      save("records-0", 3, "zone", [Change(name: "a", kind: .put(3))], [6]),
      save("records-0", 4, "zone", [Change(name: "b", kind: .delete)]),
      save("objects-2", 1, "store", [Change(name: "x", kind: .put(1))]),
      save("objects-2", 2, "store", [Change(name: "x", kind: .put(2))]),
    ]
    history.final = ["zone": ["counter": 2, "a": 3], "store": ["x": 2]]
    let zone =
      [("counter", 0, 1), ("a", 1, 2), ("b", 1, 3), ("counter", 2, 5), ("a", 3, 6), ("b", nil, 7)]
      as [(String, Int64?, Int64)]
    history.feeds = [
      Feed(reader: "reader-0", database: "zone", items: zone.map { Item(name: $0.0, value: $0.1, tag: $0.2) }),
      Feed(reader: "reader-1", database: "store", items: [Item(name: "x", value: 1), Item(name: "x", value: 2)]),
    ]
    history.logs = [TransactionLog(client: "objects-2", numbers: [1, 2])]
    return history
  }()

  /// Expects that the damaged history has a fault; further faults may follow from it.
  private func expect(_ fault: Verdict.Fault, in spoil: (inout History) -> Void) {
    var history = Self.sound
    spoil(&history)
    let faults = Checker.verdict(on: history).counts.keys
    #expect(faults.contains(fault))
  }

  private func expect(only fault: Verdict.Fault, in spoil: (inout History) -> Void) {
    var history = Self.sound
    spoil(&history)
    let faults = Set(Checker.verdict(on: history).counts.keys)
    #expect(faults == [fault])
  }

  @Test func `a history in which everything is as it was acknowledged passes`() {
    #expect(Checker.verdict(on: Self.sound).isClean)
  }

  @Test func `an acknowledged save that is not there, or is there as it was before, is lost`() {
    expect(.lost) { $0.final["zone"]?["a"] = nil }
    expect(.lost) { $0.final["zone"]?["a"] = 1 }
    expect(.lost) { $0.final["zone"]?["counter"] = 1 }
    expect(.lost) { $0.final = [:] }
    expect(only: .lost) { $0.logs[0].numbers = [1] }
  }

  @Test func `a counter with more than was acknowledged, and a transaction that is there twice, were applied twice`() {
    expect(.appliedTwice) { $0.final["zone"]?["counter"] = 3 }
    expect(only: .appliedTwice) { $0.logs[0].numbers = [1, 2, 2] }
  }

  @Test func `a deleted or never acknowledged value is unknown`() {
    expect(.unknown) { $0.final["zone"]?["b"] = 1 }
    expect(.unknown) { $0.final["store"]?["y"] = 1 }
    expect(only: .unknown) { $0.logs[0].numbers = [1, 2, 3] }
  }

  @Test func `a tag of two saves, or one that goes back, is found`() {
    expect(only: .tags) { $0.saves[3].tags = [4] }
    expect(only: .tags) { $0.saves[1].tags = [2, 2] }
    expect(only: .tags) { $0.saves[4].tags = [0] }
  }

  @Test func `a feed that tells something older after something newer is out of order`() {
    expect(.order) { $0.feeds[0].items.swapAt(1, 4) }
    expect(.order) { $0.feeds[1].items.swapAt(0, 1) }
    expect(only: .order) { $0.logs[0].numbers = [2, 1] }
  }

  @Test func `a save that a feed tells twice is found`() {
    expect(only: .toldTwice) { $0.feeds[1].items.append(Item(name: "x", value: 2)) }
  }

  @Test func `a reader that missed a change, or a deletion, diverged`() {
    expect(only: .diverged) { $0.feeds[1].items.removeLast() }
    expect(only: .diverged) { $0.feeds[0].items.removeLast() }
  }

  @Test func `a refusal, or a process that ended by itself, is a fault`() {
    expect(only: .refused) { $0.refusals = ["worker-1 ended"] }
  }

  @Test(arguments: [(Planted.loss, Verdict.Fault.lost), (.repetition, .appliedTwice)])
  func `damage that is planted is found`(
    _ planted: Planted, _ fault: Verdict.Fault
  ) {
    expect(fault) { planted.spoil(&$0) }
  }

  @Test func `counts by seed are the same again, and times have their percentiles`() {
    var (one, other) = (SeededRandom(seed: 7, stream: 1), SeededRandom(seed: 7, stream: 1))
    #expect((0..<100).map { _ in one.next() } == (0..<100).map { _ in other.next() })
    let times = Times((1...100).map(Double.init))
    #expect((times.percentile(50), times.percentile(99), times.max) == (51, 100, 100))
    #expect(saveNumber(in: name(client: 3, number: 77, index: 2)) == 77)
  }
}
