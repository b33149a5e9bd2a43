// The one table of the rules for writes to zones: each kind of write, each rule, and the reason for each exemption.

/// A kind of write to zones. A new one gets its row in `WriteRules.table` before it can write.
package enum ZoneWrite: CaseIterable, Hashable, Sendable {
  /// `records/modify`.
  case edit
  /// A store's saved transactions, in its private or public database or as a guest.
  case export
  /// Restores or resolves a conflict, or brings back a lost insert.
  case conflictRestore
  /// Brings a zone back to an earlier sequence.
  case restore
  /// Writes the lines of an export into a zone.
  case `import`
  /// Moves a graph of objects to another zone, with a share if one is asked for.
  case move
  /// Copies a zone's objects before its purge.
  case copy
  /// Merges, moves or removes duplicates after the save that made them.
  case merge
  /// Reads a record again that an import had left out.
  case quarantineRetry
  /// A participant accepts, declines, leaves or asks for access.
  case shareAct
  /// Removes links that lead nowhere.
  case looseLinks
  /// Makes zones.
  case makeZone
  /// Ends a zone: its owner or an operator deletes or purges it.
  case endZone
  /// Removes a deleted user with their zones.
  case removeUser
}

/// The rules for all writes.
package enum WriteRule: CaseIterable, Hashable, Sendable {
  /// The database's owner has room for it.
  case quota
  /// The author may write the record. The planes decide this before a commit begins or while they plan it.
  case permission
  /// Targets exist and stay; sources go with their targets.
  case references
  /// Rules of policy `reject`: no second record with the same values.
  case uniqueness
  /// Rules of policy `mergeLowestUUID`: duplicates become one.
  case merge
  /// Subscriptions fire.
  case firing
}

/// How a rule applies to a kind of write.
enum RuleApplication: Hashable, Sendable {
  /// Judges each record before it is written: a refused one is named, and others may go on.
  case each
  /// Judges the commit as a whole: a breach undoes all of it.
  case whole
  /// The rule does not apply, for this reason.
  case exempt(String)

  var applies: Bool { if case .exempt = self { false } else { true } }
}

/// The rules of one kind of write.
struct WriteRules: Sendable {
  let quota: RuleApplication
  let permission: RuleApplication
  let references: RuleApplication
  let uniqueness: RuleApplication
  let merge: RuleApplication
  let firing: RuleApplication

  subscript(rule: WriteRule) -> RuleApplication {
    switch rule {
    case .quota: quota
    case .permission: permission
    case .references: references
    case .uniqueness: uniqueness
    case .merge: merge
    case .firing: firing
    }
  }

  static func rules(of write: ZoneWrite) -> WriteRules {
    switch write {
    case .edit:
      WriteRules(quota: .each, permission: .each, references: .each, uniqueness: .each, merge: .whole, firing: .whole)
    case .export:
      WriteRules(quota: .each, permission: .each, references: .each, uniqueness: .each, merge: .whole, firing: .whole)
    case .conflictRestore:
      WriteRules(quota: .whole, permission: .each, references: .each, uniqueness: .each, merge: .whole, firing: .whole)
    case .restore:
      WriteRules(
        quota: .whole, permission: callersOwn,
        references: .exempt("the state that comes back was whole, and later records keep their pointers"),
        uniqueness: .exempt("the zone had these records at once, as it had those from before a rule"), merge: .whole,
        firing: .whole)
    case .import:
      WriteRules(
        quota: .whole, permission: callersOwn,
        references: .exempt("the lines of a zone come in pages, targets behind their sources"),
        uniqueness: .exempt("the zone had these records at once, as it had those from before a rule"), merge: .whole,
        firing: .whole)
    case .move:
      WriteRules(
        quota: .exempt("the records were in the database before, and only receipts are added"), permission: .whole,
        references: .exempt("sources and targets go together"), uniqueness: .whole, merge: .whole, firing: .whole)
    case .copy:
      WriteRules(
        quota: .exempt("the zone with the originals ends in the same commit"), permission: callersOwn,
        references: .exempt("sources and targets are copied together"), uniqueness: .whole, merge: .whole,
        firing: .whole)
    case .merge:
      WriteRules(
        quota: .exempt("fewer records remain"), permission: .each,
        references: .exempt("pointers move to the record that remains"),
        uniqueness: noNewValues, merge: .exempt("it is the merge"), firing: .whole)
    case .quarantineRetry:
      WriteRules(
        quota: noNewValues, permission: .each, references: noNewValues, uniqueness: noNewValues, merge: noNewValues,
        firing: .whole)
    case .shareAct:
      WriteRules(
        quota: noNewValues, permission: .whole, references: noNewValues, uniqueness: noNewValues, merge: noNewValues,
        firing: .whole)
    case .looseLinks:
      WriteRules(
        quota: .exempt("records go"), permission: serversOwn,
        references: .exempt("a link that leads nowhere goes, whatever points to it"),
        uniqueness: .exempt("records go"), merge: .exempt("records go"), firing: .whole)
    case .makeZone:
      WriteRules(
        quota: noRecords, permission: .exempt("an empty zone holds nothing of anybody's"), references: noRecords,
        uniqueness: noRecords,
        merge: noRecords, firing: .whole)
    case .endZone:
      WriteRules(
        quota: noRecords, permission: callersOwn, references: .exempt("sources and targets go together"),
        uniqueness: noRecords, merge: noRecords,
        firing: .whole)
    case .removeUser:
      WriteRules(
        quota: noRecords, permission: serversOwn, references: .exempt("sources and targets go together"),
        uniqueness: noRecords, merge: noRecords,
        firing: .exempt("the user's subscriptions go first, and participants lose their access"))
    }
  }

  private static let callersOwn = RuleApplication.exempt("only the zone's owner and operators get this far")
  private static let serversOwn = RuleApplication.exempt("the server does it by itself")
  private static let noNewValues = RuleApplication.exempt("the records keep their values")
  private static let noRecords = RuleApplication.exempt("no record is written")
}
