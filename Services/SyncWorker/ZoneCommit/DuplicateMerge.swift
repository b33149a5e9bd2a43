// Merges duplicates in the commit that finds them (D3): every writer of a zone passes its writes here, in the
// same body.

package import Mirroring
import ObjectModel
package import RecordStore
package import Records
import ServiceKit

/// Merges the records of one batch for a zone, and carries changes of merged duplicates to their survivors.
package struct DuplicateMerge {
  /// A record that was written.
  struct Touched {
    /// The record before the write; nil if none was alive.
    let earlier: Record?
    /// The record after the write; nil if it was deleted.
    let later: Record?

    var recordName: String { later?.recordName ?? earlier?.recordName ?? "" }

    /// Each record once: its state before its first write and after its last.
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

  package struct Outcome {
    /// All writes, in order.
    package var writes: [PlannedWrite] = []
    /// The resulting rows, by record name.
    package var stored: [String: StoredRecord] = [:]
    /// True if work is left beyond the limits of one commit.
    package var isUnfinished = false
  }

  let transaction: any ShardTransaction
  let zone: StoredZone
  let schema: EnvironmentSchema
  /// Writes as the server, for any user's batch.
  let writer: ZoneWriter
  let stamp: Stamp
  let random: any RandomSource
  /// True if the caller may write a record. A private database needs no such check (T-D05).
  var mayWrite: (Record) -> Bool = { _ in true }
  package private(set) var outcome = Outcome()
  /// Pointers that this commit may still move.
  private var room = DuplicateMerge.pointerLimit

  /// The most pointers that one commit moves; `DuplicateKeeper` moves the rest.
  static let pointerLimit = 400
  /// The most records of one group that one commit merges.
  static let groupLimit = 200
  private static let redirectLimit = 200

  package init(in zone: StoredZone, of commit: ZoneCommit) {
    transaction = commit.transaction
    self.zone = zone
    schema = commit.schema
    writer = commit.plainWriter(to: zone)
    stamp = Stamp(timestamp: commit.terms.stamp.timestamp, userRecordName: commit.terms.stamp.userRecordName)
    random = commit.terms.random
  }

  /// True if a database has unique constraints or redirects. Every save asks this.
  static func concerns(_ database: Int64, _ schema: EnvironmentSchema, in transaction: any ShardTransaction) throws
    -> Bool
  {
    if schema.uniqueRules != nil { return true }
    return try transaction.hasRedirects(in: database)
  }

  /// Makes missing indexes of the rules. Called before a batch is written, so that the indexes contain it.
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
        guard let key = rule.newKey(of: later, replacing: item.earlier),
          seen.insert(Array(rule.declaration.text.utf8) + key).inserted
        else { continue }
        try mergeGroup(key, by: rule, with: later)
      }
    }
    return outcome
  }

  // MARK: A group

  /// Merges the records that share a key. A damaged record prevents the merge; its next reader reports the damage.
  /// - Parameter member: the record that has just got the key, because the group's limit may leave it out.
  /// - Returns: true if the group has more records than one commit merges.
  @discardableResult package mutating func mergeGroup(_ key: [UInt8], by rule: UniqueRule, with member: Record? = nil)
    throws -> Bool
  {
    let mayWrite = mayWrite
    guard
      var group = try unlessDamaged({
        try transaction.sharing(key, of: rule, in: zone, limit: Self.groupLimit, where: mayWrite).map(\.record)
      })
    else {
      return false
    }
    if let member, mayWrite(member), !group.contains(where: { $0.recordName == member.recordName }),
      try transaction.redirect(of: member.recordName, in: zone.key)?.isPending != true
    {
      group.append(member)
    }
    if group.count >= Self.groupLimit { outcome.isUnfinished = true }
    // Records of another subentity may lack relationships that others point by.
    for (_, members) in Dictionary(grouping: group, by: \.entityName).sorted(by: { $0.key < $1.key })
    where members.count > 1 {
      try unlessDamaged { try merge(members.map(\.recordName).sorted(by: Deduplicator.survives), by: rule) }
    }
    return group.count >= Self.groupLimit
  }

  /// - Parameter names: the survivor first.
  private mutating func merge(_ names: [String], by rule: UniqueRule) throws {
    let survivor = names[0]
    // The survivor may be a removed duplicate that was made again.
    try transaction.removeRedirect(of: survivor, in: zone.key)
    var deduplicator = deduplicator(rule.model)
    var redirects: [StoredRedirect] = []
    for loser in names.dropFirst() { try deduplicator.merge(loser, into: survivor, of: Set(names)) }
    for loser in names.dropFirst() {
      let progress: StoredRedirect.Progress = try movePointers(from: loser, to: survivor, &deduplicator) ? .moved : []
      redirects.append(
        StoredRedirect(
          loser: loser, survivor: survivor, since: stamp.timestamp, rule: rule.declaration.text, progress: progress))
    }
    for redirect in redirects { try transaction.put(redirect, in: zone.key) }
    try write(deduplicator.plan())
  }

  /// - Returns: true if no pointers are left.
  private mutating func movePointers(from loser: String, to survivor: String, _ deduplicator: inout Deduplicator) throws
    -> Bool
  {
    let pointers = try transaction.references(to: loser, in: zone.key, limit: room + 1).filter {
      $0.field != ReservedName.parentReference
    }
    for pointer in pointers.prefix(room) {
      try unlessDamaged {
        try deduplicator.move(RecordPointer(field: pointer.field, source: pointer.source), from: loser, to: survivor)
      }
    }
    let isDone = pointers.count <= room
    room -= min(room, pointers.count)
    if !isDone { outcome.isUnfinished = true }
    return isDone
  }

  private func deduplicator(_ model: MirrorModel) -> Deduplicator {
    let random = random
    return Deduplicator(
      model: model.index, links: model.links, source: ZoneSource(zone, in: transaction), stamp: stamp,
      makeRecordName: { random.uuid() })
  }

  /// The model for work without a rule.
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

  // MARK: Earlier merges

  /// Carries changes of duplicates to their survivors.
  /// - Returns: the changed survivors.
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
          // An object that is made again after its deletion is independent.
          try transaction.removeRedirect(of: later.recordName, in: zone.key)
        } else if let earlier = item.earlier, try mayWrite(to: redirect.survivor) {
          try unlessDamaged { try deduplicator.carry(from: earlier, to: later, into: redirect.survivor) }
          survivors.append(redirect.survivor)
        }
      }
      let references = schema.references(of: later)
      // Both ends of a pair may be duplicates.
      for reference in references {
        deduplicator.standIns[reference.target] = try effectiveRedirect(of: reference.target)?.survivor
      }
      for reference in references {
        guard let redirect = try effectiveRedirect(of: reference.target) else { continue }
        try unlessDamaged {
          try deduplicator.move(
            RecordPointer(field: reference.field, source: later.recordName), from: reference.target,
            to: redirect.survivor)
        }
      }
    }
    var before: [String: Record] = [:]
    for name in survivors {
      before[name] = try unlessDamaged { try transaction.record(named: name, in: zone.key) }?.flatMap {
        $0.isDeleted ? nil : $0.record
      }
    }
    try write(deduplicator.plan())
    return before.sorted { $0.key < $1.key }.map { name, earlier in
      Touched(earlier: earlier, later: outcome.stored[name].map(\.record) ?? earlier)
    }
  }

  /// The redirect that is in force for a name; nil if the name stands for itself.
  private func effectiveRedirect(of name: String) throws -> StoredRedirect? {
    guard let redirect = try transaction.redirect(of: name, in: zone.key) else { return nil }
    if redirect.isPending { return redirect }
    let isAlive = try unlessDamaged { try transaction.record(named: name, in: zone.key)?.isDeleted == false } ?? true
    return isAlive ? nil : redirect
  }

  private func mayWrite(to name: String) throws -> Bool {
    try unlessDamaged { try transaction.record(named: name, in: zone.key).map { mayWrite($0.record) } ?? true } ?? false
  }

  /// Marks a duplicate as removed after another writer deleted it.
  private func settleRedirect(of name: String) throws {
    guard var redirect = try transaction.redirect(of: name, in: zone.key), redirect.isPending else { return }
    redirect.removedAt = stamp.timestamp
    try transaction.put(redirect, in: zone.key)
  }

  /// Deletes an object's waiting duplicates with it. Those that the caller may not write become independent objects.
  private func removeDuplicates(of survivor: String, _ deduplicator: inout Deduplicator) throws {
    for var redirect in try transaction.redirects(to: survivor, in: zone.key, limit: UniqueRule.lookLimit)
    where redirect.isPending {
      guard try mayWrite(to: redirect.loser) else {
        try transaction.removeRedirect(of: redirect.loser, in: zone.key)
        continue
      }
      guard try unlessDamaged({ try deduplicator.remove(redirect.loser) }) != nil else { continue }
      redirect.removedAt = stamp.timestamp
      try transaction.put(redirect, in: zone.key)
    }
  }

  // MARK: Pending redirects

  /// Moves remaining pointers to duplicates, and removes the duplicates that are due.
  /// - Parameter name: the last duplicate of the previous call; nil at first.
  /// - Returns: the last duplicate processed; nil if none are left, or if this part is unfinished and must be repeated.
  package mutating func advance(after name: String?) throws -> (outcome: Outcome, last: String?) {
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
  /// True if pointers must be moved or the duplicate must be removed.
  package var isDue: Bool { isPending && (progress == .all || !progress.contains(.moved)) }
}

/// Returns nil for a damaged record, which must stop neither its batch nor other duplicates. Its next reader reports
/// the damage. Two objects that stay two, or a pointer that stays, lose no data.
@discardableResult package func unlessDamaged<Value>(_ body: () throws -> Value) throws -> Value? {
  do {
    return try body()
  } catch StoreError.corrupt {
    // Dropped because `verify` and the record's readers report it.
    return nil
  }
}
