// What an app does in one save, and what of it is sent.

import MirrorWire

/// Edits of a graph, with their changes in order.
struct NaiveEdit: JournalEdit {
  private(set) var graph: NaiveGraph
  private(set) var changes: [ObjectChange] = []
  private(set) var touched: Set<Property> = []
  private let writesPartners: Bool

  init(_ graph: NaiveGraph, writesPartners: Bool) {
    self.graph = graph
    self.writesPartners = writesPartners
  }

  func names(_ entity: String) -> [String] { graph.objects.filter { $0.value.entity == entity }.keys.sorted() }

  mutating func insert(_ entity: String, _ name: String, _ attributes: [String: AttributeValue]) {
    graph.objects[name] = NaiveObject(entity: entity, attributes: attributes)
    for key in attributes.keys { touched.insert(Property(object: name, name: key)) }
    changes.append(ObjectChange(.insert, entity: entity, objectID: name, attributes: attributes))
  }

  mutating func set(_ attribute: String, of name: String, _ value: AttributeValue) {
    guard let entity = graph.objects[name]?.entity else { return }
    graph.objects[name]?.attributes[attribute] = value
    touched.insert(Property(object: name, name: attribute))
    changes.append(ObjectChange(.update, entity: entity, objectID: name, attributes: [attribute: value]))
  }

  /// Points to another object; both ends of a one-to-one relationship, and their former partners, are written (K8).
  mutating func point(_ relationship: String, of name: String, to target: String?) {
    guard let entity = graph.objects[name]?.entity else { return }
    let inverse = ["Post": "post", "Cover": "cover"][entity]
    if writesPartners, let inverse, relationship == "cover" || entity == "Cover" {
      if let former = graph.objects[name]?.pointers[relationship], former != target,
        graph.objects[former]?.pointers[inverse] == name
      {
        write(inverse, of: former, nil)
      }
      if let target, let former = graph.objects[target]?.pointers[inverse], former != name,
        graph.objects[former]?.pointers[relationship] == target
      {
        write(relationship, of: former, nil)
      }
      if let target { write(inverse, of: target, name) }
    }
    write(relationship, of: name, target)
  }

  private mutating func write(_ relationship: String, of name: String, _ target: String?) {
    guard let entity = graph.objects[name]?.entity else { return }
    graph.objects[name]?.pointers[relationship] = target
    touched.insert(Property(object: name, name: relationship))
    changes.append(ObjectChange(.update, entity: entity, objectID: name, relationships: [relationship: .toOne(target)]))
  }

  mutating func pair(_ post: String, _ tag: String, isMade: Bool) {
    guard graph.objects[post] != nil, graph.objects[tag] != nil else { return }
    if isMade { graph.pairs.insert(Pair(post: post, tag: tag)) } else { graph.pairs.remove(Pair(post: post, tag: tag)) }
    touched.insert(Property(object: post, name: "tags", target: tag))
    let edits = RelationshipValue.toManyEdits(add: isMade ? [tag] : [], remove: isMade ? [] : [tag])
    changes.append(ObjectChange(.update, entity: "Post", objectID: post, relationships: ["tags": edits]))
  }

  /// Deletes; what points to the object is cleared explicitly (K9).
  mutating func delete(_ name: String) {
    guard let entity = graph.objects[name]?.entity else { return }
    for (other, object) in graph.objects.sorted(by: { $0.key < $1.key }) where other != name {
      for (relationship, target) in object.pointers where target == name { write(relationship, of: other, nil) }
    }
    graph.objects[name] = nil
    graph.pairs = graph.pairs.filter { $0.post != name && $0.tag != name }
    changes.append(ObjectChange(.delete, entity: entity, objectID: name))
  }
}
