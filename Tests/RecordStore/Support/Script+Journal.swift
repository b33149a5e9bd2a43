// A script's steps with the journal of conflicts.

import RecordStore

extension Script {
  static func runJournal(_ step: ScriptStep, in transaction: any ShardTransaction) throws -> String {
    switch step {
    case .conflict(let owner, let name, let state, let at):
      let database = try transaction.makeDatabase(Sample.database("\(owner)"))
      let conflict = StoredConflict(
        databaseKey: database.key, zoneName: "zone \(name % 2)", recordName: names[name], entity: "Note",
        kind: name % 5, state: state,
        userRecordName: "user \(name % 2)", deviceID: "", at: at, settledAt: state == 1 ? at : nil)
      return
        """
        \(try transaction.appendConflict(conflict, content: [UInt8](repeating: UInt8(state), count: name), assets: []))
        """
    case .settle(let owner, let position, let at):
      guard let database = try transaction.database(Sample.database("\(owner)")) else { return "none" }
      let conflicts = try transaction.conflicts(in: database.key, afterNumber: 0, ConflictFilter(), limit: 99)
      guard conflicts.indices.contains(position) else { return "none" }
      try transaction.settleConflict(conflicts[position].number, in: database.key, as: 3, at: at)
      return "\(try transaction.openConflictCount(in: database.key, of: nil))"
    case .forgetConflicts(let before, let limit):
      return "\(try transaction.forgetConflicts(before: before, limit: limit))"
    default: return "unknown step"
    }
  }

  static func dumpJournal(of database: Int64, _ snapshot: any ShardSnapshot, limit: Int) throws -> [String] {
    let all = try snapshot.conflicts(in: database, afterNumber: 0, ConflictFilter(), limit: .max)
    let filters = [
      ConflictFilter(recordName: names[1]), ConflictFilter(recordName: names[3], state: 0),
      ConflictFilter(state: 2, userRecordName: "user 1"),
      ConflictFilter(userRecordName: "user 0"),
    ]
    return try all.map {
      """
      \($0) \(String(describing: try snapshot.conflictContent($0.number, in: database))) \
      \(try snapshot.conflict($0.number, in: database) == $0)
      """
    }
      + filters.map { "\(try snapshot.conflicts(in: database, afterNumber: all.first?.number ?? 0, $0, limit: limit))" }
      + [
        """
        \(try snapshot.openConflictCount(in: database, of: nil)) \
        \(try snapshot.openConflictCount(in: database, of: "user 1")) \
        \(try snapshot.conflictUse(in: database, of: "user 0")) \(String(describing: try snapshot.oldestConflict()))
        """
      ]
  }
}
