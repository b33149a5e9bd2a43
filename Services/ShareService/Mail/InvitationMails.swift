// Sends the mails of invitations that are due, until each is sent, refused or given up; it continues after a restart.

import Mail
import Records
import ServiceBus
import ServiceKit
import WebServices

/// Hands mails to a server. Tests put another in its place.
protocol MailSender: Sendable {
  func send(_ message: MailMessage, by server: MailServer) async throws(MailError)
}

/// Sends over SMTP, one mail after the other, on a thread of its own.
actor SMTPSender: MailSender {
  private let executor = BlockingExecutor(label: "mail")
  nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

  func send(_ message: MailMessage, by server: MailServer) async throws(MailError) {
    let stop = MailServer.Stop()
    let result = await withTaskCancellationHandler {
      Result { () throws(MailError) in try server.send(message, until: stop) }
    } onCancel: {
      stop.set()
    }
    try result.get()
  }
}

/// Works through the directory's due mails. What a mail says is asked at the owner's shard when it is sent, so no mail
/// is of an invitation that has ended.
actor InvitationMails {
  private let directory: Directory
  private let sender: any MailSender
  /// A PEM file of authorities to trust; nil: the system's.
  private let authorityFile: String?
  private let clock: any WallClock
  private let log: Log
  /// Asks the holder of the owner's shard; nil while it can't be asked.
  private var ask: @Sendable (DescribeInvitation) async -> DescribeInvitation.Reply? = { _ in nil }
  private(set) var counts: [MailOutcome: Int] = [:]
  private(set) var laterCount = 0
  /// The latest attempt that failed; nil since the process began.
  private(set) var lastFailure: Failure?
  private let rounds = Rounds(every: pause)

  struct Failure: Hashable, Sendable {
    /// Milliseconds since 1970.
    let at: Int64
    let reason: String
  }

  private static let pause = Duration.seconds(5)
  private static let pageCount = 20
  /// The wait after the first failed attempt; each further one waits twice as long. Unit: milliseconds.
  private static let firstWait: Int64 = 60_000
  private static let longestWait: Int64 = 6 * 3_600_000
  private static let shardWait: Int64 = 30_000

  init(
    directory: Directory, sender: any MailSender, authorityFile: String? = nil, clock: any WallClock, log: Log
  ) {
    self.directory = directory
    self.sender = sender
    self.authorityFile = authorityFile
    self.clock = clock
    self.log = log
  }

  func attach(ask: @escaping @Sendable (DescribeInvitation) async -> DescribeInvitation.Reply?) { self.ask = ask }

  /// Wakes the loop for a mail that may be due.
  nonisolated func notice() { rounds.notice() }

  /// Runs until the task is cancelled.
  func run() async { await rounds.run { await round() } }

  /// Makes an attempt for each mail that is due.
  func round() async {
    do {
      guard let settings = try await directory.mailSettings() else { return }
      while case let page = try await directory.dueMails(limit: Self.pageCount), !page.isEmpty, !Task.isCancelled {
        for mail in page {
          let verdict = try await directory.verdict(on: mail)
          // The mails stay due, and are looked at again with the next round.
          if verdict == .pause { return }
          try await carryOut(verdict, mail, settings)
        }
      }
    } catch {
      log.error("mails could not be looked up", ["error": .text(String(describing: error))])
    }
  }

  private func carryOut(_ verdict: Directory.MailVerdict, _ mail: DueMail, _ settings: MailSettings) async throws {
    switch verdict {
    case .pause: break
    case .drop: try await directory.finish(mail, nil)
    case .expire: try await finish(mail, .expired, "not sent for three days")
    case .wait(let time): try await directory.postpone(mail, until: time)
    case .send:
      guard let from = MailAddress(settings.from), let to = MailAddress(mail.emailAddress) else {
        return try await finish(mail, .bounced, "the address can't stand in a mail")
      }
      let question = DescribeInvitation(
        shard: mail.shard, database: mail.database, zoneName: mail.zoneName, shareName: mail.shareName,
        participantID: mail.participantID)
      guard let invitation = await ask(question) else {
        return try await directory.postpone(mail, until: clock.now + Self.shardWait)
      }
      guard let shortGUID = invitation.shortGUID else { return try await directory.finish(mail, nil) }
      let message = try await message(mail, from, to, title: invitation.title, shortGUID: shortGUID, settings)
      try await attempt(message, of: mail, settings)
    }
  }

  private func message(
    _ mail: DueMail, _ from: MailAddress, _ to: MailAddress, title: String?, shortGUID: String,
    _ settings: MailSettings
  ) async throws -> MailMessage {
    let app = try await directory.app(of: mail.database.container).displayName ?? mail.database.container.rawValue
    let inviter = try await directory.user(recordName: mail.database.owner)
    let names = [inviter?.givenName, inviter?.familyName].compactMap(\.self)
    let stop = MailStop(emailAddress: mail.emailAddress).text(signedWith: directory.signingKey)
    let filled = settings.template.filled(
      MailTemplate.Values(
        app: app, inviter: names.isEmpty ? "Somebody" : names.joined(separator: " "), title: title ?? "a share",
        link: "\(settings.linkURL)/share/\(shortGUID)", stop: "\(settings.linkURL)\(MailStop.path)/\(stop)"))
    let domain = settings.from.split(separator: "@").last ?? "localhost"
    return MailMessage(
      from: from, fromName: settings.fromName, to: to, subject: filled.subject, text: filled.text, html: filled.html,
      messageID: "\(mail.participantID.lowercased())@\(domain)", date: MailDate.text(clock.now),
      refusalURL: "\(settings.linkURL)\(MailStop.path)/\(stop)")
  }

  private func attempt(_ message: MailMessage, of mail: DueMail, _ settings: MailSettings) async throws {
    let wait = min(Self.longestWait, Self.firstWait << Int64(min(mail.attempts, 20)))
    // The note comes first: a mail whose outcome can't be noted must not go out again at once.
    guard try await directory.beginAttempt(mail, next: clock.now + wait) else { return }
    let server = MailServer(
      url: settings.server, user: settings.user, password: settings.password, authorityFile: authorityFile)
    do throws(MailError) {
      try await sender.send(message, by: server)
    } catch {
      lastFailure = Failure(at: clock.now, reason: error.reason)
      if error.kind == .refused { return try await finish(mail, .bounced, error.reason) }
      laterCount += 1
      log.warning(
        "a mail was not sent yet", ["reason": .text(error.reason), "attempt": .integer(Int64(mail.attempts + 1))])
      return try await directory.postpone(mail, until: clock.now + wait)
    }
    try await finish(mail, .sent, nil)
  }

  private func finish(_ mail: DueMail, _ outcome: MailOutcome, _ reason: String?) async throws {
    try await directory.finish(mail, outcome, reason: reason)
    counts[outcome, default: 0] += 1
  }
}
