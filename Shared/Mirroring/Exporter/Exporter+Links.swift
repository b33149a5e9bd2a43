// Many-to-many relationships: a record per pair, never two (R13–R15).

import History
import ObjectModel
import Records

extension Exporter {
  mutating func setLinks(
    _ relationship: RelationshipDescription, _ link: LinkDescription, of change: HistoryChange,
    entity: EntityDescription, to value: RelationshipValue
  ) throws {
    let owner = change.objectID
    let (added, removed): ([String], [String])
    switch value {
    case .toMany(let targets):
      let kept = Set(targets)
      (added, removed) = (targets, try linkedObjects(of: owner, link).filter { !kept.contains($0) })
    case .toManyDelta(let add, let remove): (added, removed) = (add, remove)
    case .toOne:
      return leaveOut(
        relationship.name, value, of: change,
        "\(entity.name).\(relationship.name) is a to-many relationship, but the value is not a set")
    }
    for target in removed where !isSentAgain { try removeLink(link, owner, target) }
    for target in added {
      switch try self.target(target, of: relationship) {
      // An end that is unknown may still arrive; clients hold such a link until it does (T-O02).
      case .alive, .unknown: try addLink(link, owner, target)
      case .inZone(let zoneName):
        leaveOut(relationship, .toManyDelta(add: [target], remove: []), of: change, across: zoneName)
      // Its device learns that the object is linked with nothing (T-O05): the other may come back without the link.
      case .gone:
        if !passing.contains(target) { withdraw(link, owner, target) }
      case .wrongEntity:
        leaveOut(
          relationship.name, .toManyDelta(add: [target], remove: []), of: change,
          "\(entity.name).\(relationship.name) holds an object that is not of entity \(relationship.destinationName)")
      }
    }
  }

  /// Leaves the pair with one live link record: the one it had, one that this run deleted, or a newly made one.
  private mutating func addLink(_ link: LinkDescription, _ owner: String, _ target: String) throws {
    let key = link.key(source: owner, target: target)
    let records = try linkRecords(key, owner, target)
    let alive = try records.filter { try overlay.entry($0).record != nil }
    // Two devices can make the same link through the record plane; one record is enough (T-C11).
    for superfluous in alive.dropFirst() { try remove(superfluous, isServersOwn: true) }
    guard alive.isEmpty else { return }
    if let name = records.first {
      var entry = try overlay.entry(name)
      entry.record = entry.baseRecord ?? linkRecord(link, owner, target, named: name)
      if try mayLack(owner, or: target) { entry.isToldAgain = true }
      overlay.set(entry, named: name)
    } else {
      pairs[key] = [try makeLink(link, owner, target)]
    }
  }

  /// - Returns: the name of the record that was made.
  @discardableResult mutating func makeLink(_ link: LinkDescription, _ owner: String, _ target: String) throws -> String
  {
    makeLink(
      with: LinkRecord.fields(of: link, source: owner, target: target),
      between: LinkRecord.Pair(first: owner, second: target),
      isToldAgain: try standIns.contains(owner) || standIns.contains(target) || mayLack(owner, or: target))
  }

  /// True if the device may have dropped the object and its links since the edit was made, because somebody else
  /// changed the object. True for an object that an edit brings back: the device imports it again, with the links that
  /// the edits add. True for somebody else's object that is sent again: its device may have imported other links of it.
  mutating func mayLack(_ objectID: String) throws -> Bool {
    if try broughtBack.contains(objectID) || isOthers(objectID) { return true }
    guard let judge, judge.edit != nil else { return false }
    return try overlay.with(objectID) { judge.contested($0.base) != nil }
  }

  private mutating func mayLack(_ owner: String, or target: String) throws -> Bool {
    try mayLack(owner) || mayLack(target)
  }

  /// - Parameter ends: the two objects that the fields name, in either order.
  @discardableResult mutating func makeLink(
    with fields: Fields, between ends: LinkRecord.Pair, isToldAgain: Bool = false
  ) -> String {
    let name = makeRecordName()
    let record = Record(
      recordName: name, recordType: ReservedName.linkRecordType, fields: fields, created: stamp, modified: stamp)
    var entry = OverlayEntry(base: nil)
    entry.isToldAgain = isToldAgain
    entry.record = record
    overlay.set(entry, named: name)
    for end in [ends.first, ends.second] {
      overlay.notePointer(from: name, field: ReservedName.linkRecordNames, to: end)
    }
    return name
  }

  /// Makes a link record unless the pair has a live one.
  mutating func makeLinkOnce(_ link: LinkDescription, _ owner: String, _ target: String) throws {
    let key = link.key(source: owner, target: target)
    if try linkRecords(key, owner, target).contains(where: { try overlay.entry($0).record != nil }) { return }
    let name = try makeLink(link, owner, target)
    pairs[key, default: []].append(name)
  }

  private mutating func removeLink(_ link: LinkDescription, _ owner: String, _ target: String) throws {
    let key = link.key(source: owner, target: target)
    for name in try linkRecords(key, owner, target) {
      try remove(name, isServersOwn: standIns.contains(owner) || standIns.contains(target))
    }
  }

  /// Tells the store that a link that it made is taken away.
  mutating func withdraw(_ link: LinkDescription, _ owner: String, _ target: String) {
    withdrawn.append(linkRecord(link, owner, target, named: makeRecordName()))
  }

  private func linkRecord(_ link: LinkDescription, _ owner: String, _ target: String, named name: String) -> Record {
    Record(
      recordName: name, recordType: ReservedName.linkRecordType,
      fields: LinkRecord.fields(of: link, source: owner, target: target),
      created: stamp, modified: stamp)
  }

  /// The link records of a pair, alive or deleted in this run; ascending by name, then those made in this run.
  private mutating func linkRecords(_ key: String, _ owner: String, _ target: String) throws -> [String] {
    if let known = pairs[key] { return known }
    var found: [String] = []
    for name in try overlay.linkCandidates(owner, target) {
      guard let record = try overlay.entry(name).record, let parts = LinkRecord(record),
        links.resolve(parts)?.key == key
      else { continue }
      found.append(name)
    }
    found.sort()
    pairs[key] = found
    return found
  }

  private mutating func linkPointers(to objectID: String) throws -> [String] {
    try overlay.pointers(to: objectID, by: ReservedName.linkRecordNames).map(\.source)
  }

  /// The objects that one many-to-many relationship links `owner` with.
  mutating func linkedObjects(of owner: String, _ link: LinkDescription) throws -> [String] {
    var objects: [String] = []
    for name in try linkPointers(to: owner) {
      guard let record = try overlay.entry(name).record, let parts = LinkRecord(record), let pair = links.resolve(parts)
      else { continue }
      let other = pair.other(than: owner)
      guard link.key(source: owner, target: other) == pair.key else { continue }
      // Noted here, so that removing the link needs no second search.
      if pairs[pair.key]?.contains(name) != true { pairs[pair.key, default: []].append(name) }
      objects.append(other)
    }
    return objects
  }

  /// Restores an object's links in the store that changed them: the store is told that links it added are deleted, and
  /// imports links it removed again.
  mutating func revertLinks(_ link: LinkDescription, of owner: String, to value: RelationshipValue) throws {
    let present = Set(try linkedObjects(of: owner, link))
    for target in value.added where !present.contains(target) { withdraw(link, owner, target) }
    let kept = Set(value.added)
    let isWhole = if case .toMany = value { true } else { false }
    for target in isWhole ? present.subtracting(kept).sorted() : value.removed {
      for name in try linkRecords(link.key(source: owner, target: target), owner, target) { try tellAgain(name) }
    }
  }
}
