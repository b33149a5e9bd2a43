// The commands for push services and the devices that they wake, and their requests.

import JSON

extension Command {
  private static let serviceName = Argument(name: "NAME", explanation: "a name of a-z, 0-9 and '-'")

  static let pushes: [Command] = [
    Command(
      "push add", [serviceName],
      [
        .required("kind", "K", "apns, web (browsers and UnifiedPush) or webhook"),
        .optional("container", "ID", "only for this container (default: all; Apple's needs one)"),
        .optional("topic", "ID", "of apns: the app's bundle ID"),
        .optional("team-id", "ID", "of apns: the team"),
        .optional("key-id", "ID", "of apns: the name of the key"),
        .optional("key-file", "FILE", "of apns: the key's .p8 file; of web: a key to go on with, in base64url"),
        .optional("url", "URL", "of apns: an address in place of Apple's"),
        .optional("contact", "URL", "of web: a mailto: or https: address, which the browsers' services may write to"),
      ],
      summary: "Let devices be woken whose app does not run",
      discussion: """
        Devices then register with tokens/register. A push tells a device that something has changed, and the device
        fetches it; an alert of a subscription goes along. The command sends the key to the directory and never shows it
        again. For browsers it makes the installation's key and prints the public half, which pages get by tokens/key.
        """,
      examples: [
        """
        aquifer push add photos-apple --kind apns --container iCloud.org.example.photos --topic org.example.photos \
        --team-id ABCDE12345 --key-id FGHIJ67890 --key-file AuthKey.p8
        """,
        "aquifer push add browsers --kind web --contact mailto:ops@example.org",
        "aquifer push add servers --kind webhook",
      ], action: .call(.addPushService)),
    Command(
      "push list", [], [onlyContainer], summary: "List the services that wake devices",
      examples: ["aquifer push list"], action: .call(.listPushServices)),
    Command(
      "push remove", [serviceName], summary: "Wake no more devices with a service",
      discussion: "Registrations of devices stay, and count again if such a service is added again.",
      examples: ["aquifer push remove browsers"], action: .call(.removePushService)),
    Command(
      "registration list", [],
      [onlyContainer, .optional("user", "NAME", "only of this user")],
      summary: "List the devices that are woken", examples: ["aquifer registration list --user ada"],
      action: .call(.listRegistrations)),
    Command(
      "registration end", [Argument(name: "ID", explanation: "the registration's number")],
      summary: "Wake a device no more, until its app registers again", examples: ["aquifer registration end 12"],
      action: .call(.endRegistration)),
  ]
}

extension AdminCall {
  /// A call on push services or registrations.
  /// - Parameter content: the file of the key.
  init(pushes kind: Kind, _ invocation: Invocation, content: [UInt8]) {
    let admin = ["admin", "1"]
    let argument = invocation.arguments.first ?? ""
    switch kind {
    case .addPushService: self.init("POST", admin + ["push-services"], body: Self.pushService(invocation, key: content))
    case .removePushService: self.init("DELETE", admin + ["push-services", argument])
    case .listRegistrations:
      self.init("GET", admin + ["registrations"], query: Self.given(invocation, "container", "user"))
    case .endRegistration: self.init("DELETE", admin + ["registrations", argument])
    default: self.init("GET", admin + ["push-services"], query: Self.given(invocation, "container"))
    }
  }

  private static func pushService(_ invocation: Invocation, key: [UInt8]) -> [UInt8] {
    let texts = [
      ("kind", "kind"), ("container", "container"), ("topic", "topic"), ("team-id", "teamID"), ("key-id", "keyID"),
      ("url", "url"), ("contact", "contact"),
    ]
    return object { writer in
      writer.member("name", invocation.arguments.first ?? "")
      for (option, key) in texts { if let text = invocation.value(option) { writer.member(key, text) } }
      guard !key.isEmpty else { return }
      let text = String(decoding: key, as: UTF8.self)
      writer.member("privateKey", invocation.value("kind") == "web" ? text.trimmingLineEnd() : text)
    }
  }
}
