// A deletion against an edit, neither of which knew of the other: what the entity's policy makes of them (T-C05,
// T-C06).

import History
import ObjectModel
import Records

extension Exporter {
  /// Restores an object that somebody else deleted, for an edit that wins by the entity's policy: the record, its links
  /// and the pointers to it. Every store imports them again, and the edit is applied on top.
  /// - Returns: nil if the deletion stands.
  mutating func revived(_ change: HistoryChange, _ entity: EntityDescription, _ entry: OverlayEntry) throws
    -> OverlayEntry?
  {
    guard let judge, judge.rules.deletePolicy(of: entity.name) == .editWins, entry.base?.isDeleted == true,
      let edit = judge.contested(entry.base),
      var record = try lastRecord(of: change.objectID, since: edit.base)
    else { return nil }
    try clearStalePointers(of: &record, entity)
    var revived = entry
    revived.record = record
    revived.isToldAgain = true
    overlay.set(revived, named: change.objectID)
    broughtBack.insert(change.objectID)
    // Noted, so that deleting a target later in this run clears the pointer.
    for case .field(let field) in entity.relationships.map(\.storage) {
      if let target = record.fields.string(field) {
        overlay.notePointer(from: change.objectID, field: field, to: target)
      }
    }
    let company = try overlay.source.company(ofDeleted: change.objectID)
    for link in company.links { try bringBack(link) }
    for pointer in company.pointers { try bringBack(pointer, to: change.objectID) }
    // Also what a record client's deletion left of its links and pointers: devices let go of those (T-O03).
    try tellOfAll(change.objectID)
    return revived
  }

  /// Clears a restored pointer unless its target is in this zone or still unknown, and no other object holds the target
  /// by now.
  private mutating func clearStalePointers(of record: inout Record, _ entity: EntityDescription) throws {
    for relationship in entity.relationships {
      guard case .field(let field) = relationship.storage, let target = record.fields.string(field) else { continue }
      switch try self.target(target, of: relationship) {
      case .alive, .unknown: break
      case .gone, .wrongEntity, .inZone: record.fields[field] = nil
      }
      guard let inverse = relationship.inverse, !inverse.isToMany else { continue }
      let holder = try overlay.entry(target).record?.fields.string(ReservedName.fieldPrefix + inverse.name)
      if let holder, holder != record.recordName { record.fields[field] = nil }
    }
  }

  private mutating func bringBack(_ link: Record) throws {
    guard let parts = LinkRecord(link), try overlay.entry(parts.ends.first).record != nil,
      try overlay.entry(parts.ends.second).record != nil
    else { return }
    var entry = try overlay.entry(link.recordName)
    guard entry.record == nil else { return }
    entry.record = link
    entry.isToldAgain = true
    overlay.set(entry, named: link.recordName)
    for end in [parts.ends.first, parts.ends.second] {
      overlay.notePointer(from: link.recordName, field: ReservedName.linkRecordNames, to: end)
    }
  }

  private mutating func bringBack(_ pointer: RecordPointer, to target: String) throws {
    var entry = try overlay.entry(pointer.source)
    guard entry.record != nil, entry.record?.fields[pointer.field] == nil else { return }
    entry.record?.fields[pointer.field] = Field(.string(target))
    entry.isToldAgain = true
    overlay.set(entry, named: pointer.source)
    overlay.notePointer(from: pointer.source, field: pointer.field, to: target)
  }

  /// The object's last state before its deletion; nil if none is kept.
  private func lastRecord(of objectID: String, since base: Int64) throws -> Record? {
    let history = try overlay.source.history(of: objectID, since: base)
    if let last = history.states.last(where: { !$0.isDeleted }) { return last.record }
    if case .record(let record) = history.ancestor { return record }
    return nil
  }

  /// Notes the loss of an edit of an object that somebody else deleted: the object with the edit applied.
  mutating func noteDeleted(_ change: HistoryChange, _ entry: OverlayEntry) throws {
    guard let judge, entry.base?.isDeleted == true, let edit = judge.contested(entry.base) else { return }
    let company = try overlay.source.company(ofDeleted: change.objectID)
    var lost =
      try lastRecord(of: change.objectID, since: edit.base).map { try whole($0, with: change, company: company) } ?? [
        change
      ]
    // One loss holds all edits of the object by this device.
    if let earlier = judge.losses.last(where: { $0.objectID == change.objectID && $0.isOfEdit(by: stamp.deviceID) })?
      .lost.first
    {
      lost[0] = HeldChanges.compacted([earlier, change])[0]
      self.judge?.withdraw(change.objectID)
    }
    self.judge?.note(
      ConflictLoss(kind: .lostObject, objectID: change.objectID, entity: change.entity, lost: lost, edit: judge.author))
  }

  /// Decides about a deletion of an object that somebody else edited since.
  /// - Returns: true if the object stays; its device then imports it again.
  mutating func survives(_ change: HistoryChange, _ entity: EntityDescription) throws -> Bool {
    guard let judge, let edit = judge.contested(try overlay.entry(change.objectID).base),
      let record = try overlay.entry(change.objectID).record
    else { return false }
    let past = RecordPast(try overlay.source.history(of: change.objectID, since: edit.base), isInsert: false)
    // Only attributes that another device set count, not pointers that the server cleared.
    let said = entity.mirroredAttributes.filter { attribute in
      guard let setter = past.setter(of: attribute) else { return false }
      return setter.deviceID != stamp.deviceID && past.ancestor(of: attribute) != nil
    }
    guard !said.isEmpty else { return false }
    if judge.rules.deletePolicy(of: entity.name) == .editWins {
      try tellOfAll(change.objectID)
      return true
    }
    let company = DeletedCompany(links: try links(of: change.objectID), pointers: try pointers(to: change.objectID))
    let lost = try whole(record, with: nil, company: company)
    self.judge?.note(
      ConflictLoss(
        kind: .lostObject, objectID: change.objectID, entity: change.entity, lost: lost,
        edit: past.setter(of: said[0]) ?? judge.author))
    return false
  }

  /// Has the device import the object, its links and the objects that point to it: it dropped them when it deleted the
  /// object.
  private mutating func tellOfAll(_ objectID: String) throws {
    for name in [objectID] + (try overlay.pointers(to: objectID).map(\.source)) { try tellAgain(name) }
  }

  private mutating func links(of objectID: String) throws -> [Record] {
    try overlay.pointers(to: objectID, by: ReservedName.linkRecordNames).compactMap {
      try overlay.entry($0.source).record
    }
  }

  private mutating func pointers(to objectID: String) throws -> [RecordPointer] {
    try overlay.pointers(to: objectID).filter { $0.field != ReservedName.linkRecordNames }
  }

  /// The changes that make an object again: an insert with all of its values, and updates of the objects that pointed
  /// to it.
  private mutating func whole(_ record: Record, with edit: HistoryChange?, company: DeletedCompany) throws
    -> [HistoryChange]
  {
    let deserializer = Deserializer(model)
    guard let entity = deserializer.entity(of: record), let object = try? deserializer.object(entity, from: record)
    else {
      // Dropped because a record that cannot be read cannot be made again: only the edit remains.
      return edit.map { [$0] } ?? []
    }
    var links: [String: [String]] = [:]
    for link in company.links {
      guard let parts = LinkRecord(link), let resolved = self.links.resolve(parts) else { continue }
      for relationship in entity.mirroredLinks
      where relationship.link?.key(source: record.recordName, target: resolved.other(than: record.recordName))
        == resolved.key
      {
        links[relationship.name, default: []].append(resolved.other(than: record.recordName))
      }
    }
    let relationships =
      object.relationships.compactMap { named in
        named.value.map { NamedValue(name: named.name, value: RelationshipValue.toOne($0)) }
      }
      + links.map { NamedValue(name: $0.key, value: RelationshipValue.toManyDelta(add: $0.value.sorted(), remove: [])) }
    let insert = HistoryChange(
      changeType: .insert, entity: entity.name, objectID: record.recordName,
      attributes: object.attributes.filter { $0.value != .null },
      relationships: relationships.sorted { $0.name < $1.name })
    let others = try company.pointers.compactMap { pointer -> HistoryChange? in
      guard let source = try overlay.entry(pointer.source).record, let owner = deserializer.entity(of: source),
        let relationship = owner.mirroredToOnes.first(where: { ReservedName.fieldPrefix + $0.name == pointer.field })
      else { return nil }
      return HistoryChange(
        changeType: .update, entity: owner.name, objectID: pointer.source,
        relationships: [NamedValue(name: relationship.name, value: .toOne(record.recordName))])
    }
    guard let edit else { return [insert] + others }
    let edited = HistoryChange(
      changeType: .insert, entity: insert.entity, objectID: insert.objectID, attributes: edit.attributes,
      relationships: edit.relationships)
    return [edited.adding(insert)] + others
  }
}
