// The judge of an export: for each edit it finds a concurrent edit of somebody else and settles the two.

import History
public import ObjectModel
public import Records

/// The context in which an export judges conflicts. Without a declared policy and without another writer's change,
/// judging costs one comparison.
public struct ConflictJudge {
  let rules: ConflictRules
  /// The mirrored store's key, equal to `SourceRecord.origin` of its own changes.
  let store: Int64
  /// The user and device that export.
  let stamp: Stamp
  /// The edit of the current transaction; nil: its base is unknown, and it wins.
  var edit: HistoryTransaction.Edit?
  /// The losses so far, in order.
  public private(set) var losses: [ConflictLoss] = []

  public init(rules: ConflictRules, store: Int64, stamp: Stamp) {
    self.rules = rules
    self.store = store
    self.stamp = stamp
  }

  mutating func note(_ loss: ConflictLoss) { losses.append(loss) }

  /// Drops the losses of this device's edits of an object that was made again, or that the device itself deleted.
  mutating func withdraw(_ objectID: String) {
    if !losses.isEmpty { losses.removeAll { $0.objectID == objectID && $0.isOfEdit(by: stamp.deviceID) } }
  }

  /// The current edit, if another writer changed the record after the edit's base; nil otherwise.
  func contested(_ base: SourceRecord?) -> HistoryTransaction.Edit? {
    guard let edit, let base, base.isNews(to: store, after: edit.base) else { return nil }
    return edit
  }

  /// The user, device and time of the current edit.
  var author: Stamp {
    Stamp(timestamp: edit?.time ?? 0, userRecordName: stamp.userRecordName, deviceID: stamp.deviceID)
  }
}

extension Exporter {
  /// Settles the attributes of an insert or update that `entry` has already.
  /// - Parameter before: the record before the change; nil if there was none.
  mutating func settle(
    _ change: HistoryChange, of entity: EntityDescription, over before: Record?, in entry: inout OverlayEntry
  ) throws {
    guard let judge, let edit = judge.edit else { return }
    let policies = judge.rules.policies(of: entity.name)
    let contested = before == nil ? nil : judge.contested(entry.base)
    if policies == nil, contested == nil { return }
    let history = contested == nil ? nil : try overlay.source.history(of: change.objectID, since: edit.base)
    let past = history.map { RecordPast($0, isInsert: change.changeType == .insert) }
    // A device with base 0 has imported nothing. By `arrival` it knew no value that it overwrites; by other policies it
    // counts as having seen the object's creation.
    let arrivalPast = edit.base == 0 ? history.map { RecordPast($0, isInsert: true) } : past
    for named in change.attributes {
      let policy = policies?[named.name] ?? .arrival
      guard policy != .arrival || contested != nil, let attribute = entity.attribute(named: named.name),
        attribute.isMirrored, var record = entry.record
      else { continue }
      let past = policy == .arrival ? arrivalPast : past
      let contest = FieldContest(
        policy: policy, range: attribute.type.range ?? 0...0, defaultNumber: attribute.defaultNumber,
        current: FieldContent(of: attribute, in: before),
        sent: FieldContent(of: attribute, in: record), version: before?.version(of: attribute),
        isSeen: contested == nil,
        ancestor: past?.ancestor(of: attribute), findSetter: { past?.setter(of: attribute) }, device: stamp.deviceID,
        time: edit.time)
      // A value that this run wrote is no conflict.
      let isOwn = policy == .arrival && contest.current != FieldContent(of: attribute, in: entry.baseRecord)
      let verdict = isOwn ? FieldContest.Verdict(outcome: .sent) : contest.verdict { serializer.text(of: $0) }
      try apply(verdict, contest, attribute, entity, over: before, to: &record, in: &entry)
      entry.record = record
      if let loss = verdict.loss { note(loss, contest, attribute, entity, change.objectID) }
    }
  }

  private func past(of change: HistoryChange, since base: Int64) throws -> RecordPast {
    RecordPast(
      try overlay.source.history(of: change.objectID, since: base), isInsert: change.changeType == .insert || base == 0)
  }

  private func apply(
    _ verdict: FieldContest.Verdict, _ contest: FieldContest, _ attribute: AttributeDescription,
    _ entity: EntityDescription, over before: Record?, to record: inout Record,
    in entry: inout OverlayEntry
  ) throws {
    switch verdict.outcome {
    case .sent: break
    case .current:
      if attribute.formers.isEmpty {
        contest.current.put(into: &record, attribute)
      } else {
        attribute.restore(from: before, in: &record)
      }
      if contest.current != contest.sent { entry.isToldAgain = true }
    case .merged(let value):
      if value == contest.sent.value { break }
      let merged =
        try value.map { try attribute.decoded($0, recordName: record.recordName, entity: entity.name) } ?? .null
      attribute.restoreFormers(of: before, in: &record)
      try serializer.write([NamedValue(name: attribute.name, value: merged)], of: entity, into: &record)
      entry.isToldAgain = true
    }
    guard let version = verdict.version else { return }
    record.set(FieldVersion(field: attribute.fieldName, edits: version.edits, elements: version.elements))
  }

  private mutating func note(
    _ loss: FieldContest.Loss, _ contest: FieldContest, _ attribute: AttributeDescription, _ entity: EntityDescription,
    _ objectID: String
  ) {
    guard let judge else { return }
    func update(_ content: FieldContent) -> HistoryChange {
      HistoryChange(
        changeType: .update, entity: entity.name, objectID: objectID,
        attributes: [NamedValue(name: attribute.name, value: attribute.journaled(content.value, entity: entity.name))])
    }
    let isOfSent = loss != .ofCurrent
    self.judge?.note(
      ConflictLoss(
        kind: loss == .undecided ? .undecided : .lostValue, objectID: objectID, entity: entity.name,
        lost: [update(isOfSent ? contest.sent : contest.current)],
        kept: update(isOfSent ? contest.current : contest.sent), ancestor: contest.ancestor.map { update($0.content) },
        edit: isOfSent ? judge.author : contest.setter ?? Stamp(timestamp: 0, userRecordName: "")))
  }

  /// Notes the loss where an edit sets a to-one relationship that another device set unseen: the last arrival wins.
  mutating func noteOverwritten(
    _ relationship: RelationshipDescription, field: String, of change: HistoryChange, entity: EntityDescription,
    by target: String?
  ) throws {
    guard let judge, let edit = judge.edit, let entry = overlay.known(change.objectID),
      judge.contested(entry.base) != nil
    else { return }
    let current = entry.record?.fields.string(field)
    guard current != target, current == entry.baseRecord?.fields.string(field) else { return }
    let past = try past(of: change, since: edit.base)
    guard case .known(let ancestor) = past.pointer(field), ancestor != current,
      let setter = past.setter(where: { $0?.fields.string(field) }),
      setter.deviceID != stamp.deviceID
    else { return }
    func update(_ value: String?) -> HistoryChange { change.only(relationship.name, .toOne(value)) }
    self.judge?.note(
      ConflictLoss(
        kind: .lostValue, objectID: change.objectID, entity: entity.name, lost: [update(current)], kept: update(target),
        ancestor: update(ancestor), edit: setter))
  }
}

/// A record's past as one edit sees it.
struct RecordPast {
  private let ancestor: RecordHistory.Ancestor
  private let states: [RecordHistory.State]

  init(_ history: RecordHistory, isInsert: Bool) {
    // A device edits only objects it knows: it has seen at least their creation.
    if case .nothing = history.ancestor, !isInsert, let first = history.states.first, !first.isDeleted {
      ancestor = .record(first.record)
      states = Array(history.states.dropFirst())
    } else {
      ancestor = history.ancestor
      states = history.states
    }
  }

  func ancestor(of attribute: AttributeDescription) -> (content: FieldContent, version: FieldVersion?)? {
    switch ancestor {
    case .unknown: nil
    case .nothing: (FieldContent(of: attribute, in: nil), nil)
    case .record(let record): (FieldContent(of: attribute, in: record), record.version(of: attribute))
    }
  }

  enum Pointer {
    case unknown
    case known(String?)
  }

  func pointer(_ field: String) -> Pointer {
    switch ancestor {
    case .unknown: .unknown
    case .nothing: .known(nil)
    case .record(let record): .known(record.fields.string(field))
    }
  }

  /// The stamp of the change that set the present value after the ancestor; nil if none did.
  func setter<Value: Equatable>(where value: (Record?) -> Value) -> Stamp? {
    var last: Value?
    switch ancestor {
    case .unknown: last = nil
    case .nothing: last = value(nil)
    case .record(let record): last = value(record)
    }
    var setter: Stamp?
    for state in states {
      let present = value(state.isDeleted ? nil : state.record)
      if present != last { setter = state.record.modified }
      last = present
    }
    return setter
  }

  func setter(of attribute: AttributeDescription) -> Stamp? { setter { FieldContent(of: attribute, in: $0) } }
}

extension AttributeDescription {
  /// The number that an empty integer attribute counts as.
  fileprivate var defaultNumber: Int64 { if case .integer(let number) = defaultAttributeValue { number } else { 0 } }

  /// A field's value for the journal; null if it cannot be read.
  fileprivate func journaled(_ value: FieldValue?, entity: String) -> AttributeValue {
    switch value {
    case nil: .null
    case .asset(let asset)?: .asset(asset)
    // Dropped because a value that does not fit its attribute could not be restored.
    case let value?: (try? decode(value, entity: entity)) ?? .null
    }
  }

  fileprivate func decoded(_ value: FieldValue, recordName: String, entity: String) throws(MirroringProblem)
    -> AttributeValue
  {
    do {
      return try decode(value, entity: entity)
    } catch {
      throw MirroringProblem(recordName: recordName, entity: entity, code: .badRequest, reason: error.reason)
    }
  }
}
