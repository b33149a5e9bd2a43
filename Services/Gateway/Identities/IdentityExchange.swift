// `POST /identity/1/…/exchange`: a native app's ID token becomes a web-auth token.

import Authentication
import HTTPServer
import JSON
import OpenID
import Records
import ServiceBus
import ServiceKit
import WebServices

extension Gateway {
  /// Takes `{"provider","idToken","nonce","keep"}` and answers `{"ckWebAuthToken","userRecordName"}`. Each ID token
  /// counts once.
  func exchangeIdentity(_ exchange: IncomingRequest, _ address: Address) async throws(RecordError) -> HTTPResponse {
    try take(.address(exchange.request.clientNetwork))
    guard let container = address.container, let environment = address.environment else {
      throw RecordError(.badRequest, "The path names no container")
    }
    let body = try JSONValue.request(exchange.request.body)
    let (name, token) = (try Self.text("provider", of: body), try Self.text("idToken", of: body))
    let nonce = try Self.text("nonce", of: body)
    let entries = try await state.providers.entries(of: container, from: share)
    guard let entry = entries.first(where: { $0.name == name }) else {
      throw RecordError(.notFound, "There is no provider of identities '\(name)'")
    }
    let provider = try state.providers.provider(entry)
    let source = exchange.request.signInSource(.exchange, provider: entry.name)
    let found: (identity: Identity, expiry: Int64)
    do throws(IdentityError) {
      found = try await provider.identity(ofIDToken: token, nonce: nonce, now: wallClock.now)
    } catch {
      tell(error, of: entry)
      guard error.kind == .refused else {
        throw RecordError(.tryAgainLater, "The provider '\(name)' can't be asked at the moment", retryAfter: 5)
      }
      try await note(.provider, of: source, container, environment)
      throw RecordError(.authenticationFailed, error.description)
    }
    // Without the signature, which has a second spelling that needs no key.
    let signed = token.split(separator: ".").dropLast().joined(separator: ".")
    let signIn = SignInByIdentity(
      container: container, environment: environment, provider: entry.name,
      person: SignInByIdentity.Person(found.identity), isKept: body["keep"]?.bool ?? true,
      grant: exchange.authentication?.reply.grant, source: source)
    let reply = try await enter(signIn, using: claim(on: signed, until: found.expiry))
    if reply.refusal == .used { throw RecordError(.authenticationFailed, "The ID token was used before") }
    guard let session = reply.webAuthToken, let user = reply.userRecordName else {
      throw RecordError(.accessDenied, SignInPage.Problem.refused(reply.refusal ?? .closed).sentence)
    }
    var writer = JSONWriter()
    writer.beginObject()
    writer.member("ckWebAuthToken", session)
    writer.member("userRecordName", user)
    writer.endObject()
    return Self.json(writer.bytes)
  }

  /// Opens the session and uses the token up.
  private func enter(_ signIn: SignInByIdentity, using claim: ClaimSignature) async throws(RecordError)
    -> SignInByIdentity.Reply
  {
    if let reply = try await share.callIfKnown(SignInByIdentityOnce(signIn, claim: claim)) { return reply }
    // A share service of an earlier release knows no claim with the session: before it, so that a token that was used
    // opens none.
    guard try await share.call(claim).isFresh else {
      if let source = signIn.source { try await note(.used, of: source, signIn.container, signIn.environment) }
      return SignInByIdentity.Reply(refusal: .used)
    }
    return try await share.call(signIn)
  }

  private static func text(_ name: String, of body: JSONValue) throws(RecordError) -> String {
    guard let text = body[name]?.string, !text.isEmpty else {
      throw RecordError(.badRequest, "'\(name)' is missing or not a string")
    }
    return text
  }
}
