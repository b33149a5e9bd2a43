// Makes several equal objects one (D3): the survivor gets the others' relationships, and the others are marked.

public import ObjectModel
public import Records

/// Plans the writes that merge duplicates, on top of a zone as it is stored.
///
/// A duplicate stays alive without relationships, and keeps its attributes, until its owner calls `remove`. All writes
/// count as the server's own, so that every store imports them.
public struct Deduplicator {
  private var exporter: Exporter
  /// Survivors by the names of other duplicates, which may stand at the other end of a pair.
  public var standIns: [String: String] = [:]

  /// The Date attribute in which Apple's sample code keeps the time of a merge; set on duplicates whose entity has it.
  public static let dateAttribute = "deduplicatedDate"

  /// - Parameters:
  ///   - stamp: the time of the merge, and the user in whose name it happens.
  ///   - makeRecordName: makes an upper-case UUID for every link record.
  public init(
    model: ModelIndex, links: LinkResolver, source: any RecordSource, stamp: Stamp,
    makeRecordName: @escaping () -> String
  ) {
    exporter = Exporter(
      model: model, links: links, source: source, serializer: Serializer(contents: NoContents()), stamp: stamp,
      makeRecordName: makeRecordName)
  }

  /// True if a name survives against another: the lower UUID does, regardless of case, so that every peer decides
  /// alike.
  public static func survives(_ name: String, _ other: String) -> Bool {
    let (a, b) = (name.uppercased(), other.uppercased())
    return a == b ? name.utf8.lexicographicallyPrecedes(other.utf8) : a.utf8.lexicographicallyPrecedes(b.utf8)
  }

  /// Gives a duplicate's to-one relationships to the survivor where the survivor has none, and marks the duplicate.
  /// - Parameter group: the names of all objects that are merged, `survivor` and `loser` included: none of them gets a
  ///   pointer to another.
  public mutating func merge(_ loser: String, into survivor: String, of group: Set<String>) throws {
    guard let record = try exporter.overlay.entry(loser).record,
      let entity = exporter.model.entity(
        recordType: record.recordType, entityName: record.fields.string(ReservedName.entityName))
    else { return }
    for relationship in entity.mirroredToOnes {
      guard case .field(let field) = relationship.storage, let target = record.fields.string(field) else { continue }
      try hand(relationship, field: field, target: target, from: loser, to: survivor, of: group)
      try set(field, of: loser, to: nil)
    }
    guard let date = entity.attribute(named: Self.dateAttribute), date.isMirrored, date.type == .date else { return }
    try set(date.fieldName, of: loser, to: Field(.timestamp(exporter.stamp.timestamp), isEncrypted: date.isEncrypted))
  }

  private mutating func hand(
    _ relationship: RelationshipDescription, field: String, target: String, from loser: String, to survivor: String,
    of group: Set<String>
  ) throws {
    guard let kept = try exporter.overlay.entry(survivor).record else { return }
    let isFree = kept.fields.string(field) == nil && !group.contains(target)
    if isFree { try set(field, of: survivor, to: Field(.string(target))) }
    guard let inverse = relationship.inverse, !inverse.isToMany else { return }
    // One-to-one: a target that the survivor cannot take loses its pointer.
    let back = ReservedName.fieldPrefix + inverse.name
    guard try exporter.overlay.entry(target).record?.fields.string(back) == loser else { return }
    try set(back, of: target, to: isFree ? Field(.string(survivor)) : nil)
  }

  /// Redirects a pointer from a duplicate to the survivor, or clears it if the survivor is gone. Pointers to anything
  /// else stay.
  public mutating func move(_ pointer: RecordPointer, from loser: String, to survivor: String) throws {
    guard let record = try exporter.overlay.entry(pointer.source).record else { return }
    if pointer.field == ReservedName.linkRecordNames {
      if let parts = LinkRecord(record) { try move(record, parts, from: loser, to: survivor) }
      return
    }
    guard let field = record.fields[pointer.field], field.value.points(to: loser) else { return }
    let isAlive = try exporter.overlay.entry(survivor).record != nil
    guard isAlive, pointer.source != survivor, pointer.source != loser else {
      return try set(
        pointer.field, of: pointer.source,
        to: field.value.pointing(nowhereInsteadOf: loser).map { Field($0, isEncrypted: field.isEncrypted) })
    }
    let moved = Field(field.value.pointing(to: survivor, insteadOf: loser), isEncrypted: field.isEncrypted)
    guard let back = oneToOneInverse(of: pointer.field, record) else {
      return try set(pointer.field, of: pointer.source, to: moved)
    }
    let partner = try exporter.overlay.entry(survivor).record?.fields.string(back)
    if let partner, partner != pointer.source {
      try set(pointer.field, of: pointer.source, to: nil)
    } else {
      try set(pointer.field, of: pointer.source, to: moved)
      try set(back, of: survivor, to: Field(.string(pointer.source)))
    }
    if try exporter.overlay.entry(loser).record?.fields.string(back) == pointer.source {
      try set(back, of: loser, to: nil)
    }
  }

  /// The field with which the target of a one-to-one relationship points back; nil for other relationships.
  private func oneToOneInverse(of field: String, _ record: Record) -> String? {
    let entity = exporter.model.entity(
      recordType: record.recordType, entityName: record.fields.string(ReservedName.entityName))
    guard field.hasPrefix(ReservedName.fieldPrefix),
      let inverse = entity?.relationship(named: String(field.dropFirst(ReservedName.fieldPrefix.count)))?.inverse,
      !inverse.isToMany
    else { return nil }
    return ReservedName.fieldPrefix + inverse.name
  }

  /// Replaces a duplicate's link record by one of the survivor, under its own name: clients know a pair by its record.
  private mutating func move(_ record: Record, _ parts: LinkRecord, from loser: String, to survivor: String) throws {
    guard parts.ends.first == loser || parts.ends.second == loser else { return }
    let end = parts.ends.first == loser ? parts.ends.second : parts.ends.first
    let other = standIns[end] ?? end
    let isWanted = try other != survivor && other != loser && exporter.overlay.entry(survivor).record != nil
    if let pair = exporter.links.resolve(parts), let link = pair.relationship.link {
      if isWanted {
        let (source, target) = pair.objectID == loser ? (survivor, other) : (other, survivor)
        try exporter.makeLinkOnce(link, source, target)
      }
    } else if case .pair = parts.form {
      // A link of a model that is not known here: the same fields with the survivor's name.
      var fields = record.fields
      let ends = parts.ends.first == loser ? (survivor, other) : (other, survivor)
      fields[ReservedName.linkRecordNames] = Field(.string("\(ends.0)\(ReservedName.linkSeparator)\(ends.1)"))
      if isWanted, try !isLinked(as: fields, ends) {
        exporter.makeLink(with: fields, between: LinkRecord.Pair(first: ends.0, second: ends.1))
      }
    } else {
      return
    }
    try exporter.remove(record.recordName)
  }

  private mutating func isLinked(as fields: Fields, _ ends: (String, String)) throws -> Bool {
    try exporter.overlay.linkCandidates(ends.0, ends.1).contains {
      try exporter.overlay.entry($0).record?.fields == fields
    }
  }

  /// Applies an edit of a duplicate that came after the merge to the survivor. It overwrites edits that the survivor
  /// got meanwhile.
  public mutating func carry(from earlier: Record, to later: Record, into survivor: String) throws {
    guard try exporter.overlay.entry(survivor).record != nil else { return }
    let entity = exporter.model.entity(
      recordType: later.recordType, entityName: later.fields.string(ReservedName.entityName))
    let pointers = Set(entity?.mirroredToOnes.map { ReservedName.fieldPrefix + $0.name } ?? [])
    for name in Exporter.changedKeys(from: earlier, to: later)
    where name != ReservedName.entityName && name != ReservedName.fieldPrefix + Self.dateAttribute {
      try set(name, of: survivor, to: later.fields[name])
      if pointers.contains(name) { try set(name, of: later.recordName, to: nil) }
    }
  }

  /// Deletes a duplicate with the links that could not be moved, and clears the remaining pointers to it.
  /// - Throws: errors of the source; nothing is planned then.
  public mutating func remove(_ loser: String) throws {
    // Loads everything that is touched before anything changes.
    _ = try exporter.overlay.pointers(to: loser)
    try exporter.deleteObject(loser)
  }

  private mutating func set(_ name: String, of recordName: String, to field: Field?) throws {
    var entry = try exporter.overlay.entry(recordName)
    guard entry.record != nil, entry.record?.fields[name] != field else { return }
    entry.record?.fields[name] = field
    exporter.overlay.set(entry, named: recordName)
    if let target = field?.value.pointedTo { exporter.overlay.notePointer(from: recordName, field: name, to: target) }
  }

  /// The writes that lead from the stored zone to the present state.
  public mutating func plan() -> [PlannedWrite] {
    exporter.plan().writes.map { PlannedWrite(item: $0.item, isServersOwn: true) }
  }
}

/// The deduplicator neither reads nor writes attributes.
private struct NoContents: AssetContents {
  func content(of asset: Asset) throws -> [UInt8] { throw ValueMismatch(reason: "no content is at hand") }
  func asset(with content: [UInt8]) throws -> Asset { throw ValueMismatch(reason: "no content is at hand") }
}

extension FieldValue {
  fileprivate var pointedTo: String? { if case .string(let name) = self { name } else { nil } }

  /// A relationship's name, a reference within the zone, or a list of references.
  fileprivate func points(to name: String) -> Bool {
    switch self {
    case .string(let text): text == name
    case .reference(let reference): reference.zoneID == nil && reference.recordName == name
    case .list(_, let values): values.contains { if case .reference = $0 { $0.points(to: name) } else { false } }
    default: false
    }
  }

  fileprivate func pointing(to name: String, insteadOf other: String) -> FieldValue {
    switch self {
    case .string where points(to: other): return .string(name)
    case .reference(var reference) where points(to: other):
      reference.recordName = name
      return .reference(reference)
    case .list(let element, let values):
      return .list(element: element, values.map { $0.pointing(to: name, insteadOf: other) })
    default: return self
    }
  }

  fileprivate func pointing(nowhereInsteadOf name: String) -> FieldValue? {
    if case .list(let element, let values) = self {
      return .list(element: element, values.filter { !$0.points(to: name) })
    }
    return points(to: name) ? nil : self
  }
}
