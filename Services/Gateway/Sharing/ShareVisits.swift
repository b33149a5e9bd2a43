// `/share/{shortGUID}`: the address of a share in a browser. A visitor says who he is, sees what is shared, and accepts it or asks for it.

import Authentication
import HTTPServer
import JSON
import Records
import ServiceBus
import ServiceKit
import WebServices

extension Gateway {
  /// How long a visitor may look at the page before he has to sign in again. Unit: milliseconds.
  private static let visitTime: Int64 = 600_000
  private static let formByteLimit = 16_384

  /// `GET` shows the form; `POST` looks at what was typed or chosen. What leads nowhere, and what is not for the visitor, looks alike.
  func visitShare(_ request: HTTPRequest) async throws(RecordError) -> HTTPResponse {
    if let seconds = limiter.take(.address(request.remoteAddress)) {
      metrics.countThrottled(by: "address")
      return SharePage.nothing(SharePage.Notice(.throttled(seconds: seconds)))
    }
    guard request.method == .post else { return SharePage.nothing() }
    guard isOwn(request) else { return SharePage.nothing(.foreignForm) }
    guard request.body.count <= Self.formByteLimit, let form = FormBody(request.body) else { return SharePage.nothing(SharePage.Notice(.incomplete)) }
    let key = try await secrets.signingKey()
    let shortGUID = request.pathSegments.last ?? ""
    if let text = form["ticket"] {
      guard let ticket = ShareTicket(text: text, verifiedWith: key, now: wallClock.now), ticket.shortGUID == shortGUID else { return SharePage.nothing(.tooLate) }
      return await visit(ticket, text, purpose: form["action"] == "request" ? .requestAccess : .accept, request)
    }
    guard let name = form["name"], let password = form["password"], !name.trimmingSpaces().isEmpty, !password.isEmpty else {
      return SharePage.nothing(SharePage.Notice(.incomplete), name: form["name"] ?? "")
    }
    let reply: CheckPassword.Reply
    do throws(RecordError) {
      reply = try await share.call(CheckPassword(userName: name.trimmingSpaces(), password: password, clientAddress: request.remoteAddress))
    } catch {
      // Dropped because whatever it is, the visitor can only try again; calls that fail are counted on the bus.
      return SharePage.nothing(SharePage.Notice(.away), name: name)
    }
    guard let user = reply.userRecordName else {
      return SharePage.nothing(SharePage.Notice(reply.retryAfter.map { .throttled(seconds: $0) } ?? .wrong), name: name)
    }
    let ticket = ShareTicket(userRecordName: user, shortGUID: shortGUID, expiry: wallClock.now + Self.visitTime)
    return await visit(ticket, ticket.text(signedWith: key), purpose: .resolve, request)
  }

  /// Somebody who is known.
  private func visit(_ ticket: ShareTicket, _ text: String, purpose: ResolveShortGUIDs.Purpose, _ request: HTTPRequest) async -> HTTPResponse {
    do throws(RecordError) {
      guard let result = try await result(of: ticket, purpose, baseURL: options.publicAddress.url(for: request)) else { return SharePage.nothing() }
      if let code = result["serverErrorCode"]?.string {
        guard code != ServerErrorCode.notFound.rawValue else { return SharePage.nothing() }
        return SharePage.nothing(SharePage.Notice(sentence: result["reason"]?.string ?? code, status: 409))
      }
      return purpose == .requestAccess ? SharePage.requested() : SharePage.share(SharePage.Share(result), ticket: text)
    } catch {
      // Dropped because the visitor can only try again; calls that fail are counted on the bus.
      return SharePage.nothing(SharePage.Notice(.away))
    }
  }

  /// What the share's shard says; nil: that there is nothing for the visitor.
  private func result(of ticket: ShareTicket, _ purpose: ResolveShortGUIDs.Purpose, baseURL: String) async throws(RecordError) -> JSONValue? {
    // He may have been disabled since.
    guard try await share.call(IdentifyUsers(lookups: [.init(userRecordName: ticket.userRecordName)])).users.first != .some(nil),
      let shard = ShortGUID(ticket.shortGUID)?.shard
    else { return nil }
    let start = forwarding.timing.now()
    guard shard < (try await forwarding.shardCount(since: start)) else { return nil }
    let place = try await forwarding.ask(LocateShortGUID(shard: shard, shortGUID: ticket.shortGUID), holderOf: shard, since: start).reply
    guard let container = place.container, let environment = place.environment else { return nil }
    let message = ResolveShortGUIDs(
      purpose: purpose, shard: shard, container: container, environment: environment, caller: Caller(userRecordName: ticket.userRecordName),
      items: [.init(shortGUID: ticket.shortGUID, fetchesRootRecord: false, desiredKeys: [])], baseURL: baseURL)
    guard let result = try await found(message, since: start).first, !result.isNull else { return nil }
    return result
  }
}
