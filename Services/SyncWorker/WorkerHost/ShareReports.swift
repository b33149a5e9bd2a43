// A worker's reports to operators about shares and their participants.

import JSON
import RecordStore
import Records
import ServiceBus
import Sharing
import ZoneCommit

extension WorkerReports {
  /// Limits a report to some shares; nil members match all.
  struct ShareFilter: Sendable {
    let container: String?
    let environment: String?
    let owner: String?
    let zone: String?

    init(_ query: [String: String]) {
      container = query["container"]
      environment = query["environment"]
      owner = query["owner"]
      zone = query["zone"]
    }

    fileprivate func takes(_ database: DatabaseID) -> Bool {
      container ?? database.container.rawValue == database.container.rawValue
        && environment ?? database.environment.rawValue == database.environment.rawValue
        && owner ?? database.owner == database.owner
    }
  }

  /// A row for each share that has not ended.
  static func shares(in snapshot: any ShardSnapshot, _ filter: ShareFilter) throws -> [[UInt8]] {
    var rows: [[UInt8]] = []
    try forEachShare(in: snapshot, filter) { database, zone, share, state in
      let title = try snapshot.record(named: share.name, in: zone.key)?.record.fields[ReservedName.shareTitle]?.value
      rows.append(
        row(database) { output in
          output.member("zone", zone.zoneName)
          output.member("share", share.name)
          if let root = share.rootRecordName { output.member("root", root) }
          if case .string(let title)? = title { output.member("title", title) }
          output.member("publicPermission", "\(state.publicPermission)")
          output.member("participants", state.participants.count)
          output.member("members", state.members.count)
          output.member("requesters", state.requesters.count)
        })
      return rows.count < rowLimit
    }
    return rows
  }

  /// A row for each participant, requester and blocked user.
  static func participants(in snapshot: any ShardSnapshot, _ filter: ShareFilter) throws -> [[UInt8]] {
    var rows: [[UInt8]] = []
    try forEachShare(in: snapshot, filter) { database, zone, share, state in
      func add(_ identity: UserIdentity, _ write: (inout JSONWriter) -> Void) {
        rows.append(
          row(database) { output in
            output.member("zone", zone.zoneName)
            output.member("share", share.name)
            output.member("user", identity.userRecordName ?? identity.lookupInfo?.text ?? "")
            write(&output)
          })
      }
      for participant in state.participants {
        add(participant.identity) { output in
          output.member("role", "\(participant.role)")
          output.member("permission", "\(participant.permission)")
          output.member("acceptance", "\(participant.acceptance)")
          output.member("at", participant.dateAdded)
        }
      }
      for requester in state.requesters {
        add(requester.identity) { output in
          output.member("role", "requester")
          output.member("at", requester.requestedAt)
        }
      }
      for identity in state.blocked { add(identity) { $0.member("role", "blocked") } }
      return rows.count < rowLimit
    }
    return rows
  }

  private typealias ShareBody = (
    _ database: StoredDatabase, _ zone: StoredZone, _ share: StoredShare, _ state: ShareState
  ) throws -> Bool

  /// - Parameter body: returns false to end the iteration.
  private static func forEachShare(in snapshot: any ShardSnapshot, _ filter: ShareFilter, _ body: ShareBody) throws {
    var last: Int64 = 0
    while case let databases = try snapshot.databases(afterKey: last, limit: rowLimit), let end = databases.last {
      for database in databases where database.hasShares && filter.takes(database.id) {
        for zone in try snapshot.liveZones(of: database.key) where filter.zone ?? zone.zoneName == zone.zoneName {
          for share in try snapshot.shares(in: zone.key, afterName: nil, limit: rowLimit) {
            guard let state = share.state else { continue }
            guard try body(database, zone, share, state) else { return }
          }
        }
      }
      last = end.key
    }
  }
}

extension LookupInfo {
  fileprivate var text: String {
    switch self {
    case .email(let text), .phone(let text), .recordName(let text): text
    }
  }
}
