// The index of people without an account who are invited to shares, as the owners' shards report them.

import Records
import SQLite
import ServiceBus

extension DirectoryFormat {
  /// `at` is the directory's version when the row was written.
  static let waitingInvitationTable = """
    CREATE TABLE waitingInvitation (
      id INTEGER PRIMARY KEY, container TEXT NOT NULL REFERENCES container (name) ON DELETE CASCADE,
      environment TEXT NOT NULL, owner TEXT NOT NULL, zoneName TEXT NOT NULL, shareName TEXT NOT NULL,
      participantID TEXT NOT NULL, email TEXT COLLATE NOCASE, phone TEXT, added INTEGER NOT NULL,
      shard INTEGER NOT NULL, at INTEGER NOT NULL,
      UNIQUE (container, environment, owner, zoneName, shareName, participantID));
    CREATE INDEX waitingInvitationOwner ON waitingInvitation (owner);
    CREATE INDEX waitingInvitationShard ON waitingInvitation (shard, at);
    CREATE INDEX waitingInvitationEmail ON waitingInvitation (email) WHERE email IS NOT NULL;
    CREATE INDEX waitingInvitationPhone ON waitingInvitation (phone) WHERE phone IS NOT NULL;
    """
}

extension Directory {
  /// People who wait in all shares of one owner; more are not noted.
  static let waitingInvitationsPerOwner = 1000

  /// Stores reports of a shard. Those about unknown containers change nothing, and a comparison leaves shares alone
  /// that were noted after it began.
  /// - Throws: for a comparison, as `compare`.
  func note(_ message: NoteInvitations) throws {
    if message.comparison != nil { try check(message.part, ofShard: message.shard) }
    try change {
      if let comparison = message.comparison { try check(comparison: comparison.number) }
      // Of a comparison no mail follows: after a restore it brings invitations whose mails were sent before.
      let isMailed = try message.comparison == nil && mailSettings() != nil
      let number = try message.comparison?.number ?? DirectoryFormat.nextVersion(in: connection)
      for share in message.shares where try keyIfPresent(of: share.database.container) != nil {
        for (id, invitation) in try replace(share, shard: message.shard, number: number) where isMailed {
          try requestMail(for: invitation, id: id)
        }
      }
      guard let comparison = message.comparison, comparison.isLast else { return }
      try connection.statement(
        SQL("waitingInvitation.deleteShard", "DELETE FROM waitingInvitation WHERE shard = ?1 AND at < ?2")
      ).binding(Int64(message.shard), comparison.number).run()
    }
  }

  /// - Returns: the new invitations, by their rows.
  private func replace(_ share: WaitingInvitations, shard: Int, number: Int64) throws
    -> [(Int64, WaitingInvitations.Invitation)]
  {
    let database = share.database
    let known = try connection.statement(
      SQL(
        "waitingInvitation.ofShare",
        """
        SELECT id, participantID, at FROM waitingInvitation WHERE container = ?1 AND environment = ?2 AND owner = ?3 \
        AND zoneName = ?4 AND shareName = ?5
        """)
    ).binding(
      database.container.rawValue, database.environment.rawValue, database.owner, share.zoneName, share.shareName
    ).all { (id: $0.int64(0), participantID: $0.text(1), at: $0.int64(2)) }
    if known.contains(where: { $0.at > number }) { return [] }
    let kept = Set(share.invitations.map(\.participantID))
    for row in known where !kept.contains(row.participantID) {
      try connection.statement(SQL("waitingInvitation.delete", "DELETE FROM waitingInvitation WHERE id = ?1")).binding(
        row.id
      ).run()
    }
    var room = try Self.waitingInvitationsPerOwner - waitingInvitationCount(ofOwner: database.owner)
    let names = Set(known.map(\.participantID))
    var added: [(Int64, WaitingInvitations.Invitation)] = []
    for invitation in share.invitations {
      let isNew = !names.contains(invitation.participantID)
      if isNew {
        guard room > 0 else { continue }
        room -= 1
      }
      try put(invitation, of: share, shard: shard, number: number)
      if isNew { added.append((try connection.insertedKey(), invitation)) }
    }
    return added
  }

  private func put(_ invitation: WaitingInvitations.Invitation, of share: WaitingInvitations, shard: Int, number: Int64)
    throws
  {
    try connection.statement(
      SQL(
        "waitingInvitation.put",
        """
        INSERT INTO waitingInvitation (container, environment, owner, zoneName, shareName, participantID, email, phone,
          added, shard, at)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
        ON CONFLICT (container, environment, owner, zoneName, shareName, participantID) DO UPDATE SET
          email = excluded.email, phone = excluded.phone, shard = excluded.shard, \
        at = excluded.at
        """)
    ).binding(
      share.database.container.rawValue, share.database.environment.rawValue, share.database.owner, share.zoneName,
      share.shareName, invitation.participantID, invitation.emailAddress, invitation.phoneNumber, invitation.added,
      Int64(shard), number
    ).run()
  }

  private func waitingInvitationCount(ofOwner owner: String) throws -> Int {
    try connection.statement(
      SQL("waitingInvitation.countOfOwner", "SELECT count(*) FROM waitingInvitation WHERE owner = ?1")
    ).binding(owner).first { $0.int(0) } ?? 0
  }

  func waitingInvitationCount() throws -> Int64 { try count("SELECT count(*) FROM waitingInvitation") }

  /// True if somebody invited the verified address or number to a share of this app.
  func isInvitedToShare(
    emailAddress: String?, phoneNumber: String?, _ container: ContainerID, _ environment: Environment
  ) throws -> Bool {
    try connection.statement(
      SQL(
        "waitingInvitation.find",
        """
        SELECT 1 FROM waitingInvitation
        WHERE (\(connection.isAddress("email", 1)) OR phone = ?2) AND container = ?3 AND environment = ?4 LIMIT 1
        """)
    ).binding(emailAddress, phoneNumber, container.rawValue, environment.rawValue).first { _ in true } ?? false
  }

  /// Within a change: the environment's shares end with its data.
  func forgetWaitingInvitations(in key: EnvironmentKey) throws {
    try connection.statement(
      SQL(
        "waitingInvitation.deleteEnvironment",
        "DELETE FROM waitingInvitation WHERE container = ?1 AND environment = ?2")
    ).binding(key.container.rawValue, key.environment.rawValue).run()
  }

  /// Within the change that deletes the owner.
  func forgetWaitingInvitations(ofOwner recordName: String) throws {
    try connection.statement(
      SQL("waitingInvitation.deleteOwner", "DELETE FROM waitingInvitation WHERE owner = ?1")
    ).binding(recordName).run()
  }
}
