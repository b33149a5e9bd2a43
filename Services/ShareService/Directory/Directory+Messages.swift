// Answers the bus's questions to the directory.

import Crypto
import ObjectModel
import Records
import ServiceBus
import ServiceKit

extension Directory {
  /// Lifetime of a gateway's cached answer when `DirectoryChanged` does not reach it. Unit: seconds.
  private static let answerLifetimeSeconds = 60

  func authenticate(_ message: Authenticate) throws -> Authenticate.Reply {
    func refuse(_ refusal: Authenticate.Reply.Refusal) -> Authenticate.Reply {
      .init(refusal: refusal, lifetimeSeconds: Self.answerLifetimeSeconds)
    }
    let isOperator = message.userToken.map(isOperatorToken) ?? false
    guard let container = message.container else {
      if isOperator { return .init(isOperator: true, lifetimeSeconds: Self.answerLifetimeSeconds) }
      return try message.userToken.flatMap(authenticate(consoleToken:)) ?? refuse(.userToken)
    }
    guard try keyIfPresent(of: container) != nil else { return refuse(.container) }
    if let keyID = message.keyID { return try authenticate(keyID: keyID, container, message.environment) }
    var (app, grant) = (AppPermission?.none, Grant())
    if let apiToken = message.apiToken {
      app = try message.environment.flatMap { try permission(ofAPIToken: apiToken, container, $0) }
      guard app != nil else { return refuse(.apiToken) }
      grant.apiToken = Self.hash(ofAPIToken: apiToken)
    } else if message.userToken == nil {
      return refuse(.apiToken)
    }
    /// Adds the facts about the app and its sign-in page to every reply.
    func reply(
      _ refusal: Authenticate.Reply.Refusal? = nil, user: String? = nil, isOperator: Bool = false,
      session: Authenticate.Reply.Session? = nil
    ) throws
      -> Authenticate.Reply
    {
      let lifetime =
        session.map { min(Self.answerLifetimeSeconds, Int($0.validity / 1000)) } ?? Self.answerLifetimeSeconds
      var reply = Authenticate.Reply(
        refusal: refusal, userRecordName: user, isOperator: isOperator, allowedOrigins: app?.allowedOrigins ?? [],
        lifetimeSeconds: lifetime,
        standing: try user.flatMap { try standing(ofUser: $0, container, message.environment) })
      reply.callbackURL = app?.callbackURL
      reply.session = session
      reply.grant = grant.text
      return reply
    }
    if isOperator { return try reply(isOperator: true) }
    guard let userToken = message.userToken else { return try reply() }
    guard userToken.hasPrefix(SessionPolicy.prefix) else {
      guard let recordName = try userRecordName(forWebAuthToken: userToken) else { return try reply(.userToken) }
      grant.user = .webAuthToken(SHA256.hash(userToken))
      return try reply(user: recordName)
    }
    guard let environment = message.environment,
      let (recordName, name, token) = try session(userToken, container, environment)
    else { return try reply(.userToken) }
    grant.user = .session(name)
    let now = clock.now
    return try reply(
      user: recordName,
      session: Authenticate.Reply.Session(
        rotationDelay: token.rotationDelay(sessions, now: now), validity: token.validity(sessions, now: now)))
  }

  /// The user of a server key. The asking gateway has the request, and verifies the signature.
  private func authenticate(keyID: String, _ container: ContainerID, _ environment: Environment?) throws
    -> Authenticate.Reply
  {
    guard let key = try serverKey(keyID, container) else {
      return .init(refusal: .userToken, lifetimeSeconds: Self.answerLifetimeSeconds)
    }
    var reply = Authenticate.Reply(
      userRecordName: key.userRecordName, lifetimeSeconds: Self.answerLifetimeSeconds,
      standing: try standing(ofUser: key.userRecordName, container, environment))
    reply.publicKey = key.publicKey.der
    return reply
  }

  /// - Throws: `notFound`, also for a disabled user, about whom nothing may be told.
  func lookUp(_ message: LookUpUser) throws -> LookUpUser.Reply {
    guard let user = try user(recordName: message.userRecordName), !user.isDisabled else {
      throw RecordError(.notFound, "There is no user '\(message.userRecordName)'")
    }
    var reply = LookUpUser.Reply(
      userRecordName: user.recordName, givenName: user.givenName, familyName: user.familyName,
      emailAddress: user.emailAddress)
    reply.phoneNumber = user.phoneNumber
    return reply
  }

  /// A user who does not want to be found is answered like one who does not exist.
  func discover(_ message: DiscoverUsers) throws -> DiscoverUsers.Reply {
    DiscoverUsers.Reply(
      users: try message.lookups.map { lookup in
        guard let found = try user(lookup), found.isDiscoverable || found.recordName == message.caller else {
          return nil
        }
        // The addresses are shown to the user themselves, and to callers who knew them already.
        let isAddressKnown = lookup.emailAddress != nil || found.recordName == message.caller
        return LookUpUser.Reply(
          userRecordName: found.recordName, givenName: found.givenName, familyName: found.familyName,
          emailAddress: isAddressKnown ? found.emailAddress : nil)
      })
  }

  /// Also answers for users who do not want to be found: the asking worker shows the answer only to users who know
  /// them.
  func identify(_ message: IdentifyUsers) throws -> IdentifyUsers.Reply {
    IdentifyUsers.Reply(
      users: try message.lookups.prefix(IdentifyUsers.countLimit).map { lookup in
        try user(lookup).map {
          var identity = IdentifyUsers.Identity(
            userRecordName: $0.recordName, givenName: $0.givenName, familyName: $0.familyName,
            emailAddress: $0.emailAddress, phoneNumber: $0.phoneNumber)
          identity.isDiscoverable = $0.isDiscoverable
          return identity
        }
      })
  }

  /// nil for disabled users.
  private func user(_ lookup: DiscoverUsers.Lookup) throws -> User? {
    let found: User? =
      if let name = lookup.userRecordName {
        try user(recordName: name)
      } else if let address = lookup.emailAddress {
        try user(emailAddress: address)
      } else if let number = lookup.phoneNumber.flatMap(PhoneNumber.init) {
        try user(phoneNumber: number)
      } else {
        nil
      }
    return found?.isDisabled == false ? found : nil
  }

  /// - Throws: `notFound` for the container.
  func fetchSchema(_ message: FetchSchema) throws -> FetchSchema.Reply {
    let key = EnvironmentKey(container: message.container, environment: message.environment)
    let state = try environment(key)
    var reply = FetchSchema.Reply(
      version: state.version, models: state.models, latestModelHash: state.latestModelHash, schema: state.schema)
    if state.generation > 0 { reply.generation = state.generation }
    reply.userRoles = try userRoles(in: key)
    let rules = try rules(of: key)
    if !rules.unique.isEmpty { reply.rules = rules }
    return reply
  }

  /// nil for a token of no session, or of a user without a role.
  private func authenticate(consoleToken token: String) throws -> Authenticate.Reply? {
    guard let session = try consoleSession(token) else { return nil }
    let left = max(0, session.expires - clock.now) / 1000
    var reply = Authenticate.Reply(lifetimeSeconds: min(Self.answerLifetimeSeconds, Int(left)))
    reply.member = session.member
    reply.sessionEnd = session.expires
    return reply
  }

  nonisolated func isOperatorToken(_ token: String) -> Bool {
    ConstantTime.areEqual(SHA256.hash(token), operatorTokenHash)
  }
}
