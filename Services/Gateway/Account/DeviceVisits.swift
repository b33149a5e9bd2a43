// `/account/device` (docs/protocol/record-plane.md#device): a person types the code of a device, and signs it in.

import Authentication
import HTTPServer
import Records
import ServiceBus
import ServiceKit
import WebServices

extension Gateway {
  /// A longer body can't be the page's form.
  private static let bodyByteLimit = 16_384
  /// Time for the sign-in before. Unit: milliseconds.
  private static let signInTime: Int64 = 900_000

  /// `GET` asks for a code, or shows the device behind one; `POST` signs it in or turns it away.
  func verifyDevice(_ request: HTTPRequest) async throws(RecordError) -> HTTPResponse {
    if let problem = throttling(request) { return DevicePage.ask(problem) }
    let key = try await secrets.signingKey()
    guard request.method == .post else {
      guard let text = request.query("code") else { return DevicePage.ask() }
      return await show(text, request, key)
    }
    guard isOwn(request) else { return SignInPage.ended(.foreignForm) }
    guard let visit = signedCookie(for: .account, request, key) else { return SignInPage.ended(.badLink) }
    guard request.body.count <= Self.bodyByteLimit, let fields = FormBody(request.body),
      let code = fields["code"].flatMap({ UserCode($0) }), let word = fields["act"], ["allow", "refuse"].contains(word)
    else { return DevicePage.ask(.incomplete) }
    let isAllowed = word == "allow"
    let reply: UseAccount.Reply
    do throws(RecordError) {
      reply = try await answer(to: isAllowed ? .allowDevice(code) : .refuseDevice(code), of: visit, request)
    } catch {
      // Dropped because the visitor can only try again, whatever the reason; the bus counts failed calls.
      return DevicePage.ask(.away)
    }
    if let seconds = reply.retryAfter { return DevicePage.ask(.throttled(seconds: seconds)) }
    guard reply.account != nil else {
      return AccountPage.left(cookie: cookie("", for: .account, seconds: 0, request))
    }
    return reply.refusal.map { DevicePage.ask(.unchanged($0)) } ?? DevicePage.done(isAllowed: isAllowed)
  }

  /// The device behind a typed code; for a person who is not signed in the sign-in page.
  private func show(_ text: String, _ request: HTTPRequest, _ key: [UInt8]) async -> HTTPResponse {
    guard let code = UserCode(text) else { return DevicePage.ask(.unchanged(.device)) }
    let reply: LookUpDeviceSignIn.Reply
    do throws(RecordError) {
      reply = try await share.call(LookUpDeviceSignIn(userCode: code, clientAddress: request.remoteAddress))
    } catch {
      // Dropped because the visitor can only try again, whatever the reason; the bus counts failed calls.
      return DevicePage.ask(.away)
    }
    guard let device = reply.device else {
      return DevicePage.ask(reply.retryAfter.map { .throttled(seconds: $0) } ?? .unchanged(.device))
    }
    guard let visit = signedCookie(for: .account, request, key) else {
      let state = SignInState(
        container: device.container, environment: device.environment, origin: nil, callbackURL: nil,
        expiry: wallClock.now + Self.signInTime, grant: device.grant)
      return await signInForm(state, to: .account(deviceCode: code), key, request).page()
    }
    return DevicePage.confirm(
      device, code, app: await pageApp(of: device.container), userName: visit.userName, now: wallClock.now)
  }
}
