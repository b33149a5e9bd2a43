import Foundation
import Testing

/// The table of limits in docs/design/bounds.md.
private struct BoundsTable {
  struct Row: CustomTestStringConvertible {
    let what: String
    let bound: String
    let answer: String
    let metric: String

    var testDescription: String { what }
  }

  static let heading = "| what | bound | over it: error, status | metric |"

  static func rows() throws -> [Row] {
    let lines = try Repository.text("docs/design/bounds.md").split(separator: "\n", omittingEmptySubsequences: false)
      .map(String.init)
    let start = try #require(lines.firstIndex(of: heading), "docs/design/bounds.md has the table of limits")
    return try lines[(start + 2)...].prefix { $0.hasPrefix("|") }.map { line in
      let cells = line.dropFirst().dropLast().split(separator: "|", omittingEmptySubsequences: false).map {
        $0.trimmingCharacters(in: .whitespaces)
      }
      try #require(cells.count == 4, "a limit has four cells: \(line)")
      return Row(what: cells[0], bound: cells[1], answer: cells[2], metric: cells[3])
    }
  }

  /// Where a row's figures are declared: what the row begins with, and the file and name of each.
  static let figures: [(what: String, file: String, name: String)] = [
    ("requests a second of a credential", "Services/Gateway/RateLimiter.swift", "bucketLimit"),
    ("requests that wait for a shard to open", "Services/SyncWorker/WorkerHost/ShardHost.swift", "waiterLimit"),
    ("rows of a scan", "Shared/RecordStore/PostgreSQL/ScanBatches.swift", "rowLimit"),
    ("announced look-ups of records", "Shared/RecordStore/PostgreSQL/FetchedRows.swift", "lookupLimit"),
    ("records that the check of a save", "Services/SyncWorker/ObjectPlane/PermissionCheck.swift", "itemCount"),
    ("exports of a shard", "Services/SyncWorker/ObjectPlane/ExportSchedule.swift", "drainLimit"),
    ("exports of a shard", "Shared/Records/ReservedNames.swift", "exportItemCount"),
    ("changes that a shared store could not forward", "Services/SyncWorker/SharedStores/WaitingParts.swift", "limit"),
    ("held-back objects", "Shared/RecordStore/StoredConflict.swift", "keptCount"),
    ("held-back changes that", "Services/SyncWorker/ZoneActions/WaitingChanges.swift", "heldLimit"),
    ("history that one commit purges", "Services/SyncWorker/ObjectPlane/HistorySlices.swift", "historySliceCount"),
    ("purged transactions", "Shared/RecordStore/SettledTransaction.swift", "keptCount"),
    ("purged transactions", "Shared/RecordStore/SettledTransaction.swift", "formerStoreCount"),
    ("rows and stores that a worker remembers", "Services/SyncWorker/ObjectPlane/RecentExports.swift", "storeLimit"),
    ("rows and stores that a worker remembers", "Shared/RecordStore/SQLite/SQLiteTransaction.swift", "cachedRowLimit"),
    ("rows and stores that a worker remembers", "Services/SyncWorker/ObjectPlane/ImportJournal.swift", "limit"),
    ("rows and stores that a worker remembers", "Services/SyncWorker/ZoneCommit/SubscriptionIndexes.swift", "limit"),
    ("subscriptions that one commit fires", "Services/SyncWorker/ZoneCommit/SubscriptionFiring.swift", "limit"),
    ("subscriptions that one commit fires", "Services/SyncWorker/ZoneCommit/SharedDatabaseFiring.swift", "limit"),
    ("steps of a body's query subscriptions", "Services/SyncWorker/ZoneCommit/SubscriptionFiring.swift", "costLimit"),
    ("steps of a query's page", "Services/SyncWorker/RecordPlane/QuerySearch.swift", "pageCost"),
    ("steps of a query's page", "Services/SyncWorker/RecordPlane/QuerySearch.swift", "costLimit"),
    ("past states that", "Services/SyncWorker/ZoneActions/AuditRecord.swift", "limit"),
    ("past states that", "Services/SyncWorker/ZoneCommit/MirrorModel.swift", "historyLimit"),
    ("pushes to a subscriber", "Services/SyncWorker/WorkerHost/ConflatedChangePublisher.swift", "notificationLimit"),
    ("contents in clear", "Services/Gateway/ContentChecks.swift", "laneCount"),
    ("contents in clear", "Services/Gateway/ContentChecks.swift", "waitingLimit"),
    ("contents in clear", "Services/Gateway/ContentChecks.swift", "waitingOfParty"),
    ("contents in clear", "Services/Gateway/ContentChecks.swift", "knownLimit"),
    ("names in `desiredKeys`", "Shared/WebServices/CloudKit/RequestReading.swift", "limit"),
    ("answers that are being compressed", "Services/Gateway/AnswerCompression.swift", "laneCount"),
    ("devices of an event stream", "Services/Notifier/PingBoard.swift", "listLimit"),
    ("delivery reports", "Services/Notifier/DeliveryReports.swift", "limit"),
    (
      "people without an account", "Services/ShareService/Directory/Directory+WaitingInvitations.swift",
      "waitingInvitationsPerOwner"
    ),
    ("invitations by mail", "Services/ShareService/Directory/Directory+MailLimits.swift", "mailsPerInviter"),
    ("invitations by mail", "Services/ShareService/Directory/Directory+MailLimits.swift", "mailsPerAddress"),
    ("invitations by mail", "Services/ShareService/Directory/Directory+MailLimits.swift", "mailsPerHour"),
    ("invitations by mail", "Services/ShareService/Directory/Directory+MailLimits.swift", "mailsPerNewcomer"),
    ("invitations by mail", "Services/ShareService/Directory/Directory+MailLimits.swift", "newcomersMailsPerHour"),
    ("password hashes", "Services/ShareService/SignIn/PasswordHasher.swift", "laneCount"),
    ("password hashes", "Services/ShareService/SignIn/PasswordHasher.swift", "waitingLimit"),
    ("tries to sign in", "Services/ShareService/SignIn/SignInThrottle.swift", "rowLimit"),
    ("streams of live figures", "Services/Gateway/Console/LiveFeed.swift", "streamLimit"),
    ("streams of live figures", "Services/Gateway/Console/LiveFeed.swift", "developerStreamLimit"),
    ("pings that a notifier remembers", "Services/Notifier/SentPings.swift", "limit"),
    ("figures and log lines", "Shared/ServiceKit/RecentFigures.swift", "sampleLimit"),
    ("figures and log lines", "Shared/ServiceKit/RecentFigures.swift", "nameLimit"),
    ("figures and log lines", "Shared/ServiceKit/RecentLog.swift", "lineLimit"),
    ("sessions of the console", "Services/ShareService/Directory/Directory+Staff.swift", "sessionsPerUser"),
    ("sign-ins in the audit", "Services/ShareService/Directory/Directory+SignIns.swift", "signInSweepCount"),
    ("devices that wait for", "Services/ShareService/Directory/Directory+DeviceSignIns.swift", "waitingDeviceLimit"),
    ("devices that wait for", "Services/ShareService/Directory/Directory+DeviceSignIns.swift", "devicesPerContainer"),
    ("devices that wait for", "Services/ShareService/Directory/Directory+DeviceSignIns.swift", "devicesPerSite"),
    ("devices that wait for", "Services/ShareService/Directory/Directory+DeviceSignIns.swift", "devicesPerAddress"),
    ("devices whose questions", "Services/ShareService/SignIn/DevicePolls.swift", "rowLimit"),
    ("identities, passkeys of a user", "Services/ShareService/Directory/Directory+Account.swift", "identitiesPerUser"),
    ("identities, passkeys of a user", "Services/ShareService/Directory/Directory+Passkeys.swift", "passkeysPerUser"),
  ]

  /// As the document spells a number: 4096, 20 000.
  static func spelled(_ number: Int) -> String {
    let digits = String(number)
    if digits.count <= 4 { return digits }
    return String(
      digits.reversed().enumerated().flatMap { $0.offset > 0 && $0.offset % 3 == 0 ? [" ", $0.element] : [$0.element] }
        .reversed())
  }
}

@Test func `every limit says what whoever is over it is answered, and which metric shows it`() throws {
  let rows = try BoundsTable.rows()
  #expect(rows.count > 30)
  for row in rows {
    for cell in [row.what, row.bound, row.answer, row.metric] { #expect(!cell.isEmpty, "\(row.what)") }
  }
}

@Test func `every metric of the table of limits is one that a process shows`() throws {
  let sources = Repository.swiftFiles(under: "Services", "Shared").map(\.text).joined()
  for row in try BoundsTable.rows() where row.metric != "–" {
    let names = row.metric.matches(of: /`aquifer_([a-z_]+)(\{[a-z]+(="[a-z_ ]+")?\})?`/).map { String($0.output.1) }
    #expect(!names.isEmpty, "\(row.what): \(row.metric)")
    for name in names {
      // Counts of a store are shown with a word before them.
      let spellings = name.hasPrefix("store_") ? [name, String(name.dropFirst("store_".count))] : [name]
      #expect(
        spellings.contains { sources.contains("\"\($0)\"") } || name.hasSuffix("_last_success_timestamp_seconds"),
        "no process shows aquifer_\(name)")
    }
  }
}

@Test func `the figures of the table of limits are those of the code`() throws {
  let rows = try BoundsTable.rows()
  for (what, file, name) in BoundsTable.figures {
    let pattern = try Regex("static let \(name)(: [A-Za-z0-9]+)? = ([0-9_]+)\\n")
    let text = try Repository.text(file)
    let found = try #require(text.firstMatch(of: pattern), "\(file) declares \(name)")
    let number = try #require(Int(String(found.output[2].substring ?? "").replacing("_", with: "")))
    let row = try #require(rows.first { $0.what.hasPrefix(what) }, "the table has a row for \(what)")
    #expect(
      row.bound.contains(BoundsTable.spelled(number)),
      "\(what): \(name) of \(file) is \(BoundsTable.spelled(number)), the table says \(row.bound)")
  }
}
