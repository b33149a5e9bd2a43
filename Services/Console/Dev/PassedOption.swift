// Options of the services that `aquifer dev` passes on unchanged.

struct PassedOption: Hashable, Sendable {
  let name: String
  /// As help shows it; nil: a flag.
  let placeholder: String?
  /// The roles that get the option.
  let roles: Set<FleetMember.Role>
  let explanation: String

  private init(_ name: String, _ placeholder: String?, _ roles: Set<FleetMember.Role>, _ explanation: String) {
    self.name = name
    self.placeholder = placeholder
    self.roles = roles
    self.explanation = explanation
  }

  static let table: [PassedOption] = [
    PassedOption("public-url", "URL", [.gateway], "what addresses in answers begin with, behind a proxy"),
    PassedOption("trusted-proxies", "NETWORKS", [.gateway, .notifier], "proxies whose X-Forwarded headers are believed, such as 10.0.0.0/8"),
    PassedOption("rate-limit", "N", [.gateway], "requests a second of each credential"), PassedOption("rate-burst", "N", [.gateway], "how many may come at once"),
    PassedOption("user-requests", "N", [.gateway], "requests of a user that may be under way"),
    PassedOption("user-waits", "N", [.gateway], "requests of a user that may wait for changes"),
    PassedOption("container-requests", "N", [.gateway], "requests of a container that may be under way"),
    PassedOption("request-deadline", "SECONDS", [.gateway], "how long a request is tried before the client is told to come again"),
    PassedOption("asset-limit", "MB", [.gateway], "how large an asset may be"), PassedOption("user-uploads", "N", [.gateway], "uploads of a user at a time"),
    PassedOption("user-upload-limit", "MB", [.gateway], "what a user may upload in a day"),
    PassedOption("upload-reserve", "MB", [.gateway], "how much of the disk uploads leave free"),
    PassedOption("asset-grace", "SECONDS", [.worker], "how long content is kept that no record uses"),
    PassedOption("asset-threshold", "BYTES", [.worker], "from which size on values become assets"),
    PassedOption("history-retention", "SECONDS", [.worker], "how long stores' history is kept that all have read"),
    PassedOption("record-retention", "SECONDS", [.worker], "how far back zones can be restored"),
    PassedOption("conflict-retention", "SECONDS", [.worker], "how long lost edits can be brought back"),
    PassedOption("user-stores", "N", [.worker], "how many stores of one database a user may have"),
    PassedOption("memory", "MB", Set(FleetMember.Role.allCases), "what each process may take"),
    PassedOption("verify", nil, [.worker], "check each shard before it is served"),
    PassedOption("shards", "N", [.share], "how many shards a new installation has"),
    PassedOption("token-rotation", "SECONDS", [.share], "the age from which sessions' tokens get successors"),
    PassedOption("token-grace", "SECONDS", [.share], "how long a token counts that has one"),
    PassedOption("connections", "N", [.notifier], "how many may listen"),
    PassedOption("connections-per-address", "N", [.gateway, .notifier], "how many connections one address may have"),
    PassedOption("courier-hold", "SECONDS", [.notifier], "how long couriers' polls are held"),
    PassedOption("heartbeat", "SECONDS", [.notifier], "the pause between two comments in an event stream"),
  ]

  /// The option in the table of commands.
  var option: Command.Option {
    let who = FleetMember.Role.allCases.filter(roles.contains).map(\.rawValue).joined(separator: " and ")
    let text = "\(explanation); passed on to the \(who)"
    guard let placeholder else { return .flag(name, text) }
    return .optional(name, placeholder, text)
  }
}
