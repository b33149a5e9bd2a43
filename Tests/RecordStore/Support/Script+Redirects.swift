// A script's steps with redirects of duplicates.

import RecordStore
import Records

extension Script {
  static func runRedirect(_ step: ScriptStep, in transaction: any ShardTransaction) throws -> String {
    guard case .redirect(let owner, let zone, let loser, let survivor, let at) = step,
      let place = try place(owner, zone, in: transaction)
    else { return "none" }
    let known = try transaction.redirect(of: names[loser], in: place.zone)
    switch at % 4 {
    case 0: try transaction.removeRedirect(of: names[loser], in: place.zone)
    case 1: try transaction.note(.exported, ofPendingRedirectsBefore: at - 3, in: place.zone)
    default:
      // A redirect that leads to itself is an error of the caller, after which no body continues.
      let end = try transaction.redirect(of: names[survivor], in: place.zone)?.survivor ?? names[survivor]
      if end == names[loser] { return "itself" }
      let redirect = StoredRedirect(
        loser: names[loser], survivor: names[survivor], since: at, rule: "rule", removedAt: loser % 3 == 0 ? at : nil)
      try transaction.put(redirect, in: place.zone)
    }
    return
      """
      \(String(describing: known)) \
      \(try transaction.zonesWithPendingRedirects(in: place.database, afterKey: 0, limit: 99))
      """
  }

  static func dumpRedirects(in zone: StoredZone, _ snapshot: any ShardSnapshot, limit: Int) throws -> [String] {
    var lines = ["\(try snapshot.pendingRedirects(in: zone.key, afterName: names[3], limit: limit))"]
    for name in names {
      lines.append(
        """
        \(String(describing: try snapshot.redirect(of: name, in: zone.key))) \
        \(try snapshot.redirects(to: name, in: zone.key, limit: limit))
        """
      )
    }
    for index in try snapshot.indexes(in: zone.databaseKey) {
      lines.append("\(try snapshot.sharedKeys(of: index.key, in: zone.key, after: [1], limit: limit))")
    }
    return lines
  }
}
