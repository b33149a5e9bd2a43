// Transactions of random edits of a graph.

package import History
package import MirroringWorld
import ObjectModel

package struct Editor {
  package var generator: SeededGenerator
  private var counter = 0

  package init(seed: Int) { generator = SeededGenerator(seed: seed) }

  private static let entities = ["Post", "Attachment", "Cover", "Tag", "Person", "Photo", "Picture"]

  private mutating func pick<C: RandomAccessCollection>(_ choices: C) -> C.Element? {
    choices.randomElement(using: &generator)
  }

  package mutating func transaction(on graph: Graph, store: String) -> HistoryTransaction {
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
      return HistoryChange(
        changeType: .insert, entity: entity, objectID: id, attributes: attributes(entity),
        relationships: relationships(entity, on: graph))
    }
    guard let id = pick(graph.objects.keys.sorted()), let entity = graph.objects[id]?.entity else { return nil }
    if roll < 5 { return HistoryChange(changeType: .delete, entity: entity, objectID: id) }
    return HistoryChange(
      changeType: .update, entity: entity, objectID: id, attributes: attributes(entity),
      relationships: relationships(entity, on: graph))
  }

  private mutating func attributes(_ entity: String) -> [NamedValue<AttributeValue>] {
    let name = [
      "Post": "title", "Attachment": "name", "Cover": "data", "Tag": "name", "Person": "name", "Photo": "caption",
      "Picture": "frame",
    ][entity]
    guard let name, Bool.random(using: &generator) else { return [] }
    let number = Int.random(in: 0..<1000, using: &generator)
    let value: AttributeValue =
      number < 100 ? .null : entity == "Cover" ? .binary([UInt8(number % 256)]) : .string("\(number)")
    return [NamedValue(name: name, value: value)]
  }

  private mutating func relationships(_ entity: String, on graph: Graph) -> [NamedValue<RelationshipValue>] {
    var values: [NamedValue<RelationshipValue>] = []
    for relationship in Graph.relationships(of: entity).sorted(by: { $0.name < $1.name })
    where Int.random(in: 0..<3, using: &generator) == 0 {
      let root = Graph.root(of: relationship.destinationName)
      let candidates = graph.objects.filter { Graph.root(of: $0.value.entity) == root }.keys.sorted().shuffled(
        using: &generator)
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
