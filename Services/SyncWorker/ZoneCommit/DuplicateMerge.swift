// Merges duplicates in the commit that finds them (D3): every writer of a zone hands its writes to this, in the
// same body.

import Mirroring
import ObjectModel
import RecordStore
import Records
import ServiceKit

/// Merges what one batch wrote to a zone, and follows what it says of duplicates that were merged before.
struct DuplicateMerge {
  /// A record that was written.
  struct Touched {
    /// As it was; nil when there was none alive.
    let earlier: Record?
    /// As it is; nil when it was deleted.
    let later: Record?

    var recordName: String { later?.recordName ?? earlier?.recordName ?? "" }

    /// Each record once: as it was before its first write, and as it is after its last.
    static func lastOfEach(_ items: some Sequence<Touched>) -> [Touched] {
      var places: [String: Int] = [:]
      var merged: [Touched] = []
      for item in items {
        if let place = places[item.recordName] {
          merged[place] = Touched(earlier: merged[place].earlier, later: item.later)
        } else {
          places[item.recordName] = merged.count
          merged.append(item)
        }
      }
      return merged
    }
  }

  struct Outcome {
    /// Everything that was written, in order.
    var writes: [PlannedWrite] = []
    /// The rows that came of it, by record name.
    var stored: [String: StoredRecord] = [:]
    /// More is to be done than one commit may.
    var isUnfinished = false
  }

  let transaction: any ShardTransaction
  let zone: StoredZone
  let schema: EnvironmentSchema
  /// The server's, for whoever's batch it is.
  let writer: ZoneWriter
  let stamp: Stamp
  let random: any RandomSource
  /// Whether whoever writes may write to a record; in a private database everybody may who writes at all (T-D05).
  var mayWrite: (Record) -> Bool = { _ in true }
  private(set) var outcome = Outcome()
  /// Pointers that may still be moved in this commit.
  private var room = DuplicateMerge.pointerLimit

  /// Pointers one commit moves: the rest follows behind it.
  static let pointerLimit = 400
  /// Records of one group that one commit merges.
  static let groupLimit = 200
  private static let redirectLimit = 200
  /// Records of one group that are looked at in one commit, merged ones among them.
  static let lookLimit = 1000

  init(in zone: StoredZone, of commit: ZoneCommit) {
    transaction = commit.transaction
    self.zone = zone
    schema = commit.schema
    writer = commit.plainWriter(to: zone)
    stamp = Stamp(timestamp: commit.terms.stamp.timestamp, userRecordName: commit.terms.stamp.userRecordName)
    random = commit.terms.random
  }

  /// Whether anything need be merged or followed in a database: what every save asks.
  static func concerns(_ database: Int64, _ schema: EnvironmentSchema, in transaction: any ShardTransaction) throws -> Bool {
    if schema.uniqueRules != nil { return true }
    return try transaction.hasRedirects(in: database)
  }

  /// Takes the rules' indexes into use, if they are not: to be called before a batch is written, so that it is in them.
  static func prepare(_ database: Int64, _ schema: EnvironmentSchema, in transaction: any ShardTransaction) throws {
    for rule in schema.uniqueRules?.all ?? [] { _ = try transaction.makeIndex(rule.index, in: database) }
  }

  /// - Parameter touched: each record once.
  mutating func run(_ touched: [Touched]) throws -> Outcome {
    var touched = touched
    if try transaction.hasRedirects(in: zone.databaseKey) { touched += try follow(touched) }
    guard let rules = schema.uniqueRules else { return outcome }
    var seen: Set<[UInt8]> = []
    for item in touched {
      guard let later = item.later else { continue }
      for rule in rules.byRecordType[later.recordType] ?? [] where rule.policy == .mergeLowestUUID {
        guard let key = rule.newKey(of: later, replacing: item.earlier), seen.insert(Array(rule.declaration.text.utf8) + key).inserted else { continue }
        try mergeGroup(key, by: rule, with: later)
      }
    }
    return outcome
  }

  // MARK: A group

  /// Merges the records that share a key. A damaged one among them keeps them apart, and says so when it is read by somebody.
  /// - Parameter member: one that has just come to share it, and may be too far down among the others to be found.
  /// - Returns: whether there were more than one commit merges.
  @discardableResult mutating func mergeGroup(_ key: [UInt8], by rule: UniqueRule, with member: Record? = nil) throws -> Bool {
    let mayWrite = mayWrite
    guard var group = try unlessDamaged({ try transaction.sharing(key, of: rule, in: zone, limit: Self.groupLimit, where: mayWrite).map(\.record) }) else {
      return false
    }
    if let member, mayWrite(member), !group.contains(where: { $0.recordName == member.recordName }),
      try transaction.redirect(of: member.recordName, in: zone.key)?.isPending != true
    {
      group.append(member)
    }
    if group.count >= Self.groupLimit { outcome.isUnfinished = true }
    // Those of another subentity may lack relationships that others point by.
    for (_, members) in Dictionary(grouping: group, by: \.entityName).sorted(by: { $0.key < $1.key }) where members.count > 1 {
      try unlessDamaged { try merge(members.map(\.recordName).sorted(by: Deduplicator.survives), by: rule) }
    }
    return group.count >= Self.groupLimit
  }

  /// - Parameter names: the survivor first.
  private mutating func merge(_ names: [String], by rule: UniqueRule) throws {
    let survivor = names[0]
    // It may have been a duplicate that was removed, and is an object again.
    try transaction.removeRedirect(of: survivor, in: zone.key)
    var deduplicator = deduplicator(rule.model)
    var redirects: [StoredRedirect] = []
    for loser in names.dropFirst() { try deduplicator.merge(loser, into: survivor, of: Set(names)) }
    for loser in names.dropFirst() {
      let progress: StoredRedirect.Progress = try movePointers(from: loser, to: survivor, &deduplicator) ? .moved : []
      redirects.append(StoredRedirect(loser: loser, survivor: survivor, since: stamp.timestamp, rule: rule.declaration.text, progress: progress))
    }
    for redirect in redirects { try transaction.put(redirect, in: zone.key) }
    try write(deduplicator.plan())
  }

  /// - Returns: whether nothing is left.
  private mutating func movePointers(from loser: String, to survivor: String, _ deduplicator: inout Deduplicator) throws -> Bool {
    let pointers = try transaction.references(to: loser, in: zone.key, limit: room + 1).filter { $0.field != ReservedName.parentReference }
    for pointer in pointers.prefix(room) {
      try unlessDamaged { try deduplicator.move(RecordPointer(field: pointer.field, source: pointer.source), from: loser, to: survivor) }
    }
    let isDone = pointers.count <= room
    room -= min(room, pointers.count)
    if !isDone { outcome.isUnfinished = true }
    return isDone
  }

  private func deduplicator(_ model: MirrorModel) -> Deduplicator {
    let random = random
    return Deduplicator(
      model: model.index, links: model.links, source: ZoneSource(zone, in: transaction), stamp: stamp, makeRecordName: { random.uuid() })
  }

  /// The model that is asked where no rule is.
  private var anyModel: MirrorModel { schema.anyModel ?? MirrorModel(ModelIndex(ManagedObjectModel(entities: []))) }

  private mutating func write(_ writes: [PlannedWrite]) throws {
    for write in writes {
      let name = write.item.recordName
      let existing = try transaction.record(named: name, in: zone.key)
      switch write.item {
      case .save(let record, _): outcome.stored[name] = try writer.save(record, replacing: existing)
      case .delete: if let existing { outcome.stored[name] = try writer.delete(existing, modified: stamp) }
      }
    }
    outcome.writes += writes
  }

  // MARK: What was merged before

  /// Brings what was said of duplicates to the objects that stand for them.
  /// - Returns: the survivors that are changed by that.
  private mutating func follow(_ touched: [Touched]) throws -> [Touched] {
    var deduplicator = deduplicator(anyModel)
    var survivors: [String] = []
    for item in touched {
      guard let later = item.later else {
        try settleRedirect(of: item.recordName)
        try removeDuplicates(of: item.recordName, &deduplicator)
        continue
      }
      if let redirect = try transaction.redirect(of: later.recordName, in: zone.key) {
        if !redirect.isPending || item.earlier == nil {
          // Made again after it was deleted: an object like any other.
          try transaction.removeRedirect(of: later.recordName, in: zone.key)
        } else if let earlier = item.earlier, try mayWrite(to: redirect.survivor) {
          try unlessDamaged { try deduplicator.carry(from: earlier, to: later, into: redirect.survivor) }
          survivors.append(redirect.survivor)
        }
      }
      let references = schema.references(of: later)
      // Both ends of a pair may be duplicates.
      for reference in references { deduplicator.standIns[reference.target] = try effectiveRedirect(of: reference.target)?.survivor }
      for reference in references {
        guard let redirect = try effectiveRedirect(of: reference.target) else { continue }
        try unlessDamaged {
          try deduplicator.move(RecordPointer(field: reference.field, source: later.recordName), from: reference.target, to: redirect.survivor)
        }
      }
    }
    var before: [String: Record] = [:]
    for name in survivors { before[name] = try unlessDamaged { try transaction.record(named: name, in: zone.key) }?.flatMap { $0.isDeleted ? nil : $0.record } }
    try write(deduplicator.plan())
    return before.sorted { $0.key < $1.key }.map { name, earlier in Touched(earlier: earlier, later: outcome.stored[name].map(\.record) ?? earlier) }
  }

  /// What a name stands for now.
  private func effectiveRedirect(of name: String) throws -> StoredRedirect? {
    guard let redirect = try transaction.redirect(of: name, in: zone.key) else { return nil }
    if redirect.isPending { return redirect }
    let isAlive = try unlessDamaged { try transaction.record(named: name, in: zone.key)?.isDeleted == false } ?? true
    return isAlive ? nil : redirect
  }

  private func mayWrite(to name: String) throws -> Bool {
    try unlessDamaged { try transaction.record(named: name, in: zone.key).map { mayWrite($0.record) } ?? true } ?? false
  }

  /// A duplicate that somebody else deletes need not be removed any more.
  private func settleRedirect(of name: String) throws {
    guard var redirect = try transaction.redirect(of: name, in: zone.key), redirect.isPending else { return }
    redirect.removedAt = stamp.timestamp
    try transaction.put(redirect, in: zone.key)
  }

  /// Whoever deletes an object deletes its duplicates, which only wait for that; those that he may not write are objects of their own again.
  private func removeDuplicates(of survivor: String, _ deduplicator: inout Deduplicator) throws {
    for var redirect in try transaction.redirects(to: survivor, in: zone.key, limit: Self.lookLimit) where redirect.isPending {
      guard try mayWrite(to: redirect.loser) else {
        try transaction.removeRedirect(of: redirect.loser, in: zone.key)
        continue
      }
      guard try unlessDamaged({ try deduplicator.remove(redirect.loser) }) != nil else { continue }
      redirect.removedAt = stamp.timestamp
      try transaction.put(redirect, in: zone.key)
    }
  }

  // MARK: What waits

  /// Moves what still points to duplicates, and removes those whose time has come.
  /// - Parameter name: the last duplicate that was looked at; nil at first.
  /// - Returns: the last one looked at now, nil when there are no others, or when what was looked at is unfinished and has to be looked at again.
  mutating func advance(after name: String?) throws -> (outcome: Outcome, last: String?) {
    let pending = try transaction.pendingRedirects(in: zone.key, afterName: name, limit: Self.redirectLimit)
    var deduplicator = deduplicator(anyModel)
    for redirect in pending { deduplicator.standIns[redirect.loser] = redirect.survivor }
    for var redirect in pending where redirect.isDue {
      if room == 0 {
        outcome.isUnfinished = true
        break
      }
      let isMoved = try movePointers(from: redirect.loser, to: redirect.survivor, &deduplicator)
      if isMoved { redirect.progress.insert(.moved) } else { redirect.progress.remove(.moved) }
      if redirect.progress == .all, try unlessDamaged({ try deduplicator.remove(redirect.loser) }) != nil {
        redirect.removedAt = stamp.timestamp
        room -= min(room, 1)
      }
      try transaction.put(redirect, in: zone.key)
    }
    try write(deduplicator.plan())
    return (outcome, pending.count == Self.redirectLimit && !outcome.isUnfinished ? pending.last?.loser : nil)
  }
}

extension StoredRedirect {
  /// Whether there is something to be done for it now: pointers to move, or the duplicate to remove.
  var isDue: Bool { isPending && (progress == .all || !progress.contains(.moved)) }
}

/// What is wrong with a record its next reader is told: it must hold up neither the batch that came upon it nor other duplicates. Nothing is
/// lost by two objects that stay two, or by a pointer that stays where it is.
@discardableResult func unlessDamaged<Value>(_ body: () throws -> Value) throws -> Value? {
  do {
    return try body()
  } catch StoreError.corrupt {
    // Dropped because `verify` and the record's readers tell of it.
    return nil
  }
}
