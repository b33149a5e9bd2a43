// The commands for providers of identities and invitations, and their requests.

import JSON

extension Command {
  static let identities: [Command] = [
    Command(
      "identity add", [Argument(name: "NAME", explanation: "a name of a-z, 0-9 and '-', part of the return address")],
      [
        .optional("preset", "P", "apple or google, whose settings are known"),
        .optional("issuer", "URL", "the provider's address, such as https://id.example.org/realms/main"),
        .required("client-id", "ID", "this installation's name at the provider; of Apple the services ID"),
        .optional("client-secret-file", "FILE", "a file with the secret; without it PKCE alone protects sign-ins"),
        .optional("team-id", "ID", "of Apple: the team"),
        .optional("key-id", "ID", "of Apple: the name of the key; --client-secret-file is its .p8 file"),
        .repeated("native-client-id", "ID", "a native app whose ID tokens are exchanged, such as its bundle ID"),
        .optional("container", "ID", "only for this container's app (default: all)"),
        .optional("display-name", "NAME", "the name on the sign-in page"),
        .repeated("scope", "S", "a scope to ask for (default: openid, email and profile)"),
        .optional("signup", "RULE", "new people: open, invited (the default) or closed"),
      ],
      summary: "Let people sign in with a provider of OpenID Connect",
      discussion: """
        Prints the path of the return address, which the provider has to know: the gateway's public URL and that path.
        The command sends the secret to the directory and never shows it again. A person becomes a user with the first
        sign-in, as --signup allows; an e-mail address counts only when the provider has verified it, and never leads to
        somebody's account.
        """,
      examples: [
        "aquifer identity add google --preset google --client-id 12-ab.apps.example --client-secret-file google.secret",
        """
        aquifer identity add work --issuer https://id.example.org/realms/main --client-id aquifer \
        --client-secret-file work.secret --display-name Work --signup open
        """,
        """
        aquifer identity add apple --preset apple --client-id org.example.photos.web --team-id ABCDE12345 \
        --key-id FGHIJ67890 --client-secret-file AuthKey.p8 --native-client-id org.example.photos
        """,
      ], action: .call(.addIdentity)),
    Command(
      "identity list", [], [onlyContainer], summary: "List the providers that people sign in with",
      examples: ["aquifer identity list"], action: .call(.listIdentities)),
    Command(
      "identity icon", [Argument(name: "NAME", explanation: "the provider's name")],
      [.optional("file", "FILE", "a PNG or an SVG of at most 16 384 bytes; without it the page shows a letter again")],
      summary: "Show a provider's icon on the sign-in page",
      discussion: """
        An SVG has elements that draw, and nothing that runs or fetches. Providers' own rules say how their mark may be
        used; Aquifer brings none.
        """,
      examples: ["aquifer identity icon work --file work.svg"], action: .call(.setIdentityIcon)),
    Command(
      "identity remove", [Argument(name: "NAME", explanation: "the provider's name")],
      summary: "End sign-in with a provider",
      discussion: """
        Users, their data and their sessions stay. The same people are found again if the issuer is added again.
        """,
      examples: ["aquifer identity remove google"], action: .call(.removeIdentity)),
    Command(
      "invitation create", [Argument(name: "EMAIL", explanation: "the person's e-mail address")],
      summary: "Let a person sign up whose provider has verified this address",
      discussion: "The first sign-in uses the invitation up.",
      examples: ["aquifer invitation create ada@example.org"], action: .call(.invite)),
    Command(
      "invitation list", summary: "List invitations that nobody has used", examples: ["aquifer invitation list"],
      action: .call(.listInvitations)),
    Command(
      "invitation delete", [Argument(name: "EMAIL", explanation: "the invited address")],
      summary: "Withdraw an invitation", examples: ["aquifer invitation delete ada@example.org"],
      action: .call(.withdrawInvitation)),
  ]
}

extension AdminCall {
  /// A call on providers or invitations.
  /// - Parameter content: the file of the secret or the key.
  init(identities kind: Kind, _ invocation: Invocation, content: [UInt8]) {
    let admin = ["admin", "1"]
    let argument = invocation.arguments.first ?? ""
    switch kind {
    case .addIdentity:
      self.init("POST", admin + ["identities"], body: Self.provider(invocation, secret: content))
    case .setIdentityIcon: self.init("PUT", admin + ["identities", argument, "icon"], body: content)
    case .removeIdentity: self.init("DELETE", admin + ["identities", argument])
    case .invite: self.init("POST", admin + ["invitations"], body: Self.object { $0.member("email", argument) })
    case .listInvitations: self.init("GET", admin + ["invitations"])
    case .withdrawInvitation: self.init("DELETE", admin + ["invitations", argument])
    default: self.init("GET", admin + ["identities"], query: Self.given(invocation, "container"))
    }
  }

  private static func provider(_ invocation: Invocation, secret: [UInt8]) -> [UInt8] {
    let texts = [
      ("preset", "preset"), ("issuer", "issuer"), ("client-id", "clientID"), ("team-id", "teamID"), ("key-id", "keyID"),
      ("container", "container"), ("display-name", "displayName"), ("signup", "signUp"),
    ]
    return object { writer in
      writer.member("name", invocation.arguments.first ?? "")
      for (option, key) in texts { if let text = invocation.value(option) { writer.member(key, text) } }
      for (option, key) in [("native-client-id", "nativeClientIDs"), ("scope", "scopes")] {
        writer.key(key)
        writer.beginArray()
        for text in invocation.values(option) { writer.string(text) }
        writer.endArray()
      }
      guard !secret.isEmpty else { return }
      let text = String(decoding: secret, as: UTF8.self)
      let isKey = invocation.value("key-id") != nil
      writer.member(isKey ? "privateKey" : "clientSecret", isKey ? text : text.trimmingLineEnd())
    }
  }
}

extension String {
  /// Without the line's end that editors put behind a secret.
  func trimmingLineEnd() -> String { String(reversed().drop { $0.isNewline }.reversed()) }
}
