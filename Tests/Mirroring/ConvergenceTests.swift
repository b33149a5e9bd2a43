// Export and import together: whatever devices do, and in whatever order pages arrive, their graphs end equal to the oracle's.

import History
import Mirroring
import MirroringWorld
import ObjectModel
import Records
import Testing

/// Makes transactions of random edits of a graph.
private struct Editor {
  var generator: SeededGenerator
  private var counter = 0

  init(seed: Int) { generator = SeededGenerator(seed: seed) }

  private static let entities = ["Post", "Attachment", "Cover", "Tag", "Person", "Photo", "Picture"]

  private mutating func pick<C: RandomAccessCollection>(_ choices: C) -> C.Element? { choices.randomElement(using: &generator) }

  mutating func transaction(on graph: Graph, store: String) -> HistoryTransaction {
    var draft = graph
    var changes: [HistoryChange] = []
    for _ in 0..<Int.random(in: 1...4, using: &generator) {
      guard let change = change(on: draft, store: store) else { continue }
      changes.append(change)
      draft.apply(HistoryTransaction(transactionID: "", timestamp: 0, changes: [change]))
    }
    counter += 1
    return HistoryTransaction(transactionID: "\(store)\(counter)", timestamp: 0, changes: changes)
  }

  private mutating func change(on graph: Graph, store: String) -> HistoryChange? {
    let roll = Int.random(in: 0..<10, using: &generator)
    if roll < 3 || graph.objects.count < 3 {
      counter += 1
      guard let entity = pick(Self.entities) else { return nil }
      let id = "\(store)-\(entity)-\(counter)"
      return HistoryChange(changeType: .insert, entity: entity, objectID: id, attributes: attributes(entity), relationships: relationships(entity, on: graph))
    }
    guard let id = pick(graph.objects.keys.sorted()), let entity = graph.objects[id]?.entity else { return nil }
    if roll < 5 { return HistoryChange(changeType: .delete, entity: entity, objectID: id) }
    return HistoryChange(changeType: .update, entity: entity, objectID: id, attributes: attributes(entity), relationships: relationships(entity, on: graph))
  }

  private mutating func attributes(_ entity: String) -> [NamedValue<AttributeValue>] {
    let name = ["Post": "title", "Attachment": "name", "Cover": "data", "Tag": "name", "Person": "name", "Photo": "caption", "Picture": "frame"][entity]
    guard let name, Bool.random(using: &generator) else { return [] }
    let number = Int.random(in: 0..<1000, using: &generator)
    let value: AttributeValue = number < 100 ? .null : entity == "Cover" ? .binary([UInt8(number % 256)]) : .string("\(number)")
    return [NamedValue(name: name, value: value)]
  }

  private mutating func relationships(_ entity: String, on graph: Graph) -> [NamedValue<RelationshipValue>] {
    var values: [NamedValue<RelationshipValue>] = []
    for relationship in Graph.relationships(of: entity).sorted(by: { $0.name < $1.name }) where Int.random(in: 0..<3, using: &generator) == 0 {
      let root = Graph.root(of: relationship.destinationName)
      let candidates = graph.objects.filter { Graph.root(of: $0.value.entity) == root }.keys.sorted().shuffled(using: &generator)
      let chosen = Array(candidates.prefix(Int.random(in: 0...3, using: &generator)))
      let value: RelationshipValue
      if !relationship.isToMany {
        value = .toOne(chosen.first)
      } else if Bool.random(using: &generator) {
        value = .toMany(chosen)
      } else {
        value = .toManyDelta(add: Array(chosen.prefix(1)), remove: Array(chosen.dropFirst()))
      }
      values.append(NamedValue(name: relationship.name, value: value))
    }
    return values
  }
}

@Test(arguments: 0..<80) func `T-O06 T-C14 devices that edit at random converge to the oracle, whatever the order and size of pages`(_ seed: Int) throws {
  let zone = TestZone()
  var editor = Editor(seed: seed)
  let clients = ["A", "B", "C"].map { TestClient($0, zone) }
  var oracle = Graph()
  func export(_ client: TestClient) throws { for transaction in try client.export() { oracle.apply(transaction) } }

  for _ in 0..<60 {
    let client = clients[Int.random(in: 0..<3, using: &editor.generator)]
    switch Int.random(in: 0..<4, using: &editor.generator) {
    case 0, 1: client.save(editor.transaction(on: client.graph, store: client.store))
    case 2: try export(client)
    default:
      try export(client)
      let shuffle = Bool.random(using: &editor.generator)
      let limit = Int.random(in: 1...6, using: &editor.generator)
      _ = try client.importPage(limit: limit) { page in if shuffle { page.shuffle(using: &editor.generator) } }
    }
  }
  for client in clients { try export(client) }
  for client in clients { while try client.importPage(limit: 4) > 0 || client.token < zone.sequence {} }
  let fresh = TestClient("fresh", zone)
  try fresh.importPage()

  for client in clients + [fresh] {
    let differences = client.graph.picture.differences(from: oracle.picture)
    #expect(differences.isEmpty, "seed \(seed): \(client.store) differs from the oracle")
  }
  let sequence = zone.sequence
  for _ in 0..<20 {
    for client in clients {
      try export(client)
      #expect(try client.importPage() == 0, "seed \(seed): \(client.store) hears an echo")
    }
  }
  #expect(zone.sequence == sequence, "nothing is exported when nothing was saved")
}

@Test(arguments: 0..<30) func `one run over many transactions writes what as many runs write`(_ seed: Int) throws {
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

@Test func `T-C01 devices that edit different fields of an object keep both, also the one that exported first`() throws {
  let zone = TestZone()
  let (a, b) = (TestClient("A", zone), TestClient("B", zone))
  a.save(transaction([insert("Post", "p", ["title": .string("t"), "content": .string("c")])]))
  try a.export()
  try b.importPage()
  a.save(transaction([update("Post", "p", ["title": .string("A's")])]))
  b.save(transaction([update("Post", "p", ["content": .string("B's")])]))
  try b.export()
  try a.export()
  try a.importPage()
  try b.importPage()
  for client in [a, b] {
    #expect(client.graph.objects["p"]?.attributes["title"] == .string("A's"))
    #expect(client.graph.objects["p"]?.attributes["content"] == .string("B's"))
  }
}
