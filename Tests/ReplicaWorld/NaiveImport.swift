// What an import does to the naive replica, rule by rule.

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
    var shares: [ZoneID] = []
    var ended: [EndedZone] = []
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
        if zone.action == .delete { graph.objects = graph.objects.filter { $0.value.zoneID != zone.zoneID } }
      case .share(let zone): shares.append(zone)
      }
    }
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
      importToken: page.importToken, savedCount: saved, deletedCount: removed, changedShares: shares, endedZones: ended,
      didSwap: didSwap)
  }

  private mutating func take(_ object: ImportedObject, _ broken: Rule?) {
    if deleted[object.objectID] != nil, broken != .keepsDeletions { return }
    var present = graph.objects[object.objectID] ?? NaiveObject(entity: object.entity)
    present.zoneID = object.zoneID
    func isFree(_ name: String) -> Bool {
      pending[Property(object: object.objectID, name: name)] == nil || broken == .keepsPending
    }
    for (name, value) in object.attributes where isFree(name) { present.attributes[name] = value }
    for (name, target) in object.relationships where isFree(name) {
      let isKnown = target.map { graph.objects[$0] != nil } ?? true
      if broken == .keepsPointers, !isKnown { continue }
      // The server clears it when it hears of the deletion, and does not tell who deleted.
      present.pointers[name] = target.flatMap { deleted[$0] == nil ? $0 : nil }
    }
    graph.objects[object.objectID] = present
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
    for property in pending.keys {
      guard property.target.isEmpty else {
        let pair = Pair(post: property.object, tag: property.target)
        if shown.pairs.contains(pair) { graph.pairs.insert(pair) } else { graph.pairs.remove(pair) }
        continue
      }
      guard let object = shown.objects[property.object] else { continue }
      var present = graph.objects[property.object] ?? NaiveObject(entity: object.entity)
      present.attributes[property.name] = object.attributes[property.name]
      present.pointers[property.name] = object.pointers[property.name]
      graph.objects[property.object] = present
    }
  }

  mutating func reread(_ object: AnyObjectID, _ answer: ObjectAnswer?) {
    graph.objects[object.recordName] = nil
    graph.pairs = graph.pairs.filter { $0.post != object.recordName && $0.tag != object.recordName }
    guard let answer else { return }
    var present = NaiveObject(entity: answer.entity, zoneID: answer.zoneID, attributes: answer.attributes)
    for (name, value) in answer.relationships {
      switch value {
      case .toOne(let target): present.pointers[name] = target
      case .toMany(let targets):
        if name == "tags" { graph.pairs.formUnion(targets.map { Pair(post: object.recordName, tag: $0) }) }
        if name == "posts" { graph.pairs.formUnion(targets.map { Pair(post: $0, tag: object.recordName) }) }
      case .toManyEdits: break
      }
    }
    graph.objects[object.recordName] = present
  }
}
