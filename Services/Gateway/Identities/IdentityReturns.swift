// `/signin/return/…`: the way of a browser back from a provider of identities.

import Authentication
import Crypto
import HTTPServer
import OpenID
import Records
import ServiceBus
import ServiceKit
import WebServices

extension Gateway {
  private static let answerByteLimit = 16_384

  /// Takes the provider's answer.
  func finishIdentity(_ request: HTTPRequest, provider name: String) async throws(RecordError) -> HTTPResponse {
    if let problem = throttling(request) { return SignInPage.ended(problem) }
    let key = try await secrets.signingKey()
    guard let fields = ProviderAnswer(request, byteLimit: Self.answerByteLimit), let state = fields["state"],
      let cookie = request.cookie(Self.cookieName(state)),
      let attempt = IdentityAttempt(text: cookie, verifiedWith: key, now: wallClock.now),
      attempt.provider == name, ConstantTime.areEqual(Array(attempt.state.utf8), Array(state.utf8)),
      var response = await finish(attempt, fields, key, request)
    else { return SignInPage.ended(.foreignAnswer) }
    let removal = attemptCookie(state, "", seconds: 0, isSentWithForms: request.method == .post, request)
    response.headers.append(("Set-Cookie", removal))
    return response
  }

  /// nil when the page that began the attempt no longer counts.
  private func finish(
    _ attempt: IdentityAttempt, _ fields: ProviderAnswer, _ key: [UInt8], _ request: HTTPRequest
  ) async -> HTTPResponse? {
    if attempt.purpose == .link {
      guard let visit = KeptSignIn(text: attempt.origin, for: .account, verifiedWith: key, now: wallClock.now) else {
        return nil
      }
      do throws(SignInPage.Problem) {
        let person = try await person(of: attempt, fields, visit.container, visit.environment, request)
        return await use(.link(provider: attempt.provider, person: person), visit, request)
      } catch {
        return await use(.look, visit, request, problem: error)
      }
    }
    guard let signIn = SignInState(text: attempt.origin, verifiedWith: key, now: wallClock.now) else { return nil }
    var destination = SignInPage.Destination.app
    if case .account(let code) = attempt.purpose { destination = .account(deviceCode: code.flatMap { UserCode($0) }) }
    let form = await signInForm(signIn, to: destination, key, request)
    let isKept = attempt.purpose == .keptApp
    do throws(SignInPage.Problem) {
      let person = try await person(of: attempt, fields, signIn.container, signIn.environment, request)
      let reply = try await open(person, attempt.provider, signIn, isKept: isKept, request)
      guard let token = reply.webAuthToken, let userName = reply.userName else {
        guard let refusal = reply.refusal, refusal != .apiToken else { return SignInPage.ended(.revoked) }
        throw .refused(refusal)
      }
      return await arrive(form, userName: userName, token: token, isKept: isKept, key, request)
    } catch {
      return error == .badLink ? SignInPage.ended(error) : form.page(problem: error)
    }
  }

  /// Asks the provider for the person, and notes for the audit that it vouches for nobody.
  private func person(
    of attempt: IdentityAttempt, _ fields: ProviderAnswer, _ container: ContainerID, _ environment: Environment,
    _ request: HTTPRequest
  ) async throws(SignInPage.Problem) -> SignInByIdentity.Person {
    let source = request.signInSource(.provider, provider: attempt.provider)
    do throws(Unidentified) {
      return try await identify(attempt, fields, container, request)
    } catch {
      if let refusal = error.refusal {
        do throws(RecordError) {
          try await note(refusal, of: source, container, environment)
        } catch {
          // Dropped because the visitor can only try again, whatever the reason; the bus counts failed calls.
          throw .away
        }
      }
      throw error.problem
    }
  }

  /// A person whom the provider did not identify.
  private struct Unidentified: Error {
    let problem: SignInPage.Problem
    /// nil for a failure, which is no refusal.
    var refusal: NoteRefusedSignIn.Refusal?
  }

  private func identify(
    _ attempt: IdentityAttempt, _ fields: ProviderAnswer, _ container: ContainerID, _ request: HTTPRequest
  ) async throws(Unidentified) -> SignInByIdentity.Person {
    guard let code = fields["code"], fields["error"] == nil else {
      throw Unidentified(problem: .declined, refusal: .provider)
    }
    let entry: IdentityProviderEntry
    do throws(SignInPage.Problem) {
      entry = try await self.entry(named: attempt.provider, of: container)
    } catch {
      throw Unidentified(problem: error)
    }
    // Dropped errors: the visitor can only try again, whatever the reason; the bus counts failed calls.
    guard let isFirst = try? await isFirstUse(of: attempt.state, until: attempt.expiry),
      let provider = try? state.providers.provider(entry)
    else { throw Unidentified(problem: .away) }
    guard isFirst else { throw Unidentified(problem: .badLink, refusal: .used) }
    do throws(IdentityError) {
      var person = try await provider.identity(
        forCode: code, issuer: fields["iss"],
        SignInAttempt(state: attempt.state, nonce: attempt.nonce, verifier: attempt.verifier),
        returnAddress: returnAddress(entry, request), now: wallClock.now)
      if entry.answersByForm { person.takeNames(from: fields["user"]) }
      return SignInByIdentity.Person(person)
    } catch {
      tell(error, of: entry)
      throw error.kind == .unavailable
        ? Unidentified(problem: .away) : Unidentified(problem: .declined, refusal: .provider)
    }
  }

  /// Opens a session for the person.
  private func open(
    _ person: SignInByIdentity.Person, _ provider: String, _ signIn: SignInState, isKept: Bool, _ request: HTTPRequest
  ) async throws(SignInPage.Problem) -> SignInByIdentity.Reply {
    do throws(RecordError) {
      return try await share.call(
        SignInByIdentity(
          container: signIn.container, environment: signIn.environment, provider: provider, person: person,
          isKept: isKept, grant: signIn.grant.isEmpty ? nil : signIn.grant,
          source: request.signInSource(.provider, provider: provider)))
    } catch {
      // Dropped because the visitor can only try again, whatever the reason; the bus counts failed calls.
      throw .away
    }
  }
}
