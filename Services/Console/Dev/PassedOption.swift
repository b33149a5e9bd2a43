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
    PassedOption("public-url", "URL", [.gateway], "scheme, host and port of URLs in answers, behind a proxy"),
    PassedOption(
      "trusted-proxies", "NETWORKS", [.gateway, .notifier],
      "the proxies whose X-Forwarded headers count, such as 10.0.0.0/8"),
    PassedOption("console", "FOLDER", [.gateway], "the console's pages, in place of those that come with the release"),
    PassedOption("console-port", "N", [.gateway], "a port of its own for the console"),
    PassedOption("rate-limit", "N", [.gateway], "the limit of requests a second for each credential"),
    PassedOption("rate-burst", "N", [.gateway], "the limit of such requests at once"),
    PassedOption("user-requests", "N", [.gateway], "the limit of a user's requests under way"),
    PassedOption("user-waits", "N", [.gateway], "the limit of a user's requests that wait for changes"),
    PassedOption("container-requests", "N", [.gateway], "the limit of a container's requests under way"),
    PassedOption(
      "request-deadline", "SECONDS", [.gateway],
      "the longest time that the gateway tries a request before it answers TRY_AGAIN_LATER"),
    PassedOption("assets", "PLACE", [.gateway, .worker], "the folder or s3://bucket/prefix?… of assets"),
    PassedOption("assets-credentials", "FILE", [.gateway, .worker], "the file with the bucket's access key"),
    PassedOption("records", "URL", [.worker], "the clusters of PostgreSQL that keep the shards"),
    PassedOption("records-from", "PLACE", [.worker], "the folder or database that shards leave while workers serve"),
    PassedOption(
      "allow-asynchronous", nil, [.worker], "accept a database whose commits wait for no synchronous standby"),
    PassedOption("asset-limit", "MB", [.gateway], "the largest size of an asset"),
    PassedOption("user-uploads", "N", [.gateway], "the limit of a user's uploads at a time"),
    PassedOption("user-upload-limit", "MB", [.gateway], "the limit of a user's uploads in a day"),
    PassedOption("upload-reserve", "MB", [.gateway], "the space on the disk that uploads leave free"),
    PassedOption("asset-grace", "SECONDS", [.worker], "the time that unused assets are kept"),
    PassedOption("asset-threshold", "BYTES", [.worker], "the size from which values become assets"),
    PassedOption(
      "history-retention", "SECONDS", [.worker], "the time that history is kept after all consumers have read it"),
    PassedOption("record-retention", "SECONDS", [.worker], "the time for which zones can be restored"),
    PassedOption("conflict-retention", "SECONDS", [.worker], "the time for which lost edits can be restored"),
    PassedOption("user-stores", "N", [.worker], "the limit of a user's stores of one database"),
    PassedOption("memory", "MB", Set(FleetMember.Role.allCases), "the memory limit of each process"),
    PassedOption("verify", nil, [.worker], "check each shard before the worker serves it"),
    PassedOption("shards", "N", [.share], "the number of shards of a new installation"),
    PassedOption("token-rotation", "SECONDS", [.share], "the age at which a session's token gets a successor"),
    PassedOption("token-grace", "SECONDS", [.share], "the time that a token stays valid after that"),
    PassedOption("connections", "N", [.notifier], "the limit of devices that listen"),
    PassedOption("connections-per-address", "N", [.gateway, .notifier], "the limit of connections from one address"),
    PassedOption("courier-hold", "SECONDS", [.notifier], "the time that the notifier holds a courier's poll"),
    PassedOption(
      "push-interval", "SECONDS", [.notifier], "the least time between two pushes of a zone to a sleeping device"),
    PassedOption(
      "push-private-addresses", nil, [.notifier], "let clients name browsers' services and webhooks of this network"),
    PassedOption("push-authorities", "FILE", [.notifier], "the authorities to trust for push services and webhooks"),
    PassedOption("mail-authorities", "FILE", [.share], "the authorities to trust for the mail server"),
    PassedOption("heartbeat", "SECONDS", [.notifier], "the pause between two keep-alive comments of an event stream"),
  ]

  /// The option in the table of commands.
  var option: Command.Option {
    let who = FleetMember.Role.allCases.filter(roles.contains).map(\.rawValue).joined(separator: " and ")
    let text = "\(explanation); passed on to the \(who)"
    guard let placeholder else { return .flag(name, text) }
    return .optional(name, placeholder, text)
  }
}
