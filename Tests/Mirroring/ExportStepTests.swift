import History
import Mirroring
import MirroringWorld
import Records
import Testing

/// The slices of a transaction, in order.
private func slices(_ transaction: HistoryTransaction, _ limits: ExportLimits = .standard) -> [ArraySlice<ExportStep>] {
  let steps = ExportSteps(transaction)
  var slices: [ArraySlice<ExportStep>] = []
  var start = 0
  while start < steps.steps.count {
    let range = steps.slice(from: start, limits: limits)
    slices.append(steps.steps[range])
    start = range.upperBound
  }
  return slices
}

@Test func `T-H08 ten thousand changes make at least 25 slices, and together what they are in one`() throws {
  let changes = (0..<10_000).map { insert("Post", "p\($0)", ["title": .string("title \($0)")]) }
  let all = transaction(changes)
  let parts = slices(all)
  #expect(parts.count >= 25 && parts.allSatisfy { $0.reduce(0) { $0 + $1.itemCount } <= Limit.exportItemCount })
  let zone = TestZone()
  var exported: [String] = []
  for part in parts.prefix(3) {
    var exporter = zone.exporter(of: "A")
    try exporter.apply(part, of: all)
    exported += exporter.plan().writes.map(\.item.recordName)
  }
  #expect(exported == (0..<1200).map { "p\($0)" })
}

@Test func `T-E01 a slice is bounded by bytes, too, and one step above the limit goes alone`() {
  let changes = (0..<9).map { insert("Post", "p\($0)", ["title": .string(String(repeating: "x", count: 500_000))]) }
  #expect(slices(transaction(changes)).map(\.count) == [3, 3, 3])
  #expect(
    slices(transaction(changes), ExportLimits(itemCount: 400, byteCount: 10)).map(\.count)
      == Array(repeating: 1, count: 9))
  #expect(ExportSteps(transaction(changes)).slice(from: 99, limits: .standard).isEmpty)
}

@Test func `pointers and emptied sets count, so that a slice touches no more records than a batch has items`() {
  let inserts = (0..<10_000).map { insert("Post", "p\($0)", [:], ["author": .toOne("a")]) }
  let emptyings = (0..<2000).map { _ in update("Post", "p", [:], ["tags": .toMany([])]) }
  let replaced = update("Post", "p", [:], ["tags": .toMany((0..<201).map { "t\($0)" })])
  for changes in [inserts, emptyings, Array(repeating: replaced, count: 10)] {
    for slice in slices(transaction(changes)) {
      #expect(slice.count <= Limit.exportItemCount && slice.allSatisfy { $0.itemCount > 0 })
      #expect(slice.reduce(0) { $0 + $1.itemCount } <= Limit.exportItemCount)
    }
  }
}

@Test func `a place among the steps, as stores keep it, does not depend on their estimates`() {
  let changes = [
    insert("Post", "p", [:], ["author": .toOne("a"), "tags": .toMany([])]),
    update("Post", "p", [:], ["tags": .toMany((0..<201).map { "t\($0)" })]), delete("Post", "q"),
  ]
  let steps = ExportSteps(transaction(changes)).steps
  #expect(steps.map(\.change) == [0, 1, 2, 0, 0, 1, 1, 1])
  #expect(
    steps.suffix(5).map(\.work) == [
      .relationship(0, .whole), .relationship(1, .whole), .relationship(0, .removals),
      .relationship(0, .adding(0..<200)), .relationship(0, .adding(200..<201)),
    ])
}

@Test(arguments: [1, 2, 3, 7, 50]) func `in slices of any length a graph ends as it does in one piece`(_ itemCount: Int)
  throws
{
  let names = (0..<450).map { "t\($0)" }
  let first = transaction(
    [
      insert("Post", "p", ["title": .string("1")], ["tags": .toMany(names)]),
      insert("Post", "gone", ["title": .string("x")], ["tags": .toMany(["t1"])]),
    ]
      + names.map { insert("Tag", $0) })
  let second = transaction(
    [
      update("Post", "p", ["title": .string("2")], ["tags": .toMany(Array(names.suffix(300)) + ["new"])]),
      delete("Post", "gone"), insert("Tag", "new"),
      update("Tag", "t3", [:], ["posts": .toManyDelta(add: ["p"], remove: [])]), delete("Tag", "t449"),
      insert("Post", "gone", ["title": .string("again")]),
    ])
  func graph(_ zone: TestZone) -> [String] {
    zone.live.map { record in
      record.recordType == ReservedName.linkRecordType
        ? "link \(record.fields.string(ReservedName.linkRecordNames) ?? "")" : "\(record.recordName) \(record.fields)"
    }.sorted()
  }
  let (whole, sliced) = (TestZone(), TestZone())
  for saved in [first, second] {
    try whole.export([saved])
    for part in slices(saved, ExportLimits(itemCount: itemCount, byteCount: .max)) {
      try sliced.export(part, of: saved)
    }
  }
  #expect(graph(sliced) == graph(whole))
}

@Test(arguments: [nil, ReservedName.mirroringAuthorPrefix + "import"])
func `a slice ends before the first step that is not wanted`(author: String?) throws {
  let zone = TestZone()
  let names = (0..<9).map { "p\($0)" }
  try zone.export([transaction(names.map { insert("Post", $0) })])
  var removed = transaction(names.map { delete("Post", $0) })
  removed.author = author
  var exporter = zone.exporter(of: "A")
  var askedCount = 0
  try exporter.apply(ExportSteps(removed).steps[...], of: removed) {
    askedCount += 1
    return askedCount <= 4
  }
  #expect(askedCount == 5)
  if author == nil { #expect(exporter.plan().writes.map(\.item.recordName).sorted() == ["p0", "p1", "p2", "p3"]) }
}

@Test func `T-E11 a pause lasts exactly as long as asked for, or a little longer, never shorter`() {
  for jitter: UInt64 in [0, 1, 2999, .max] {
    var pacing = ExportPacing()
    #expect((31_000...34_000).contains(pacing.fail(retryAfter: 30, at: 1000, jitter: jitter)))
  }
  var pacing = ExportPacing()
  let delays = (0..<11).map { _ in pacing.fail(retryAfter: nil, at: 0, jitter: 0) / 1000 }
  #expect(delays == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300])
}

@Test func `held back changes become fewer, and say the same`() throws {
  let changes = [
    insert("Post", "p", ["title": .string("1"), "content": .string("c")], ["tags": .toMany(["a"])]),
    update("Post", "p", ["title": .string("2")]),
    update("Post", "p", [:], ["tags": .toManyDelta(add: ["b"], remove: [])]),
    update("Post", "p", ["title": .string("3")]), delete("Post", "p"),
    insert("Post", "p", ["title": .string("4")]),
  ]
  let compacted = HeldChanges.compacted(changes)
  #expect(compacted == [delete("Post", "p"), insert("Post", "p", ["title": .string("4")])])
  let merged = insert("Post", "p", ["title": .string("3"), "content": .string("c")], ["tags": .toMany(["a", "b"])])
  #expect(HeldChanges.compacted(Array(changes.prefix(4))) == [merged])
  let deltas = (0..<100).map {
    update("Post", "p", [:], ["tags": .toManyDelta(add: ["t\($0 % 3)"], remove: ["t\(($0 + 1) % 3)"])])
  }
  #expect(
    HeldChanges.compacted(deltas) == [
      update("Post", "p", [:], ["tags": .toManyDelta(add: ["t2", "t0"], remove: ["t1"])])
    ])
}

@Test func `a change that goes through overtakes those left out before, and nothing older comes after it`() throws {
  let zone = TestZone()
  try zone.save(insert("Tag", "t"), insert("Post", "p"), insert("Post", "q"))
  let wrong = zone.rows.count
  let plan = try zone.export([
    transaction([update("Post", "p", [:], ["tags": .toManyDelta(add: ["q", "t"], remove: [])])]),
    transaction([update("Post", "p", [:], ["tags": .toManyDelta(add: [], remove: ["q"])])]),
  ])
  #expect(plan.leftOut.isEmpty && zone.rows.count == wrong + 1, "the wrong target was taken back")
  let whole = try zone.export([
    transaction([update("Post", "p", [:], ["tags": .toManyDelta(add: ["q"], remove: [])])]),
    transaction([update("Post", "p", [:], ["tags": .toMany(["t"])])]),
  ])
  #expect(whole.leftOut.isEmpty)
  let kept = try zone.export([
    transaction([update("Post", "p", [:], ["tags": .toManyDelta(add: ["q"], remove: [])])]),
    transaction([update("Post", "p", ["title": .string("x")])]),
  ])
  #expect(kept.leftOut.map(\.change) == [update("Post", "p", [:], ["tags": .toManyDelta(add: ["q"], remove: [])])])
}
