// A share service that mails invitations, and a mail server in the place of SMTP.

import JSON
import Mail
import Records
import ServiceBus
import ServiceKit
import Synchronization
import Testing

@testable import ShareService

/// A mail server that keeps what it is given and fails as told, and the owners' shards.
final class Counterpart: MailSender {
  struct State {
    var messages: [MailMessage] = []
    var servers: [MailServer] = []
    var failures: [MailError] = []
    /// Called while the next mail is sent.
    var meanwhile: (@Sendable () async throws -> Void)?
    /// nil: no shard can be asked.
    var described: DescribeInvitation.Reply? = .init(shortGUID: "0short", title: "Trips & <b>")
  }

  let state = Mutex(State())

  func send(_ message: MailMessage, by server: MailServer) async throws(MailError) {
    do {
      try await takeMeanwhile()?()
    } catch {
      Issue.record(error)
    }
    let failure = state.withLock { state -> MailError? in
      state.servers.append(server)
      if !state.failures.isEmpty { return state.failures.removeFirst() }
      state.messages.append(message)
      return nil
    }
    if let failure { throw failure }
  }

  private func takeMeanwhile() -> (@Sendable () async throws -> Void)? {
    state.withLock { state in
      defer { state.meanwhile = nil }
      return state.meanwhile
    }
  }

  /// Does something while the next mail is sent.
  func during(_ body: @escaping @Sendable () async throws -> Void) { state.withLock { $0.meanwhile = body } }

  func fail(_ kind: MailError.Kind, _ count: Int = 1) {
    state.withLock { $0.failures = Array(repeating: MailError(kind: kind, reason: "told so (550)"), count: count) }
  }

  var messages: [MailMessage] { state.withLock(\.messages) }
  var servers: [MailServer] { state.withLock(\.servers) }
  var receivers: [String] { messages.map(\.to.description) }
}

struct MailScene {
  static let server = """
    {"server":"smtps://mail.example.org","from":"photos@example.org","fromName":"Photos","user":"u",\
    "password":"hush-hush","linkURL":"https://photos.example.org"}
    """

  let world: World
  let owner: String
  let counterpart = Counterpart()
  let mails: InvitationMails

  init(_ world: World) async throws {
    self.world = world
    owner = try await world.service.directory.recordName(ofUser: "grace")
    mails = InvitationMails(
      directory: world.service.directory, sender: counterpart, clock: world.clock, log: .silent)
    await mails.attach { [counterpart] _ in counterpart.state.withLock(\.described) }
  }

  static func begin(isSet: Bool = true, in world: World? = nil) async throws -> MailScene {
    let world = if let world { world } else { try await World.withContainer() }
    try await world.ok("POST", "/admin/1/users", #"{"name":"grace","givenName":"Grace","familyName":"H"}"#)
    if isSet { try await world.ok("PUT", "/admin/1/mail", server) }
    return try await MailScene(world)
  }

  /// Notes that these people wait in a share, and makes an attempt for each mail that is due.
  func invite(
    _ people: [String], share: String = "S", owner: String? = nil, age: Int64 = 0, isComparison: Bool = false
  ) async throws {
    try await note(people, share: share, owner: owner, age: age, isComparison: isComparison)
    await mails.round()
  }

  /// Notes that these people wait in a share, and nobody else.
  func note(
    _ people: [String], share: String = "S", owner: String? = nil, age: Int64 = 0, isComparison: Bool = false
  ) async throws {
    let shares = WaitingInvitations(
      database: DatabaseID(container: World.container, environment: .development, owner: owner ?? self.owner),
      zoneName: "Trips", shareName: share,
      invitations: people.map {
        .init(
          participantID: "\(share)-\($0)", emailAddress: $0, phoneNumber: nil, added: world.clock.now - age)
      })
    let directory = world.service.directory
    let number = isComparison ? try await directory.beginComparison() : 0
    try await directory.note(
      NoteInvitations(
        shard: 0, shares: [shares], comparison: isComparison ? .init(number: number, isLast: true) : nil))
  }

  /// - Returns: the record name of a person who signed up by themselves.
  func signUp(_ name: String, at provider: String = "acme") async throws -> String {
    try #require(try await enter(name, at: provider).userRecordName)
  }

  /// Signs a person in with a provider.
  func enter(_ name: String, at provider: String = "acme") async throws -> SignInByIdentity.Reply {
    try await world.service.directory.signIn(
      SignInByIdentity(
        container: World.container, environment: .development, provider: provider,
        person: .init(
          issuer: "https://\(provider).example.org", subject: name, emailAddress: "\(name)@example.org", givenName: nil,
          familyName: nil),
        isKept: false, grant: nil))
  }

  func outcomes() async throws -> [String] {
    try await world.ok("GET", "/admin/1/mail/sent")["mails"]?.elements.map {
      "\($0["email"]?.string ?? "") \($0["outcome"]?.string ?? "")"
    } ?? []
  }
}
