// Passkeys at the gateway: challenges for the pages, and the answers of authenticators.

import Authentication
import Crypto
import HTTPServer
import Records
import ServiceBus
import ServiceKit
import WebServices

extension FormBody {
  /// A part of an authenticator's answer, in base64url.
  fileprivate func bytes(_ name: String) -> [UInt8]? { self[name].flatMap { Base64URL.decode($0) } }
}

extension Gateway {
  /// The time for a ceremony. Unit: milliseconds.
  private static let ceremonyTime: Int64 = 900_000

  /// The values for a page's script; none where browsers make no passkeys.
  /// - Parameter userRecordName: for a new passkey of this user; nil: to sign in.
  func passkeyData(for userRecordName: String? = nil, _ key: [UInt8], _ request: HTTPRequest) -> PasskeyData? {
    guard let party = relyingParty(of: request) else { return nil }
    let challenge = PasskeyChallenge(
      userRecordName.map { PasskeyChallenge.Purpose.registration(userRecordName: $0) } ?? .signIn,
      nonce: Base64URL.encode(random.bytes(32)),
      expiry: wallClock.now + Self.ceremonyTime)
    return PasskeyData(
      challenge: Base64URL.encode(Array(challenge.text(signedWith: key).utf8)), host: party.id,
      user: userRecordName.map { Base64URL.encode(Array($0.utf8)) })
  }

  /// nil for a literal of an address, for which browsers make no passkeys, and for plain HTTP but on this machine.
  func relyingParty(of request: HTTPRequest) -> RelyingParty? {
    let origin = PageOrigin.origin(of: options.publicAddress.url(for: request))
    let parts = origin.split(separator: "/", omittingEmptySubsequences: true)
    guard parts.count == 2 else { return nil }
    let host = String(parts[1].prefix { $0 != ":" })
    let isAddress = host.isEmpty || host.hasPrefix("[") || host.allSatisfy { $0.isNumber || $0 == "." }
    guard !isAddress, parts[0] == "https:" || host == "localhost" else { return nil }
    return RelyingParty(id: host, origin: origin)
  }

  /// The assertion in a sign-in form; nil for a form without one.
  func assertion(in fields: FormBody, _ request: HTTPRequest) -> PasskeyAssertion? {
    guard let party = relyingParty(of: request), let credentialID = fields.bytes("credential"),
      let clientData = fields.bytes("client"), let data = fields.bytes("data"),
      let signature = fields.bytes("signature")
    else { return nil }
    return PasskeyAssertion(
      credentialID: credentialID, clientData: clientData, authenticatorData: data, signature: signature,
      relyingParty: party, userHandle: fields.bytes("user").flatMap { $0.isEmpty ? nil : $0 })
  }

  /// Signs in the owner of a passkey.
  func signIn(
    by assertion: PasskeyAssertion, _ form: SignInPage.Form, isKept: Bool, _ key: [UInt8], _ request: HTTPRequest
  ) async -> HTTPResponse {
    let state = form.state
    let reply: SignInByPasskey.Reply
    do throws(RecordError) {
      reply = try await share.call(
        SignInByPasskey(
          container: state.container, environment: state.environment, assertion: assertion, isKept: isKept,
          grant: state.grant.isEmpty ? nil : state.grant, source: request.signInSource(.passkey)))
    } catch {
      // Dropped because the visitor can only try again, whatever the reason; the bus counts failed calls.
      return form.page(problem: .away)
    }
    if reply.isOver { return SignInPage.ended(.revoked) }
    if let token = reply.webAuthToken, let userName = reply.userName {
      return await arrive(form, userName: userName, token: token, isKept: isKept, key, request)
    }
    return form.page(problem: reply.retryAfter.map { .throttled(seconds: $0) } ?? .badPasskey)
  }

  /// The new passkey in a form of the account page; nil for another form.
  func registration(in fields: FormBody, _ request: HTTPRequest) -> PasskeyRegistration? {
    guard fields["act"] == "passkey", let party = relyingParty(of: request), let clientData = fields.bytes("client"),
      let data = fields.bytes("data"), let publicKey = fields.bytes("key")
    else { return nil }
    return PasskeyRegistration(
      name: ClientName.name(ofUserAgent: request.header("user-agent")) ?? "A passkey", clientData: clientData,
      authenticatorData: data, publicKey: publicKey, relyingParty: party)
  }
}

/// The values that a page's script needs for a passkey, and the scripts.
struct PasskeyData: Hashable, Sendable {
  /// In base64url, as all of them but the host.
  let challenge: String
  let host: String
  let user: String?

  /// For `data-` attributes.
  var attributes: [(name: String, value: String)] {
    [("challenge", challenge), ("host", host), ("user", user ?? "")]
  }

  /// The button, and the fields that the script fills.
  /// - Parameters:
  ///   - id: of the form.
  ///   - fields: the names of the authenticator's values.
  static func form(_ id: String, action: String, act: String, fields: [String], button: String) -> String {
    let inputs = fields.map { "<input type=\"hidden\" name=\"\($0)\">" }.joined()
    return """
      <form id="\(id)" method="post" action="\(action)" hidden><input type="hidden" name="act" \
      value="\(act)">\(inputs)<button type="button">\(button)</button></form>
      """
  }

  // Constant texts, so that the policy can name them by their hash.

  private static let coding = """
    const coded = bytes => btoa(String.fromCharCode(...new Uint8Array(bytes))).replace(/\\+/g, '-')\
    .replace(/\\//g, '_').replace(/=+$/, '');
    const decoded = text => Uint8Array.from(atob(text.replace(/-/g, '+').replace(/_/g, '/')), c => c.charCodeAt(0));
    const passkey = (id, ask) => {
      const form = document.getElementById(id);
      if (!form || !window.PublicKeyCredential || !document.body.dataset.challenge) return;
      form.hidden = false;
      form.querySelector('button').addEventListener('click', async () => {
        try {
          const values = await ask(document.body.dataset);
          for (const [name, value] of Object.entries(values)) form.elements[name].value = value;
          form.submit();
        } catch (error) { form.dataset.problem = error.name; }
      });
    };
    """

  static let signInScript =
    coding + """

      passkey('passkey', async page => {
        const found = await navigator.credentials.get({publicKey: {challenge: decoded(page.challenge), \
      rpId: page.host, userVerification: 'required'}});
        const keep = document.getElementById('keep');
        return {credential: coded(found.rawId), client: coded(found.response.clientDataJSON), \
      data: coded(found.response.authenticatorData), signature: coded(found.response.signature), \
      user: coded(found.response.userHandle || []), \
      keep: keep && keep.checked ? 'yes' : ''};
      });
      """

  static let registrationScript =
    coding + """

      passkey('passkey', async page => {
        const made = await navigator.credentials.create({publicKey: {challenge: decoded(page.challenge), \
      rp: {id: page.host, name: page.host}, user: {id: decoded(page.user), name: page.name, displayName: page.name}, \
      pubKeyCredParams: [{type: 'public-key', alg: -7}], attestation: 'none', \
      authenticatorSelection: {residentKey: 'required', userVerification: 'required'}}});
        return {client: coded(made.response.clientDataJSON), data: coded(made.response.getAuthenticatorData()), \
      key: coded(made.response.getPublicKey())};
      });
      """
}
