// The limits of invitations by mail, which keep strangers from sending mail to everybody.

import Records
import SQLite
import ServiceKit

extension DirectoryFormat {
  /// `isSelfMade` is 1 for a user who signed up at a provider where everybody may. Takes time in proportion to the
  /// users.
  static let newcomers = """
    ALTER TABLE user ADD COLUMN isSelfMade INTEGER NOT NULL DEFAULT 0;
    UPDATE user SET isSelfMade = 1 WHERE EXISTS (
      SELECT 1 FROM identity JOIN identityProvider ON identityProvider.issuer = identity.issuer
      WHERE identity.user = user.id AND signUp = 'open' AND identity.added < user.created + 1000);
    """
}

extension Directory {
  /// Mails of one inviter, and to one address, in a day; of the whole installation in an hour.
  static let mailsPerInviter: Int64 = 20
  static let mailsPerAddress: Int64 = 3
  static let mailsPerHour: Int64 = 200
  /// The part of newcomers in both: accounts that signed up by themselves, where everybody may, a few days ago.
  static let mailsPerNewcomer: Int64 = 5
  static let newcomersMailsPerHour: Int64 = 50
  /// Unit: milliseconds.
  static let newcomerTime: Int64 = 7 * 86_400_000

  enum MailVerdict: Hashable, Sendable {
    case send
    /// The person has an account by now, or asked for no more.
    case drop
    case expire
    /// The inviter, the address or all newcomers have reached a limit, until about this time. Milliseconds since 1970.
    case wait(until: Int64)
    /// The installation has reached its limit.
    case pause
  }

  func verdict(on mail: DueMail) throws -> MailVerdict {
    if try refusesMail(mail.emailAddress) || user(emailAddress: mail.emailAddress) != nil { return .drop }
    let now = clock.now
    if mail.added < now - Self.mailPatience { return .expire }
    let counts = try connection.statement(
      SQL(
        "mail.counts",
        """
        SELECT (SELECT count(*) FROM sentMail WHERE owner = ?1 AND at > ?3),
          (SELECT count(*) FROM sentMail WHERE \(connection.isAddress("email", 2)) AND at > ?3),
          (SELECT count(*) FROM sentMail WHERE at > ?4)
        """)
    ).binding(mail.database.owner, mail.emailAddress, now - Self.mailDay, now - Self.mailHour).first {
      (inviter: $0.int64(0), address: $0.int64(1), all: $0.int64(2))
    }
    guard let counts else { return .send }
    if counts.inviter >= Self.mailsPerInviter || counts.address >= Self.mailsPerAddress {
      return .wait(until: now + Self.mailHour)
    }
    if try isNewcomer(mail.database.owner) {
      if counts.inviter >= Self.mailsPerNewcomer { return .wait(until: now + Self.mailHour) }
      // One mail of theirs must not keep the others from being looked at.
      if try newcomersMailCount() >= Self.newcomersMailsPerHour { return .wait(until: now + Self.mailHour / 6) }
    }
    return counts.all >= Self.mailsPerHour ? .pause : .send
  }

  /// True for a user who signed up after ?1 at a provider where everybody may.
  private static let newcomer = "user.created > ?1 AND user.isSelfMade = 1"

  private func isNewcomer(_ owner: String) throws -> Bool {
    try connection.statement(
      SQL("mail.isNewcomer", "SELECT 1 FROM user WHERE recordName = ?2 AND \(Self.newcomer)")
    ).binding(clock.now - Self.newcomerTime, owner).first { _ in true } ?? false
  }

  /// The mails of newcomers in the last hour.
  private func newcomersMailCount() throws -> Int64 {
    try connection.statement(
      SQL(
        "mail.ofNewcomers",
        "SELECT count(*) FROM sentMail JOIN user ON recordName = owner WHERE at > ?2 AND \(Self.newcomer)")
    ).binding(clock.now - Self.newcomerTime, clock.now - Self.mailHour).first { $0.int64(0) } ?? 0
  }
}
