// Invitations by mail in the directory: the operator's settings, mails that wait, and those that were sent.

import MessagePack
import Records
import SQLite
import ServiceBus
import ServiceKit

/// The operator's settings of mail. Without them none is sent.
struct MailSettings: Hashable, Codable, Sendable {
  /// `smtps://HOST:PORT` or `smtp://HOST:PORT`.
  var server: String
  var user: String?
  var password: String?
  /// The sender's address, and the name before it.
  var from: String
  var fromName: String?
  /// The gateways' public address, at which links begin.
  var linkURL: String
  var template: MailTemplate
}

extension DirectoryFormat {
  /// `mailDue` is the time of the next attempt; NULL: no mail waits. Sent mails outlive users, shares and containers.
  static let mailTables = """
    ALTER TABLE waitingInvitation ADD COLUMN mailDue INTEGER;
    ALTER TABLE waitingInvitation ADD COLUMN attempts INTEGER NOT NULL DEFAULT 0;
    CREATE INDEX waitingInvitationMailDue ON waitingInvitation (mailDue) WHERE mailDue IS NOT NULL;
    CREATE TABLE sentMail (
      number INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, container TEXT NOT NULL, owner TEXT NOT NULL,
      participantID TEXT NOT NULL, email TEXT NOT NULL COLLATE NOCASE, outcome TEXT NOT NULL, reason TEXT);
    CREATE INDEX sentMailAt ON sentMail (at);
    CREATE INDEX sentMailOwner ON sentMail (owner, at);
    CREATE INDEX sentMailEmail ON sentMail (email, at);
    CREATE INDEX sentMailParticipant ON sentMail (participantID);
    CREATE TABLE mailRefusal (email TEXT COLLATE NOCASE PRIMARY KEY, at INTEGER NOT NULL) WITHOUT ROWID;
    """
}

/// An invitation whose mail is due.
struct DueMail: Hashable, Sendable {
  let shard: Int
  let database: DatabaseID
  let zoneName: String
  let shareName: String
  let participantID: String
  let emailAddress: String
  /// Milliseconds since 1970.
  let added: Int64
  let attempts: Int
}

/// The end of a mail.
enum MailOutcome: String, Sendable, CaseIterable {
  case sent
  /// The server refused the address or the mail.
  case bounced
  /// Days have passed, and the server took no mail or a limit was reached.
  case expired
}

extension Directory {
  static let mailDay: Int64 = 86_400_000
  static let mailHour: Int64 = 3_600_000
  /// A mail that could not be sent for this long is given up; an older invitation is none. Unit: milliseconds.
  static let mailPatience: Int64 = 3 * 86_400_000
  /// Sent mails are remembered this long. Unit: milliseconds.
  private static let mailMemory: Int64 = 30 * 86_400_000

  // MARK: Settings

  func mailSettings() throws -> MailSettings? {
    try DirectoryFormat.value("mail", in: connection).flatMap {
      $0.isEmpty ? nil : try MessagePackDecoder().decode(MailSettings.self, from: $0)
    }
  }

  /// - Parameter settings: nil ends mail; those that wait are not sent later.
  func setMail(_ settings: MailSettings?) throws {
    let content = try settings.map { try MessagePackEncoder().encode($0) } ?? []
    try change {
      try DirectoryFormat.set("mail", content, in: connection)
      guard settings == nil else { return }
      try connection.statement(
        SQL("mail.forget", "UPDATE waitingInvitation SET mailDue = NULL WHERE mailDue IS NOT NULL")
      ).run()
    }
  }

  // MARK: Waiting mails

  /// Within the change that noted the invitation: its mail is due, once, if the address may get one.
  func requestMail(for invitation: WaitingInvitations.Invitation, id: Int64) throws {
    guard let address = invitation.emailAddress, invitation.added > clock.now - Self.mailPatience,
      try !refusesMail(address), try user(emailAddress: address) == nil
    else { return }
    try connection.statement(
      SQL(
        "mail.request",
        """
        UPDATE waitingInvitation SET mailDue = ?2 WHERE id = ?1 AND NOT EXISTS (
          SELECT 1 FROM sentMail WHERE sentMail.participantID = waitingInvitation.participantID)
        """)
    ).binding(id, clock.now).run()
  }

  /// Ascending by the time at which they are due.
  func dueMails(limit: Int) throws -> [DueMail] {
    try connection.statement(
      SQL(
        "mail.due",
        """
        SELECT shard, container, environment, owner, zoneName, shareName, participantID, email, added, attempts
        FROM waitingInvitation WHERE mailDue <= ?1 AND email IS NOT NULL ORDER BY mailDue, id LIMIT ?2
        """)
    ).binding(clock.now, Int64(limit)).all { row in
      DueMail(
        shard: row.int(0),
        database: DatabaseID(
          container: try Self.containerID(row.text(1)), environment: try Self.environment(row.text(2)),
          owner: row.text(3)),
        zoneName: row.text(4), shareName: row.text(5), participantID: row.text(6), emailAddress: row.text(7),
        added: row.int64(8), attempts: row.int(9))
    }
  }

  func waitingMailCount() throws -> Int64 {
    try count("SELECT count(*) FROM waitingInvitation WHERE mailDue IS NOT NULL")
  }

  /// Notes an attempt before it is made.
  /// - Parameter time: that of the next one, unless this one's outcome is noted.
  /// - Returns: false when the mail is not due any more, and must not be sent.
  func beginAttempt(_ mail: DueMail, next time: Int64) throws -> Bool {
    try change { try setDue(time, of: mail, isAttempt: true) }
  }

  func postpone(_ mail: DueMail, until time: Int64) throws { try change { _ = try setDue(time, of: mail) } }

  /// Within a change. Another invitation may have the row's key by now, so the invitation names the row.
  /// - Parameter time: nil: no mail waits.
  /// - Returns: false when none waited before.
  private func setDue(_ time: Int64?, of mail: DueMail, isAttempt: Bool = false) throws -> Bool {
    let database = mail.database
    try connection.statement(
      SQL(
        "mail.setDue",
        """
        UPDATE waitingInvitation SET mailDue = ?7, attempts = attempts + ?8 WHERE container = ?1 AND environment = ?2
          AND owner = ?3 AND zoneName = ?4 AND shareName = ?5 AND participantID = ?6 AND mailDue IS NOT NULL
        """)
    ).binding(
      database.container.rawValue, database.environment.rawValue, database.owner, mail.zoneName, mail.shareName,
      mail.participantID, time, Int64(isAttempt ? 1 : 0)
    ).run()
    return connection.changes > 0
  }

  /// Ends a mail.
  /// - Parameter outcome: nil for one that is not sent because it is pointless.
  func finish(_ mail: DueMail, _ outcome: MailOutcome?, reason: String? = nil) throws {
    try change {
      _ = try setDue(nil, of: mail)
      guard let outcome else { return }
      try connection.statement(
        SQL(
          "sentMail.insert",
          """
          INSERT INTO sentMail (at, container, owner, participantID, email, outcome, reason)
          VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
          """)
      ).binding(
        clock.now, mail.database.container.rawValue, mail.database.owner, mail.participantID, mail.emailAddress,
        outcome.rawValue, reason
      ).run()
      try connection.statement(SQL("sentMail.sweep", "DELETE FROM sentMail WHERE at < ?1")).binding(
        clock.now - Self.mailMemory
      ).run()
    }
  }

  // MARK: Sent mails

  /// The mails that ended in the last day.
  func mailsOfDay() throws -> [MailOutcome: Int64] {
    try connection.statement(
      SQL("sentMail.ofDay", "SELECT outcome, count(*) FROM sentMail WHERE at > ?1 GROUP BY outcome")
    ).binding(clock.now - Self.mailDay).all { (MailOutcome(rawValue: $0.text(0)), $0.int64(1)) }
      .reduce(into: [:]) { counts, row in if let outcome = row.0 { counts[outcome] = row.1 } }
  }

  struct SentMailRow: Sendable, Hashable {
    let number: Int64
    /// Milliseconds since 1970.
    let at: Int64
    let container: String
    /// The inviter's record name.
    let owner: String
    let emailAddress: String
    let outcome: String
    let reason: String?
  }

  /// Latest first.
  /// - Parameter number: only mails before this one; nil: from the latest on.
  func sentMails(before number: Int64?, limit: Int) throws -> [SentMailRow] {
    try connection.statement(
      SQL(
        "sentMail.list",
        """
        SELECT number, at, container, owner, email, outcome, reason FROM sentMail WHERE number < ?1
        ORDER BY number DESC LIMIT ?2
        """)
    ).binding(number ?? .max, Int64(limit)).all {
      SentMailRow(
        number: $0.int64(0), at: $0.int64(1), container: $0.text(2), owner: $0.text(3), emailAddress: $0.text(4),
        outcome: $0.text(5), reason: $0.optionalText(6))
    }
  }

  // MARK: Addresses that ask for nothing more

  static let mailRefusalLimit: Int64 = 100_000

  /// The address gets no more mail from this installation. A repetition changes nothing.
  func refuseMail(_ emailAddress: String) throws {
    try change {
      guard try count("SELECT count(*) FROM mailRefusal") < Self.mailRefusalLimit else {
        throw RecordError(.badRequest, "There are \(Self.mailRefusalLimit) refusals of mail, which is the limit")
      }
      try connection.statement(
        SQL("mailRefusal.insert", "INSERT INTO mailRefusal (email, at) VALUES (?1, ?2) ON CONFLICT DO NOTHING")
      ).binding(emailAddress, clock.now).run()
    }
  }

  /// - Throws: `notFound`.
  func allowMail(_ emailAddress: String) throws {
    try change {
      try connection.statement(
        SQL("mailRefusal.delete", "DELETE FROM mailRefusal WHERE \(connection.isAddress("email", 1))")
      ).binding(
        emailAddress
      ).run()
      guard connection.changes > 0 else { throw RecordError(.notFound, "'\(emailAddress)' has refused no mail") }
    }
  }

  func refusesMail(_ emailAddress: String) throws -> Bool {
    try connection.statement(
      SQL("mailRefusal.get", "SELECT 1 FROM mailRefusal WHERE \(connection.isAddress("email", 1))")
    ).binding(emailAddress)
      .first { _ in true } ?? false
  }
}
