// The end of an export: the writes that its changes amount to.

import History
import ObjectModel
public import Records

extension Exporter {
  /// The differences from the zone as it is stored. The exporter hands its records over and is of no use afterwards.
  public mutating func plan() -> ExportPlan {
    var objects: [PlannedWrite] = []
    var links: [PlannedWrite] = []
    let burials = buried.filter { overlay.known($0.recordName)?.record == nil }
    // Each entry hands its record over in place: copying records would cost more than all the rest.
    var entries = overlay.takeEntries()
    objects.reserveCapacity(entries.count)
    for place in entries.indices {
      let isLink = entries[place].isLink
      guard let write = Self.write(of: &entries[place], stamp: stamp) else { continue }
      if isLink { links.append(write) } else { objects.append(write) }
    }
    objects += burials.map { PlannedWrite(item: .delete($0), isServersOwn: false) }
    objects.append(contentsOf: links)
    return ExportPlan(writes: objects, leftOut: leftOut, withdrawn: withdrawn, losses: judge?.losses ?? [])
  }

  /// The object's record in its present state, written or not; nil if none is alive.
  public mutating func currentRecord(named recordName: String) throws -> Record? {
    try overlay.entry(recordName).record
  }

  /// - Parameter entry: loses its record to the result.
  private static func write(of entry: inout OverlayEntry, stamp: Stamp) -> PlannedWrite? {
    switch (entry.baseRecord, entry.record.take()) {
    case (nil, nil): return nil
    case (let base?, nil):
      return PlannedWrite(
        item: .delete(base), isServersOwn: entry.isServersDeletion || entry.isToldAgain,
        isServersAlone: entry.isServersDeletion)
    case (let base, var record?):
      let changedKeys = changedKeys(from: base, to: record)
      if base != nil, changedKeys.isEmpty {
        return entry.isToldAgain ? PlannedWrite(item: .save(record, changedKeys: []), isServersOwn: true) : nil
      }
      record.modified = stamp
      return PlannedWrite(
        item: .save(record, changedKeys: changedKeys),
        isServersOwn: entry.isToldAgain || !entry.serverFields.isDisjoint(with: changedKeys),
        isServersAlone: base != nil && changedKeys.allSatisfy { entry.clearedFields.contains($0) })
    }
  }

  /// Names of the fields that differ, and of those whose version does, ascending.
  static func changedKeys(from base: Record?, to record: Record) -> [String] {
    guard let base else { return record.fields.elements.map { $0.name } }
    var changed: [String] = []
    var (old, new) = (base.fields.elements[...], record.fields.elements[...])
    while let first = [old.first?.name, new.first?.name].compactMap({ $0 }).min() {
      let before = old.first?.name == first ? old.removeFirst().field : nil
      let after = new.first?.name == first ? new.removeFirst().field : nil
      if before != after { changed.append(first) }
    }
    if base.versions == record.versions { return changed }
    // The edit set an equal value: its version still counts against later edits.
    let said = record.versions.filter { base.version(of: $0.field) != $0 }.map(\.field)
    return Set(changed).union(said).sorted()
  }
}
