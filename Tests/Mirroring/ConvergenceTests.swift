// Devices and a server that exchange pages: changes arrive out of order, twice, or after their own deletion.

import Convergence
import History
import Mirroring
import MirroringWorld
import ObjectModel
import Records
import Sanitizers
import Testing

/// The runs are split, so that they run in parallel. `convergence-runs` has more, with a release's speed.
private let chunkCount = 50
private let runCount = 200

@Test(arguments: Sanitizer.few(2, of: 0..<runCount / chunkCount))
func `T-O06 T-C14 devices that edit at random converge to the oracle, whatever the order and size of pages`(
  _ chunk: Int
) throws {
  for seed in chunk * chunkCount..<(chunk + 1) * chunkCount {
    for failure in try ConvergenceRun.failures(ofSeed: seed) { Issue.record("seed \(seed): \(failure)") }
  }
}

@Test(arguments: ConvergenceRun.knownSeeds) func `T-O06 runs that failed once converge`(_ seed: Int) throws {
  #expect(try ConvergenceRun.failures(ofSeed: seed) == [])
}

@Test func `a run's oracle sees a device that missed a change`() throws {
  var blind = 0
  for seed in 0..<20 where try ConvergenceRun.failures(ofSeed: seed, losesLastPage: true).isEmpty { blind += 1 }
  #expect(blind < 10, "\(blind) of 20 runs noticed nothing")
}

@Test(arguments: Sanitizer.few(6, of: 0..<30)) func `one run over many transactions writes what as many runs write`(
  _ seed: Int
) throws {
  var editor = Editor(seed: seed + 1000)
  let together = TestZone()
  let apart = TestZone()
  var graph = Graph()
  var transactions: [HistoryTransaction] = []
  for _ in 0..<30 {
    let transaction = editor.transaction(on: graph, store: "A")
    graph.apply(transaction)
    transactions.append(transaction)
    try apart.export([transaction])
  }
  try together.export(transactions)
  var pictures: [Graph.Picture] = []
  for zone in [together, apart] {
    let client = TestClient("reader", zone)
    try client.importPage()
    pictures.append(client.graph.picture)
  }
  #expect(pictures[0].differences(from: pictures[1]).isEmpty, "seed \(seed)")
  #expect(pictures[0].differences(from: graph.picture).isEmpty, "seed \(seed)")
  #expect(together.sequence <= apart.sequence)
}

@Test func `T-O01 T-O02 T-I04 a child before its parent and a link before its ends are set when they arrive`() throws {
  let zone = TestZone()
  let changes: [HistoryChange] = [
    insert("Post", "p", [:], ["tags": .toMany(["t"]), "cover": .toOne("c")]), insert("Tag", "t"), insert("Cover", "c"),
    insert("Attachment", "a", [:], ["post": .toOne("p")]),
  ]
  try zone.export([transaction(changes)])
  let rows = zone.feed(after: 0, for: "")
  for first in rows.indices {
    for rotation in rows.indices {
      let client = TestClient("B", zone)
      try client.importPage { page in
        page.swapAt(0, first)
        page = Array(page[rotation...] + page[..<rotation])
      }
      #expect(client.graph.objects.count == 4)
      #expect(client.graph.picture.pointers.count == 3, "a→p, p→c, c→p")
      #expect(client.graph.picture.links.count == 1)
    }
  }
}

@Test func `T-O04 T-I05 tombstones of what a device never saw change nothing`() throws {
  let zone = TestZone()
  try zone.save(insert("Post", "p", [:], ["tags": .toMany(["t"])]), insert("Tag", "t"))
  try zone.save(update("Post", "p", [:], ["tags": .toMany([])]))
  try zone.save(delete("Tag", "t"))
  let client = TestClient("B", zone)
  try client.importPage()
  #expect(client.graph.objects.keys.sorted() == ["p"])
  #expect(client.graph.links.isEmpty)
}

@Test func `T-C01 devices that edit different fields of an object keep both, also the one that exported first`() throws
{
  let zone = TestZone()
  let (a, b) = (TestClient("A", zone), TestClient("B", zone))
  try a.save(transaction([insert("Post", "p", ["title": .string("t"), "content": .string("c")])]))
  try a.export()
  try b.importPage()
  try a.save(transaction([update("Post", "p", ["title": .string("A's")])]))
  try b.save(transaction([update("Post", "p", ["content": .string("B's")])]))
  try b.export()
  try a.export()
  try a.importPage()
  try b.importPage()
  for client in [a, b] {
    #expect(client.graph.objects["p"]?.attributes["title"] == .string("A's"))
    #expect(client.graph.objects["p"]?.attributes["content"] == .string("B's"))
  }
}

@Test func `a child that is moved to a parent somebody deleted keeps its old one, on the device that moved it, too`()
  throws
{
  let zone = TestZone()
  let (a, b) = (TestClient("A", zone), TestClient("B", zone))
  try a.save(
    transaction([
      insert("Post", "old", [:], ["cover": .toOne("c")]), insert("Post", "gone"),
      insert("Attachment", "x", [:], ["post": .toOne("old")]), insert("Cover", "c"),
    ]))
  try a.export()
  try b.importPage()
  try a.save(transaction([delete("Post", "gone")]))
  try a.export()
  try b.save(transaction([update("Post", "gone", [:], ["attachments": .toMany(["x"]), "cover": .toOne("c")])]))
  let plan = try b.exportPlan().plan
  #expect(plan.writes.map(\.isServersOwn) == [true, true, true], "the child, the cover, and the post that has it")
  let sequence = zone.sequence
  for client in [a, b] {
    try client.importPage()
    #expect(client.graph.picture.pointers[Graph.Pointer(owner: "x", relationship: "post")] == "old", "\(client.store)")
    #expect(client.graph.picture.pointers[Graph.Pointer(owner: "old", relationship: "cover")] == "c", "\(client.store)")
    #expect(client.graph.picture.pointers[Graph.Pointer(owner: "c", relationship: "post")] == "old", "\(client.store)")
  }
  try b.export()
  #expect(try b.importPage() == 0)
  #expect(zone.sequence == sequence)
}

@Test(arguments: Sanitizer.few(2, of: 0..<runCount / chunkCount))
func `T-O06 T-P02 devices that edit while objects move between zones converge, with every object in one zone`(
  _ chunk: Int
) throws {
  for seed in chunk * chunkCount..<(chunk + 1) * chunkCount {
    let zones = seed % 2 == 0 ? ["home", "Trips"] : ["home", "Trips", "Work"]
    for failure in try ConvergenceRun.failures(ofSeed: seed, zones: zones) { Issue.record("seed \(seed): \(failure)") }
  }
}
