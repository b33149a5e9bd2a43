// A provider's answer as the browser brings it, and what it tells of a person.

import HTTPServer
import JSON
import OpenID
import Records
import ServiceBus

/// The parameters of a provider's answer, in the query or in a form.
struct ProviderAnswer {
  private let request: HTTPRequest
  private let form: FormBody?

  /// nil for a form that is too long or malformed.
  init?(_ request: HTTPRequest, byteLimit: Int) {
    self.request = request
    guard request.method == .post else {
      form = nil
      return
    }
    guard request.body.count <= byteLimit, let form = FormBody(request.body) else { return nil }
    self.form = form
  }

  subscript(_ name: String) -> String? { form.map { $0[name] } ?? request.query(name) }
}

extension Identity {
  /// Apple tells names once, beside its token and unsigned; they name the person to others and prove nothing.
  mutating func takeNames(from text: String?) {
    guard let text, let name = (try? JSONValue(parsing: Array(text.utf8)))?["name"] else { return }
    func part(_ key: String) -> String? {
      name[key]?.string.flatMap { text in
        (1...255).contains(text.utf8.count) && text.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7f } ? text : nil
      }
    }
    givenName = givenName ?? part("firstName")
    familyName = familyName ?? part("lastName")
  }
}

extension SignInByIdentity.Person {
  init(_ identity: Identity) {
    self.init(
      issuer: identity.issuer, subject: identity.subject, emailAddress: identity.emailAddress,
      phoneNumber: identity.phoneNumber.flatMap { PhoneNumber($0)?.description }, givenName: identity.givenName,
      familyName: identity.familyName,
      sessionID: identity.sessionID)
  }
}
