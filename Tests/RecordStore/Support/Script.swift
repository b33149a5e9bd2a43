// Random bodies for the comparison of the two stores.

import Indexing
import Records

@testable import RecordStore

struct Script: Sendable {
  var steps: [ScriptStep]

  static let names = (0..<14).map { $0 % 3 == 0 ? "name \($0)" : Sample.uuid($0 * 0x1111) }
  static let types = ["CD_Note", "CD_Tag", "CDMR"]
  static let fields = ["CD_parent", "CD_recordNames"]
  static let indexes = [
    FieldIndex(recordsOfType: "CD_Note"), Sample.titles,
    FieldIndex(recordType: "CD_Tag", key: .field("CD_title"), kind: .words),
    FieldIndex(recordType: "CD_Note", key: .system(.modifiedTimestamp), kind: .value),
    FieldIndex(recordType: "CDMR", key: .system(.recordName), kind: .value),
    FieldIndex(uniqueFields: ["CD_title"], ofRecordType: "CD_Note"),
  ]
  struct Stop: Error {}

  init(using generator: inout SeededGenerator, at: Int64) {
    func number(_ limit: Int) -> Int { Int.random(in: 0..<limit, using: &generator) }
    steps = (0..<1 + number(6)).map { _ in
      let (owner, zone, name, mirror) = (number(3), number(3), number(Self.names.count), number(3))
      switch number(100) {
      case 0..<4: return .makeDatabase(owner: owner)
      case 4..<12: return .makeZone(owner: owner, zone: zone)
      case 12..<14: return .deleteZone(owner: owner, zone: zone)
      case 14..<17: return .subscribe(owner: owner, user: zone, identifier: mirror, payload: name % 4)
      case 17..<19: return .unsubscribe(owner: owner, position: name % 5)
      case 19..<50:
        return .save(
          owner: owner, zone: zone, name: name, type: number(12) == 0 ? number(3) : name % 3,
          targets: (0..<number(4)).map { _ in number(Self.names.count) },
          origin: Int64(number(3)), looksFirst: number(3) > 0)
      case 50..<58: return .delete(owner: owner, zone: zone, name: name)
      case 58..<60: return .saveAsNew(owner: owner, zone: zone, name: name)
      case 60..<64: return .makeMirror(owner: owner, mirror: mirror)
      case 64..<65: return .deleteMirror(owner: owner, mirror: mirror)
      case 65..<75: return .append(owner: owner, mirror: mirror, id: number(40))
      case 75..<79: return .exported(owner: owner, mirror: mirror)
      case 79..<80: return .purge(owner: owner, mirror: mirror, keep: Int64(number(4)))
      case 80..<81:
        return .consume(owner: owner, mirror: mirror, name: name, number: number(3) == 0 ? nil : Int64(name))
      case 81..<84: return .event(owner: owner, mirror: mirror, kind: number(3), ends: Int64(number(8)))
      case 84: return .quarantine(owner: owner, mirror: mirror, name: name, at: at)
      case 85:
        switch number(4) {
        case 0: return .release(owner: owner, mirror: mirror, name: name)
        case 1: return .retry(owner: owner, mirror: mirror, which: zone + name % 2, at: at)
        case 2:
          return number(3) > 0
            ? .quarantine(owner: owner, mirror: mirror, name: name, at: at) : .resetMirror(owner: owner, mirror: mirror)
        default: return .quarantine(owner: owner, mirror: mirror, name: name, at: at)
        }
      case 86..<88:
        return number(3) > 0
          ? .makeIndex(owner: owner, index: number(Self.indexes.count))
          : .dropIndex(owner: owner, index: number(Self.indexes.count))
      case 88..<90: return .outcome(key: number(60), at: at * 10 + Int64(number(10)))
      case 90..<91 where number(20) == 0: return .forgetPast(before: number(2) == 0 ? 1001 : 1000)
      case 90..<92: return .forget(before: at * 10 - Int64(number(40)), limit: 1 + number(8))
      case 92: return .conflict(owner: owner, name: name, state: number(3), at: at)
      case 93 where number(3) == 0:
        return number(2) == 0
          ? .settle(owner: owner, position: name, at: at) : .forgetConflicts(before: at, limit: zone)
      case 93: return .readZones(owner: owner)
      case 95: return .readCounts
      case 94: return .share(owner: owner, zone: zone, number: number(3), user: number(3), choice: number(6))
      case 96, 97: return .redirect(owner: owner, zone: zone, loser: name, survivor: number(Self.names.count), at: at)
      default: return .fail
      }
    }
  }

  /// Runs the steps.
  /// - Returns: the results that the body saw, as text.
  func run(in transaction: any ShardTransaction) throws -> [String] {
    try steps.map { try Self.run($0, in: transaction) }
  }

  static func place(_ owner: Int, _ zone: Int, in transaction: any ShardTransaction) throws -> Place? {
    guard let database = try transaction.database(Sample.database("\(owner)")),
      let zone = try transaction.zone(named: "zone \(zone)", in: database.key),
      !zone.isDeleted
    else { return nil }
    return Place(database: database.key, zone: zone.key)
  }

  static func mirror(_ owner: Int, _ mirror: Int, in transaction: any ShardTransaction) throws -> StoredMirror? {
    guard let database = try transaction.database(Sample.database("\(owner)")) else { return nil }
    return try transaction.mirror("mirror \(mirror)", in: database.key)
  }

  /// A description without differences between the stores: the oracle fills in at once.
  static func comparable(_ database: StoredDatabase?) -> String {
    guard var database else { return "none" }
    if database.placementState != .untracked { database.placementState = .noted }
    return "\(database)"
  }

  private static func run(_ step: ScriptStep, in transaction: any ShardTransaction) throws -> String {
    switch step {
    case .makeDatabase(let owner): return comparable(try transaction.makeDatabase(Sample.database("\(owner)")))
    case .makeZone(let owner, let zone):
      let database = try transaction.makeDatabase(Sample.database("\(owner)"))
      return "\(try transaction.makeZone(named: "zone \(zone)", in: database.key))"
    case .deleteZone(let owner, let zone):
      guard let place = try place(owner, zone, in: transaction) else { return "none" }
      try transaction.deleteZone(place.zone)
      return
        """
        \(String(describing: try transaction.zone(key: place.zone))) \
        \(try transaction.changes(in: place.zone, after: 0, limit: 9))
        """
    case .save(let owner, let zone, let name, let type, let targets, let origin, let looksFirst):
      guard let place = try place(owner, zone, in: transaction) else { return "none" }
      return "\(try save(name, type, targets, origin, looksFirst: looksFirst, in: place, transaction))"
    case .delete(let owner, let zone, let name):
      guard let place = try place(owner, zone, in: transaction) else { return "none" }
      return "\(String(describing: try transaction.delete(names[name], in: place)))"
    case .saveAsNew(let owner, let zone, let name):
      guard let place = try place(owner, zone, in: transaction) else { return "none" }
      let stored = StoredRecord(
        record: Sample.note(names[name]), isDeleted: false, sequence: try transaction.nextSequence(in: place.database),
        origin: 0, sequenceOfOthers: 0)
      try transaction.put(stored, in: place.zone, references: [], isNew: true)
      return "new"
    case .subscribe(let owner, let user, let identifier, let payload):
      let database = try transaction.makeDatabase(Sample.database("\(owner)"))
      let key = try transaction.putSubscription(
        "subscription \(identifier)", of: "user \(user)", scope: payload == 0 ? .shared : .private,
        payload: [UInt8(payload)], in: database.key)
      return "\(key)"
    case .unsubscribe(let owner, let position):
      guard let database = try transaction.database(Sample.database("\(owner)")) else { return "none" }
      let all = try transaction.subscriptions(in: database.key, afterKey: 0, limit: 99)
      try transaction.deleteSubscription(all.indices.contains(position) ? all[position].key : 999_999, in: database.key)
      return
        """
        \(all.count) \(try transaction.subscriptionCount(in: database.key)) \
        \(comparable(try transaction.database(key: database.key)))
        """
    case .readZones(let owner):
      guard let database = try transaction.database(Sample.database("\(owner)")) else { return "none" }
      return "\(try transaction.zones(in: database.key, after: 0, limit: 9))"
    case .readCounts: return "\(try transaction.counts())"
    case .fail: throw Stop()
    default: return try runHistory(step, in: transaction)
    }
  }

  private static func save(
    _ name: Int, _ type: Int, _ targets: [Int], _ origin: Int64, looksFirst: Bool, in place: Place,
    _ transaction: any ShardTransaction
  ) throws -> StoredRecord {
    let existing = looksFirst ? try transaction.record(named: names[name], in: place.zone) : nil
    let sequence = try transaction.nextSequence(in: place.database)
    var record = Sample.note(names[name], type: types[type], title: "at \(sequence)", at: sequence)
    if name % 4 == 0 { record.shortGUID = shortGUID(name, in: place.zone) }
    let stored = StoredRecord(
      record: record, isDeleted: false, sequence: sequence, origin: origin,
      sequenceOfOthers: existing?.sequence ?? 0)
    try transaction.put(
      stored, in: place.zone,
      references: targets.map {
        OutgoingReference(field: fields[$0 % 2], target: names[$0], action: Reference.Action.allCases[$0 % 3])
      },
      isNew: looksFirst && existing == nil)
    return stored
  }

  static func shortGUID(_ name: Int, in zone: Int64) -> String { "0zone\(zone)name\(name)" }

  private static func runHistory(_ step: ScriptStep, in transaction: any ShardTransaction) throws -> String {
    switch step {
    case .makeMirror(let owner, let mirror):
      let database = try transaction.makeDatabase(Sample.database("\(owner)"))
      if let mirror = try transaction.mirror("mirror \(mirror)", in: database.key) { return "\(mirror)" }
      let made = try transaction.makeMirror(
        "mirror \(mirror)", in: database.key, userRecordName: "\(owner)", scope: .private, modelHash: "h",
        configuration: nil, deviceName: "d", createdAt: 1)
      return "\(made)"
    case .deleteMirror(let owner, let mirror):
      guard let row = try Self.mirror(owner, mirror, in: transaction) else { return "none" }
      try transaction.deleteMirror(row.key)
      return
        "deleted, \(try transaction.forgetFormerMirrors(removedBefore: owner == 0 ? 1001 : 1000, limit: 2)) forgotten"
    case .append(let owner, let mirror, let id):
      guard let row = try Self.mirror(owner, mirror, in: transaction) else { return "none" }
      try transaction.append(
        HistoryConformanceTests.transaction(
          row.lastTransactionNumber + 1, id: transactionID(id), payload: [UInt8(id)]),
        to: row.key)
      return "\(try transaction.mirrorsAwaitingExport(afterKey: 0, limit: 99))"
    case .exported(let owner, let mirror):
      guard var row = try Self.mirror(owner, mirror, in: transaction) else { return "none" }
      row.exportedTransactionNumber = row.lastTransactionNumber
      row.exportedStepCount = (row.exportedStepCount + 3) % 7
      row.deviceName = row.deviceName == nil ? "back" : nil
      try transaction.update(row)
      return "\(try transaction.mirrors(afterKey: 0, limit: 99))"
    case .purge(let owner, let mirror, let keep):
      guard let row = try Self.mirror(owner, mirror, in: transaction) else { return "none" }
      let purged = try transaction.purgeTransactions(of: row.key, through: row.lastTransactionNumber - keep)
      return
        """
        \(purged) \
        \(try transaction.forgetTransactions(of: row.key, appendedBefore: 996 + row.lastTransactionNumber, limit: 3))
        """
    case .consume(let owner, let mirror, let name, let number):
      guard let row = try Self.mirror(owner, mirror, in: transaction) else { return "none" }
      if let number {
        try transaction.put(
          StoredConsumer(name: names[name], transactionNumber: number, seenAt: row.lastTransactionNumber), of: row.key)
      } else {
        try transaction.deleteConsumer(named: names[name], of: row.key)
      }
      return
        """
        \(try transaction.consumers(of: row.key)) \
        \(String(describing: try transaction.firstTransaction(of: row.key, appendedAtOrAfter: 1003)))
        """
    case .event(let owner, let mirror, let kind, let ends):
      guard let row = try Self.mirror(owner, mirror, in: transaction) else { return "none" }
      let earlier = try transaction.events(of: row.key, after: 0, kind: nil, limit: 99)
      let number = earlier.indices.contains(Int(ends)) ? earlier[Int(ends)].number : 0
      let event = StoredEvent(
        number: number, identifier: "\(ends)", kind: StoredEvent.Kind(rawValue: kind) ?? .setup, startedAt: ends,
        endedAt: number == 0 ? nil : 9,
        errorJSON: ends == 1 ? [1] : nil, savedCount: kind)
      return "\(try transaction.put(event, of: row.key))"
    case .quarantine, .release, .retry, .resetMirror: return try runQuarantine(step, in: transaction)
    case .redirect: return try runRedirect(step, in: transaction)
    case .share: return try runSharing(step, in: transaction)
    case .conflict, .settle, .forgetConflicts: return try runJournal(step, in: transaction)
    case .makeIndex(let owner, let index):
      let database = try transaction.makeDatabase(Sample.database("\(owner)"))
      return "\(try transaction.makeIndex(indexes[index], in: database.key).key)"
    case .dropIndex(let owner, let index):
      guard let database = try transaction.database(Sample.database("\(owner)")),
        let known = try transaction.indexes(in: database.key).first(where: { $0.index == indexes[index] })
      else { return "none" }
      try transaction.dropIndex(known.key)
      return "\(try transaction.indexes(in: database.key).map(\.key))"
    case .outcome(let key, let at):
      if let payload = try transaction.outcome(of: idempotencyKey(key)) { return "\(payload)" }
      try transaction.putOutcome([UInt8(key)], of: idempotencyKey(key), at: at)
      return "stored"
    // Without the number: rows of deleted zones wait for their sweep in one store only.
    case .forgetPast(let before):
      _ = try transaction.forgetPast(replacedBefore: before, limit: .max)
      return "forgotten"
    case .forget(let before, let limit): return "\(try transaction.forgetOutcomes(before: before, limit: limit))"
    default: return "unknown step"
    }
  }

  private static func runQuarantine(_ step: ScriptStep, in transaction: any ShardTransaction) throws -> String {
    switch step {
    case .quarantine(let owner, let mirror, let name, let at):
      guard let row = try Self.mirror(owner, mirror, in: transaction) else { return "none" }
      let object = StoredQuarantine(
        mirror: row.key, name: names[name], entity: "Note", cause: name % 3, code: "BAD_REQUEST",
        cocoaErrorCode: name % 2 == 0 ? nil : 134060, reason: "r",
        firstAt: at, lastAt: at, attempts: name, dueAt: name == 0 ? StoredQuarantine.never : at + Int64(name % 4),
        schemaVersion: at % 3)
      try transaction.putQuarantined(object, changes: [UInt8(name), UInt8(truncatingIfNeeded: at)], assets: [])
      return
        """
        \(String(describing: try transaction.mirror(key: row.key)?.quarantinedCount)) \
        \(String(describing: try transaction.quarantined(names[name], of: row.key)))
        """
    case .release(let owner, let mirror, let name):
      guard let row = try Self.mirror(owner, mirror, in: transaction) else { return "none" }
      try transaction.removeQuarantined(names[name], of: row.key)
      return "\(try transaction.mirrorsWithQuarantine(afterKey: 0, limit: 9))"
    case .retry(let owner, let mirror, let which, let at):
      guard let row = try Self.mirror(owner, mirror, in: transaction) else { return "none" }
      let selections: [QuarantineSelection] = [
        .all, .cause(1), .otherSchema(than: at % 3), .names([names[1], names[2], names[1]]),
      ]
      return
        """
        \(try transaction.retryQuarantined(selections[which], of: row.key, at: at)) \
        \(String(describing: try transaction.nextQuarantineDue()))
        """
    case .resetMirror(let owner, let mirror):
      guard let row = try Self.mirror(owner, mirror, in: transaction) else { return "none" }
      return "\(try transaction.resetMirror(row.key))"
    default: return "unknown step"
    }
  }
}
