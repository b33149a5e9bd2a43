// What an import does to the naive replica, rule by rule.

import FoundationEssentials
import MirrorWire
import ReplicaStore

extension NaiveFile {
  /// Forgets what is pending for transactions that are not in the outbox any more.
  mutating func settle() {
    let numbers = Set(outbox.map(\.number))
    pending = pending.filter { numbers.contains($0.value) }
    deleted = deleted.filter { numbers.contains($0.value) }
    inserted = inserted.filter { numbers.contains($0.value) }
  }

  /// Applies the page that waits, if any; the token stays that of the latest one.
  mutating func applyLatePage(_ broken: Rule?) {
    guard let page = latePage else { return }
    latePage = nil
    let token = position.importToken
    _ = apply(page, broken: broken)
    position.importToken = token
  }

  mutating func apply(_ page: ImportPage, broken: Rule?) -> AppliedPage {
    var (saved, removed) = (0, 0)
    var ended: [EndedZone] = []
    var endedNames: Set<String> = []
    var shownGraph = graph
    let isShadow = shadow != nil
    if let shadow { graph = shadow }
    for change in page.changes {
      switch change {
      case .save(let object):
        saved += 1
        take(object, broken)
      case .delete(_, let objectID, _):
        removed += 1
        remove(objectID, broken)
      case .link(let link): if let pair = link.pair, isFree(pair, broken), isThere(pair) { graph.pairs.insert(pair) }
      case .unlink(let link): if let pair = link.pair, isFree(pair, broken) { graph.pairs.remove(pair) }
      case .move(let objectID, _, let zone): graph.objects[objectID]?.zoneID = zone
      case .zone(let zone):
        ended.append(zone)
        // An object lies in the default zone, or nowhere before the server tells of it.
        if zone.action == .delete {
          outbox.removeAll { $0.transaction.isSentAgain }
          for name in graph.objects.keys.sorted() { remove(name, broken) }
        }
        if zone.action == .reupload, broken != .sendsZonesAgain {
          endedNames.formUnion((isShadow ? shownGraph : graph).objects.keys)
        }
      case .share(let zone): position.noteShares(of: [zone])
      }
    }
    // As they are after the page, which may part objects whose zone has ended.
    sendAgain(endedNames, of: isShadow ? shownGraph : graph, page.importToken, broken)
    let didSwap = isShadow && page.reset?.done == true
    if isShadow, !didSwap { (shadow, graph) = (graph, shownGraph) }
    if didSwap {
      overlay(&shownGraph)
      shadow = nil
      position.resetReason = nil
      position.failedResetCount = 0
    }
    position.importToken = page.importToken
    position.isInitialImportDone = position.isInitialImportDone || page.caughtUp
    return AppliedPage(
      importToken: page.importToken, savedCount: saved, deletedCount: removed, endedZones: ended, didSwap: didSwap,
      sendsAgain: ended.contains { $0.action == .reupload })
  }

  /// Objects that wait to be sent again: the server may lack them.
  private var sentAgain: Set<String> {
    Set(outbox.filter { $0.transaction.isSentAgain }.flatMap(\.transaction.changes).map(\.objectID))
  }

  /// Adds an insert of each object that does not wait to be sent anyway (P8).
  private mutating func sendAgain(
    _ ended: Set<String>, of graph: NaiveGraph, _ importToken: String, _ broken: Rule?
  ) {
    let names = ended.subtracting(sentAgain).subtracting(inserted.keys)
    let changes = graph.objects.filter { names.contains($0.key) }.sorted { $0.key < $1.key }.map { name, object in
      var relationships = object.pointers.mapValues { RelationshipValue.toOne($0) }
      let tags = graph.pairs.filter { $0.post == name }.map(\.tag).sorted()
      if !tags.isEmpty { relationships["tags"] = .toManyEdits(add: tags, remove: []) }
      return ObjectChange(
        .insert, entity: object.entity, objectID: name, attributes: object.attributes, relationships: relationships)
    }
    if changes.isEmpty { return }
    lastNumber += 1
    outbox.append(
      (
        lastNumber,
        Transaction(
          transactionID: "\(position.storeIdentifier)-\(lastNumber)", timestamp: WireDate.text(Date.now),
          author: broken == .takesNothingBack ? "app" : MirroringAuthor.reupload, importToken: importToken,
          changes: changes)
      ))
  }

  private mutating func take(_ object: ImportedObject, _ broken: Rule?) {
    if deleted[object.objectID] != nil, broken != .keepsDeletions { return }
    let former = graph.objects[object.objectID]
    var present = former ?? NaiveObject(entity: object.entity)
    present.zoneID = object.zoneID
    func isFree(_ name: String) -> Bool {
      pending[Property(object: object.objectID, name: name)] == nil || broken == .keepsPending
    }
    // The object was gone: its edits that wait are in the outbox alone.
    if former == nil, broken != .keepsPending { for change in edits(of: object.objectID) { present.take(change) } }
    for (name, value) in object.attributes where isFree(name) { present.attributes[name] = value }
    for (name, target) in object.relationships where isFree(name) {
      let isKnown = target.map { graph.objects[$0] != nil } ?? true
      if broken == .keepsPointers, !isKnown { continue }
      // The server clears it when it hears of the deletion, and does not tell who deleted.
      present.pointers[name] = target.flatMap { deleted[$0] == nil ? $0 : nil }
    }
    graph.objects[object.objectID] = present
  }

  /// What waits to be sent, in order; nothing of it is a deletion.
  private func edits(of objectID: String) -> [ObjectChange] {
    let own = outbox.filter { !$0.transaction.isSentAgain }.flatMap(\.transaction.changes)
    return own.filter { $0.objectID == objectID && $0.changeType != .delete }
  }

  private mutating func remove(_ objectID: String, _ broken: Rule?) {
    let isEdited = pending.keys.contains { $0.object == objectID }
    if broken == .appliesDeletions, isEdited { return }
    // The deletion is of an earlier object with this name.
    if inserted[objectID] != nil { return }
    graph.objects[objectID] = nil
    // Another object may get the name.
    graph.pairs = graph.pairs.filter { ($0.post != objectID && $0.tag != objectID) || !isFree($0, broken) }
    for (owner, object) in graph.objects where inserted[owner] == nil {
      for (name, target) in object.pointers
      where target == objectID && pending[Property(object: owner, name: name)] == nil {
        graph.objects[owner]?.pointers[name] = nil
      }
    }
  }

  private func isThere(_ pair: Pair) -> Bool { deleted[pair.post] == nil && deleted[pair.tag] == nil }

  private func isFree(_ pair: Pair, _ broken: Rule?) -> Bool {
    pending[Property(object: pair.post, name: "tags", target: pair.tag)] == nil || broken == .keepsPending
  }

  /// Puts what is pending on top of a second copy.
  private mutating func overlay(_ shown: inout NaiveGraph) {
    for name in deleted.keys { graph.objects[name] = nil }
    for name in sentAgain {
      graph.objects[name] = graph.objects[name] ?? shown.objects[name]
      graph.pairs.formUnion(shown.pairs.filter { $0.post == name || $0.tag == name })
    }
    for property in pending.keys {
      guard property.target.isEmpty else {
        let pair = Pair(post: property.object, tag: property.target)
        if shown.pairs.contains(pair) { graph.pairs.insert(pair) } else { graph.pairs.remove(pair) }
        continue
      }
      guard let object = shown.objects[property.object] else { continue }
      // The server has deleted it, and an edit does not bring it back (K5).
      if graph.objects[property.object] == nil, inserted[property.object] == nil { continue }
      var present = graph.objects[property.object] ?? NaiveObject(entity: object.entity)
      present.keep(property.name, of: object)
      graph.objects[property.object] = present
    }
  }

  /// Takes an object as the server has it, after a save of it was refused: but for what waits to be sent.
  mutating func reread(_ object: AnyObjectID, _ answer: ObjectAnswer?) {
    let name = object.recordName
    if deleted[name] != nil { return }
    guard let answer else {
      // The server gets it with a save that waits.
      if !sentAgain.contains(name) { remove(name, nil) }
      return
    }
    var present = NaiveObject(entity: answer.entity, zoneID: answer.zoneID, attributes: answer.attributes)
    var pairs: Set<Pair> = []
    for (relationship, value) in answer.relationships {
      switch value {
      case .toOne(let target): present.pointers[relationship] = target.flatMap { deleted[$0] == nil ? $0 : nil }
      case .toMany(let targets):
        if relationship == "tags" { pairs.formUnion(targets.map { Pair(post: name, tag: $0) }) }
        if relationship == "posts" { pairs.formUnion(targets.map { Pair(post: $0, tag: name) }) }
      case .toManyEdits: break
      }
    }
    if let former = graph.objects[name] {
      for property in pending.keys where property.object == name && property.target.isEmpty {
        present.keep(property.name, of: former)
      }
    }
    graph.objects[name] = present
    graph.pairs = graph.pairs.filter { ($0.post != name && $0.tag != name) || !isFree($0, nil) }
    graph.pairs.formUnion(pairs.filter { isFree($0, nil) && isThere($0) })
  }
}

extension NaiveObject {
  /// Has a property as a former state has it.
  fileprivate mutating func keep(_ property: String, of former: NaiveObject) {
    attributes[property] = former.attributes[property]
    pointers[property] = former.pointers[property]
  }

  fileprivate mutating func take(_ change: ObjectChange) {
    attributes.merge(change.attributes ?? [:]) { $1 }
    for case (let name, .toOne(let target)) in change.relationships ?? [:] { pointers[name] = target }
  }
}

extension Transaction {
  fileprivate var isSentAgain: Bool { author == MirroringAuthor.reupload }
}
