// The gateway's options, and the limits that they set.

public import ServiceKit

extension GatewayService {
  public static let options: [Option] =
    [
      Option("http", .address, default: "127.0.0.1:8080", help: "The address where the gateway serves clients."),
      Option(
        "public-url", .url,
        help:
          """
          The gateway's URL for clients, if it differs from the address it listens on: behind a proxy, in a container. \
          Scheme, host and port alone.
          """
      ),
      Option(
        "notifier-url", .url, default: "http://127.0.0.1:8081",
        help: "The notifier's URL for clients, for the addresses of web couriers."),
      EncryptionKeys.option,
      Option(
        "asset-limit", .integer(1...10_000), default: "50",
        help: "The largest asset that the gateway takes, in megabytes (of 1,000,000 bytes)."),
      Option(
        "user-uploads", .integer(1...512), default: "16",
        help: "The limit of one user's uploads under way; the gateway answers more with THROTTLED."),
      Option(
        "user-upload-limit", .integer(0...1_000_000_000), default: "10000",
        help: "Megabytes that one user may upload in a day, the time that content waits for its record. 0: no limit."),
      Option(
        "upload-reserve", .integer(0...1_000_000_000), default: "1000",
        help:
          """
          Megabytes of the assets' file system that uploads leave free; with less free, the gateway refuses uploads \
          (TRY_AGAIN_LATER). 0: none.
          """
      ),
      Option(
        "user-requests", .integer(0...1_000_000), default: "64",
        help: "The limit of one user's requests under way; the gateway answers more with THROTTLED. 0: no limit."
      ),
      Option(
        "user-waits", .integer(0...1_000_000), default: "128",
        help:
          """
          The limit of one user's requests that wait for changes (wait=, event streams); the gateway answers more with \
          THROTTLED. 0: no limit.
          """
      ),
      Option(
        "container-requests", .integer(0...1_000_000), default: "1024",
        help:
          """
          The limit of one container's requests under way; the gateway answers more with THROTTLED. The last quarter \
          is for users with fewer than four. 0: no limit.
          """
      ),
      Option(
        "request-deadline", .seconds(0.1...300), default: "10",
        help: "The longest time that the gateway repeats a request before it answers TRY_AGAIN_LATER."),
      Option(
        "rate-limit", .integer(0...1_000_000), default: "0",
        help:
          """
          The limit of requests a second for one credential (API and user token, server key; for one address, of tries \
          to sign in, and of downloads); the gateway answers more with THROTTLED. 0: no limit.
          """
      ),
      Option(
        "rate-burst", .integer(1...10_000_000),
        help: "The limit of such requests at once after a pause (default: the requests of ten seconds)."),
      Option(
        "console", .path,
        help:
          """
          The folder of the console's pages. With it the gateway serves the console at /console, for operators and \
          developers.
          """
      ),
      Option(
        "console-port", .integer(1...65_535),
        help: "A port of its own for the console, on the host of --http; then the clients' port does not serve it."),
    ]
    + AssetPlace.options(
      help: """
        The place of assets. A folder is the workers' <data>/assets, on their file system, and the gateway runs as \
        their user, to write it. A bucket is the workers', too. Without the option the gateway neither takes nor \
        serves assets.
        """
    ) + ClientListening.options

  public static let examples = [
    "aquifer-gateway --http 0.0.0.0:8080 --share ipc:///run/aquifer/share.sock --assets /data/assets"
  ]

  /// - Parameter memoryByteCount: of the process.
  static func uploadLimits(_ options: Options, memoryByteCount: Int) -> AssetUploads.Limits {
    var limits = AssetUploads.Limits()
    limits.memoryByteCount = Int64(memoryByteCount / 4)
    if let count = options.integer("user-uploads") { limits.book.countPerUser = count }
    if let count = options.integer("user-upload-limit") {
      limits.book.byteCountPerUser = count == 0 ? nil : Int64(count) * 1_000_000
    }
    if let count = options.integer("upload-reserve") { limits.reserveByteCount = Int64(count) * 1_000_000 }
    return limits
  }

  static func placeLimits(_ options: Options) -> PlaceBook.Limits {
    var limits = PlaceBook.Limits()
    if let count = options.integer("user-requests") { limits.perUser = count == 0 ? nil : count }
    if let count = options.integer("user-waits") { limits.heldPerUser = count == 0 ? nil : count }
    if let count = options.integer("container-requests") { limits.perContainer = count == 0 ? nil : count }
    return limits
  }

  /// nil without a limit.
  static func rate(_ options: Options) -> TokenBucket.Rate? {
    guard let limit = options.integer("rate-limit"), limit > 0 else { return nil }
    return TokenBucket.Rate(perSecond: limit, burst: options.integer("rate-burst") ?? limit * 10)
  }
}
