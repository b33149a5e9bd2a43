// The judge of an export: for each edit, whether somebody else's it did not know of stands against it, and what becomes of the two.

import History
public import ObjectModel
public import Records

/// What an export needs to know about conflicts. Where nobody declared a policy and nobody else changed the record since, it costs a comparison.
public struct ConflictJudge {
  let rules: ConflictRules
  /// The mirrored store's key, as `SourceRecord.origin` has it.
  let store: Int64
  /// Who exports, from which device.
  let stamp: Stamp
  /// Of the transaction whose changes come; nil: nothing is known of it, and it wins.
  var edit: HistoryTransaction.Edit?
  /// What is lost so far, in order.
  public private(set) var losses: [ConflictLoss] = []

  public init(rules: ConflictRules, store: Int64, stamp: Stamp) {
    self.rules = rules
    self.store = store
    self.stamp = stamp
  }

  mutating func note(_ loss: ConflictLoss) { losses.append(loss) }

  /// The object was made again, or its device deleted it, too: nothing of it is lost to that device.
  mutating func withdraw(_ objectID: String) {
    if !losses.isEmpty { losses.removeAll { $0.objectID == objectID && $0.isOfEdit(by: stamp.deviceID) } }
  }

  /// The edit, where somebody else has changed the record since what it knew.
  func contested(_ base: SourceRecord?) -> HistoryTransaction.Edit? {
    guard let edit, let base, base.isNews(to: store, after: edit.base) else { return nil }
    return edit
  }

  /// Whose edit this transaction's is, and when it was made.
  var author: Stamp { Stamp(timestamp: edit?.time ?? 0, userRecordName: stamp.userRecordName, deviceID: stamp.deviceID) }
}

extension Exporter {
  /// Settles the attributes of an insert or update that is written into `entry` already.
  /// - Parameter before: the record as it was without it; nil: there was none.
  mutating func settle(_ change: HistoryChange, of entity: EntityDescription, over before: Record?, in entry: inout OverlayEntry) throws {
    guard let judge, let edit = judge.edit else { return }
    let policies = judge.rules.policies(of: entity.name)
    let contested = before == nil ? nil : judge.contested(entry.base)
    if policies == nil, contested == nil { return }
    let history = contested == nil ? nil : try overlay.source.history(of: change.objectID, since: edit.base)
    let past = history.map { RecordPast($0, isInsert: change.changeType == .insert) }
    // Who never imported anything knew nothing of what they overwrite; where values are merged they are taken to have seen it being made all the same.
    let arrivalPast = edit.base == 0 ? history.map { RecordPast($0, isInsert: true) } : past
    for named in change.attributes {
      let policy = policies?[named.name] ?? .arrival
      guard policy != .arrival || contested != nil, let attribute = entity.attribute(named: named.name), attribute.isMirrored, var record = entry.record
      else { continue }
      let past = policy == .arrival ? arrivalPast : past
      let contest = FieldContest(
        policy: policy, range: attribute.type.range ?? 0...0, defaultNumber: attribute.defaultNumber, current: FieldContent(of: attribute, in: before),
        sent: FieldContent(of: attribute, in: record), version: before?.version(of: attribute.fieldName), isSeen: contested == nil,
        ancestor: past?.ancestor(of: attribute), setter: past?.setter(of: attribute), device: stamp.deviceID, time: edit.time)
      // What this run wrote itself is no conflict.
      let isOwn = policy == .arrival && contest.current != FieldContent(of: attribute, in: entry.baseRecord)
      let verdict = isOwn ? FieldContest.Verdict(outcome: .sent) : contest.verdict { serializer.text(of: $0) }
      try apply(verdict, contest, attribute, entity, to: &record, in: &entry)
      entry.record = record
      if let loss = verdict.loss { note(loss, contest, attribute, entity, change.objectID) }
    }
  }

  private func past(of change: HistoryChange, since base: Int64) throws -> RecordPast {
    RecordPast(try overlay.source.history(of: change.objectID, since: base), isInsert: change.changeType == .insert || base == 0)
  }

  private func apply(
    _ verdict: FieldContest.Verdict, _ contest: FieldContest, _ attribute: AttributeDescription, _ entity: EntityDescription, to record: inout Record,
    in entry: inout OverlayEntry
  ) throws {
    switch verdict.outcome {
    case .sent: break
    case .current:
      contest.current.put(into: &record, attribute)
      if contest.current != contest.sent { entry.isToldAgain = true }
    case .merged(let value):
      if value == contest.sent.value { break }
      let merged = try value.map { try attribute.decoded($0, recordName: record.recordName, entity: entity.name) } ?? .null
      try serializer.write([NamedValue(name: attribute.name, value: merged)], of: entity, into: &record)
      entry.isToldAgain = true
    }
    guard let version = verdict.version else { return }
    record.set(FieldVersion(field: attribute.fieldName, edits: version.edits, elements: version.elements))
  }

  private mutating func note(
    _ loss: FieldContest.Loss, _ contest: FieldContest, _ attribute: AttributeDescription, _ entity: EntityDescription, _ objectID: String
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
        kind: loss == .undecided ? .undecided : .lostValue, objectID: objectID, entity: entity.name, lost: [update(isOfSent ? contest.sent : contest.current)],
        kept: update(isOfSent ? contest.current : contest.sent), ancestor: contest.ancestor.map { update($0.content) },
        edit: isOfSent ? judge.author : contest.setter ?? Stamp(timestamp: 0, userRecordName: "")))
  }

  /// A to-one relationship that somebody else set without this edit's knowing: the last arrival wins, and what it had is written down.
  mutating func noteOverwritten(_ relationship: RelationshipDescription, field: String, of change: HistoryChange, entity: EntityDescription, by target: String?) throws {
    guard let judge, let edit = judge.edit, let entry = overlay.known(change.objectID), judge.contested(entry.base) != nil else { return }
    let current = entry.record?.fields.string(field)
    guard current != target, current == entry.baseRecord?.fields.string(field) else { return }
    let past = try past(of: change, since: edit.base)
    guard case .known(let ancestor) = past.pointer(field), ancestor != current, let setter = past.setter(where: { $0?.fields.string(field) }),
      setter.deviceID != stamp.deviceID
    else { return }
    func update(_ value: String?) -> HistoryChange { change.only(relationship.name, .toOne(value)) }
    self.judge?.note(
      ConflictLoss(
        kind: .lostValue, objectID: change.objectID, entity: entity.name, lost: [update(current)], kept: update(target), ancestor: update(ancestor), edit: setter))
  }
}

/// A record's past from the point of view of an edit.
struct RecordPast {
  private let ancestor: RecordHistory.Ancestor
  private let states: [RecordHistory.State]

  init(_ history: RecordHistory, isInsert: Bool) {
    // Nobody edits what he never heard of: whatever he said, he had seen it being made.
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
    case .record(let record): (FieldContent(of: attribute, in: record), record.version(of: attribute.fieldName))
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

  /// Who gave something its present value, after the ancestor; nil: nobody did.
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
  /// What an integer stands for where there is none.
  fileprivate var defaultNumber: Int64 { if case .integer(let number) = defaultAttributeValue { number } else { 0 } }

  /// A field's value for the journal: what can't be read is left out, with the record that has it.
  fileprivate func journaled(_ value: FieldValue?, entity: String) -> AttributeValue {
    switch value {
    case nil: .null
    case .asset(let asset)?: .asset(asset)
    // Dropped because a value that fits no attribute is nothing that could be restored.
    case let value?: (try? decode(value, entity: entity)) ?? .null
    }
  }

  fileprivate func decoded(_ value: FieldValue, recordName: String, entity: String) throws(MirroringProblem) -> AttributeValue {
    do {
      return try decode(value, entity: entity)
    } catch {
      throw MirroringProblem(recordName: recordName, entity: entity, code: .badRequest, reason: error.reason)
    }
  }
}
