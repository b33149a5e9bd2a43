// The commands for invitations by mail, and their requests.

import JSON

extension Command {
  static let mails: [Command] = [
    Command(
      "mail set", [],
      [
        .required("server", "URL", "smtps://HOST, or smtp://HOST, where TLS begins by STARTTLS; a port may follow"),
        .required("from", "EMAIL", "the sender's address"),
        .required("link-url", "URL", "the gateways' public address, at which links begin"),
        .optional("from-name", "NAME", "the sender's name"),
        .optional("user", "NAME", "the name at the server"),
        .optional("password-file", "FILE", "a file with the password at the server"),
      ],
      summary: "Invite people without an account by mail",
      discussion: """
        A person gets one mail for each share to which somebody invites their e-mail address while no user has it.
        Limits for each inviter, each address and the installation keep strangers from sending mail to everybody. Only a
        server at 127.0.0.1 is spoken to without TLS. The command sends the password to the directory and never shows it
        again.
        """,
      examples: [
        """
        aquifer mail set --server smtps://mail.example.org --from photos@example.org --from-name Photos \
        --link-url https://photos.example.org --user photos --password-file mail.password
        """
      ], action: .call(.setMail)),
    Command("mail show", summary: "Show the mail server", examples: ["aquifer mail show"], action: .call(.showMail)),
    Command(
      "mail off", summary: "Send no more mail", discussion: "Mails that wait are not sent later.",
      examples: ["aquifer mail off"], action: .call(.endMail)),
    Command(
      "mail list", [], [.optional("after", "N", "the mails before this number")],
      summary: "List mails that were sent or given up, latest first", examples: ["aquifer mail list"],
      action: .call(.listMail)),
    Command(
      "mail allow", [Argument(name: "EMAIL", explanation: "an address whose owner asked for no more mail")],
      summary: "Send mail to an address again", examples: ["aquifer mail allow ada@example.org"],
      action: .call(.allowMail)),
    Command(
      "mail-template export", summary: "Print the mail's text as JSON, as `mail-template import` reads it",
      examples: ["aquifer mail-template export"], action: .call(.exportMailTemplate)),
    Command(
      "mail-template import", [Argument(name: "FILE", explanation: "the texts as JSON")],
      summary: "Replace the mail's text",
      discussion: """
        FILE has the keys subject, text and html. {app}, {inviter}, {title}, {link} and {stop} stand for what differs
        from mail to mail. text and html must have {link}, which leads to the share, and {stop}, which ends all mail.
        """,
      examples: ["aquifer mail-template import invitation.json"], action: .call(.importMailTemplate)),
  ]
}

extension AdminCall {
  /// A call on mail.
  /// - Parameter content: the file of the password or of the template.
  init(mail kind: Kind, _ invocation: Invocation, content: [UInt8]) {
    let mail = ["admin", "1", "mail"]
    switch kind {
    case .setMail: self.init("PUT", mail, body: Self.mailServer(invocation, password: content))
    case .endMail: self.init("DELETE", mail)
    case .listMail: self.init("GET", mail + ["sent"], query: Self.given(invocation, "after"))
    case .allowMail: self.init("DELETE", mail + ["refusals", invocation.arguments.first ?? ""])
    case .exportMailTemplate: self.init("GET", mail + ["template"])
    case .importMailTemplate: self.init("PUT", mail + ["template"], body: content)
    default: self.init("GET", mail)
    }
  }

  private static func mailServer(_ invocation: Invocation, password: [UInt8]) -> [UInt8] {
    let texts = [
      ("server", "server"), ("user", "user"), ("from", "from"), ("from-name", "fromName"), ("link-url", "linkURL"),
    ]
    return object { writer in
      for (option, key) in texts { if let text = invocation.value(option) { writer.member(key, text) } }
      if !password.isEmpty { writer.member("password", String(decoding: password, as: UTF8.self).trimmingLineEnd()) }
    }
  }
}
