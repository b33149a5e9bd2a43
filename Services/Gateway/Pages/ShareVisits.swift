// `/share/{shortGUID}`: a share's address in a browser. Visitors sign in, see the share, and accept, decline or ask
// for access.

import Authentication
import HTTPServer
import JSON
import Records
import ServiceBus
import ServiceKit
import WebServices

extension Gateway {
  /// Time that a visitor may spend on the page before the next sign-in. Unit: milliseconds.
  private static let visitTime: Int64 = 600_000
  private static let formByteLimit = 16_384

  /// `GET` shows the sign-in form, or the share when the browser is kept signed in. `POST` handles a submitted form.
  func visitShare(_ request: HTTPRequest) async throws(RecordError) -> HTTPResponse {
    if let seconds = limiter.take(.address(request.clientNetwork)) {
      metrics.countThrottled(by: "address")
      return SharePage.signIn(SharePage.Notice(.throttled(seconds: seconds)))
    }
    let shortGUID = request.pathSegments.last ?? ""
    guard request.method == .post else { return await welcome(shortGUID, request) }
    guard isOwn(request) else { return SharePage.signIn(.foreignForm) }
    guard request.body.count <= Self.formByteLimit, let form = FormBody(request.body) else {
      return SharePage.signIn(SharePage.Notice(.incomplete))
    }
    let key = try await secrets.signingKey()
    if let text = form["ticket"] {
      guard let ticket = ShareTicket(text: text, verifiedWith: key, now: wallClock.now), ticket.shortGUID == shortGUID
      else { return SharePage.signIn(.tooLate) }
      return await visit(ticket, text, purpose: Self.purpose(of: form["action"]), request)
    }
    let name = form["name"]?.trimmingSpaces() ?? ""
    guard let password = form["password"], !name.isEmpty, !password.isEmpty else {
      return SharePage.signIn(SharePage.Notice(.incomplete), name: form["name"] ?? "")
    }
    let reply: CheckPassword.Reply
    do throws(RecordError) {
      reply = try await share.call(
        CheckPassword(userName: name, password: password, clientAddress: request.remoteAddress))
    } catch {
      // Dropped because the visitor can only try again, whatever the reason; the bus counts failed calls.
      return SharePage.signIn(SharePage.Notice(.away), name: name)
    }
    guard let user = reply.userRecordName else {
      return SharePage.signIn(SharePage.Notice(reply.retryAfter.map { .throttled(seconds: $0) } ?? .wrong), name: name)
    }
    let ticket = ShareTicket(
      userRecordName: user, userName: name, shortGUID: shortGUID, expiry: wallClock.now + Self.visitTime,
      ground: reply.signOutCount.map { .password(signOutCount: $0) })
    return await visit(ticket, ticket.text(signedWith: key), purpose: .resolve, request)
  }

  private static func purpose(of action: String?) -> ResolveShortGUIDs.Purpose {
    switch action {
    case "request": .requestAccess
    case "decline": .decline
    default: .accept
    }
  }

  /// The sign-in form; for a browser that is kept signed in to the share's container, the share. A link that has
  /// nothing for such a visitor looks the same as to strangers.
  private func welcome(_ shortGUID: String, _ request: HTTPRequest) async -> HTTPResponse {
    guard request.query("account") == nil, request.cookie(KeptSignIn.Pages.shares.cookieName) != nil else {
      return SharePage.signIn()
    }
    do throws(RecordError) {
      let key = try await secrets.signingKey()
      guard let kept = signedCookie(for: .shares, request, key) else { return SharePage.signIn() }
      let ticket = ShareTicket(
        userRecordName: kept.userRecordName, userName: kept.userName, shortGUID: shortGUID,
        expiry: wallClock.now + Self.visitTime,
        ground: .session(.init(container: kept.container, environment: kept.environment, grant: kept.grant)))
      guard try await holds(ticket),
        let found = try await find(ticket, .resolve, baseURL: options.publicAddress.url(for: request)),
        found.result["serverErrorCode"] == nil
      else { return SharePage.signIn() }
      return await page(.resolve, found, ticket.text(signedWith: key))
    } catch {
      // Dropped because the form is just as good: the visitor can sign in when the services are back.
      return SharePage.signIn()
    }
  }

  /// False when the session by which the visitor came has ended; for a typed password, when all sessions have.
  /// - Throws: `tryAgainLater` while the share service can't say; nothing is shown or changed then.
  private func holds(_ ticket: ShareTicket) async throws(RecordError) -> Bool {
    switch ticket.ground {
    case .session(let session):
      return try await share.call(
        VerifyGrant(
          container: session.container, environment: session.environment, userRecordName: ticket.userRecordName,
          grant: session.grant)
      ).holds
    case .password(let signOutCount):
      return try await share.call(
        VerifyVisit(userRecordName: ticket.userRecordName, signOutCount: signOutCount)
      ).holds
    case nil: return true
    }
  }

  /// Shows the share to a visitor who has signed in, or carries out the chosen action.
  private func visit(_ ticket: ShareTicket, _ text: String, purpose: ResolveShortGUIDs.Purpose, _ request: HTTPRequest)
    async -> HTTPResponse
  {
    do throws(RecordError) {
      guard try await holds(ticket) else { return SharePage.signIn(.ended) }
      guard let found = try await find(ticket, purpose, baseURL: options.publicAddress.url(for: request)) else {
        let visitor = SharePage.Visitor(name: ticket.userName, ticket: text)
        // A public share does not list its visitors, so there is nothing to decline.
        return purpose == .decline ? SharePage.declined(of: nil, for: visitor) : SharePage.nothing(for: visitor)
      }
      return await page(purpose, found, text)
    } catch {
      // Dropped because the visitor can only try again; the bus counts failed calls.
      return SharePage.signIn(SharePage.Notice(.away))
    }
  }

  private func page(_ purpose: ResolveShortGUIDs.Purpose, _ found: FoundShare, _ ticket: String) async -> HTTPResponse {
    let visitor = SharePage.Visitor(name: found.visitorName, ticket: ticket)
    if let code = found.result["serverErrorCode"]?.string {
      guard code != ServerErrorCode.notFound.rawValue else { return SharePage.nothing(for: visitor) }
      return SharePage.refused(
        SharePage.Notice(sentence: found.result["reason"]?.string ?? code, status: 409), for: visitor)
    }
    let app = await pageApp(of: found.container)
    switch purpose {
    case .resolve: return SharePage.share(SharePage.Share(found.result), of: app, for: visitor)
    case .accept: return SharePage.accepted(SharePage.Share(found.result), of: app, for: visitor)
    case .decline: return SharePage.declined(of: app, for: visitor)
    case .requestAccess: return SharePage.requested(of: app, for: visitor)
    }
  }

  /// The shard's answer about a share, with its container and the visitor's name.
  private struct FoundShare {
    let result: JSONValue
    let container: ContainerID
    let visitorName: String
  }

  /// Asks the shard that the short GUID names. A visitor who came by an app's session finds shares of that app.
  /// - Returns: nil when there is nothing for the visitor.
  private func find(_ ticket: ShareTicket, _ purpose: ResolveShortGUIDs.Purpose, baseURL: String)
    async throws(RecordError) -> FoundShare?
  {
    // An operator may have disabled the user since the sign-in.
    let known = try await share.call(IdentifyUsers(lookups: [.init(userRecordName: ticket.userRecordName)])).users.first
    guard known != .some(nil), let shard = ShortGUID(ticket.shortGUID)?.shard else { return nil }
    let start = forwarding.timing.now()
    let layout = try await forwarding.layout(since: start)
    let heirs = layout.heirs(of: shard)
    guard let (holder, container, environment) = try await locate(ticket.shortGUID, heirs, layout, start) else {
      return nil
    }
    if case .session(let session) = ticket.ground,
      (session.container, session.environment) != (container, environment)
    {
      return nil
    }
    let message = ResolveShortGUIDs(
      purpose: purpose, shard: holder, part: layout.dividedPart(of: holder), container: container,
      environment: environment,
      caller: Caller(userRecordName: ticket.userRecordName),
      items: [.init(shortGUID: ticket.shortGUID, fetchesRootRecord: false, desiredKeys: [])], baseURL: baseURL)
    guard let result = try await found(message, since: start).first, !result.isNull else { return nil }
    let names = [known??.givenName, known??.familyName].compactMap(\.self).joined(separator: " ")
    return FoundShare(
      result: result, container: container,
      visitorName: names.isEmpty ? ticket.userName : "\(names) (\(ticket.userName))")
  }

  /// Finds the shard of a share among those that have what one had, and the share's container.
  private func locate(
    _ shortGUID: String, _ shards: [Int], _ layout: ShardLayout, _ start: ContinuousClock.Instant
  ) async throws(RecordError) -> (shard: Int, container: ContainerID, environment: Environment)? {
    for shard in shards {
      let message = LocateShortGUID(shard: shard, part: layout.dividedPart(of: shard), shortGUID: shortGUID)
      let located = try await forwarding.ask(message, holderOf: shard, since: start).reply
      if let container = located.container, let environment = located.environment {
        return (shard, container, environment)
      }
    }
    return nil
  }
}
