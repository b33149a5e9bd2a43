// Reads the place of asset contents: a folder of this machine, or an S3 bucket and its credentials.

public import Assets
public import Crypto
internal import Glibc
internal import S3

/// `--assets PATH` or `--assets s3://bucket/prefix?…`, read once when the process starts.
public enum AssetPlace: Sendable {
  case folder(String, keys: KeyRing)
  case bucket(AssetBucket)

  private static let name = "assets"
  private static let credentials = "assets-credentials"

  /// - Parameter help: says what the process does with the place.
  public static func options(help: String) -> [Option] {
    [
      Option(
        name, .assets,
        help:
          """
          \(help) A bucket is s3://bucket/prefix?endpoint=URL&region=NAME&public=URL: without endpoint it is Amazon's, \
          and public is the address at which clients fetch plain contents themselves.
          """
      ),
      Option(
        credentials, .path, variable: "AQUIFER_ASSETS_CREDENTIALS_FILE",
        help:
          """
          The file with the bucket's access key, as Amazon's tools write it: aws_access_key_id, aws_secret_access_key \
          and perhaps aws_session_token. Without it the key comes from the variables AWS_ACCESS_KEY_ID, \
          AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN.
          """
      ),
    ]
  }

  /// - Parameter contentByteLimit: the longest content that this process takes from clients.
  /// - Returns: nil when the option is not given.
  /// - Throws: `ExitError` when the bucket has no usable credentials.
  public init?(_ context: ServiceContext, keys: KeyRing, contentByteLimit: Int64 = 0) throws {
    guard let text = context.options.text(Self.name) else { return nil }
    // Registered without a bucket, too, so that one dashboard serves every installation.
    let observe = Self.observer(context.metrics)
    guard text.hasPrefix(S3Location.scheme) else {
      self = .folder(text, keys: keys)
      return
    }
    let location: S3Location
    do throws(S3Location.Fault) {
      location = try S3Location(text)
    } catch {
      throw ExitError(.configuration, "--\(Self.name) \(error.reason).")
    }
    let signer = S3Signer(location: location, credentials: try Self.credentials(context.options))
    let clock = context.clock
    self = .bucket(
      AssetBucket(
        signer, keys: keys, contentByteLimit: contentByteLimit, clock: { clock.now / 1000 }, observe: observe))
  }

  public var store: any AssetStore {
    switch self {
    case .folder(let path, let keys): AssetFolder(directory: path, keys: keys)
    case .bucket(let bucket): bucket
    }
  }

  /// The folder; nil for a bucket.
  public var path: String? { if case .folder(let path, _) = self { path } else { nil } }

  private static func credentials(_ options: Options) throws -> S3Credentials {
    guard let path = options.text(credentials) else {
      guard let found = S3Credentials(environment: { getenv($0).map { String(cString: $0) } }) else {
        throw ExitError(
          .configuration,
          """
          --\(name) names a bucket, and its access key is missing: give --\(credentials), or AWS_ACCESS_KEY_ID and \
          AWS_SECRET_ACCESS_KEY in the environment.
          """
        )
      }
      return found
    }
    guard let text = readSmallFile(path) else {
      throw ExitError(
        .configuration, "--\(credentials) names '\(path)', which can't be read: \(String(cString: strerror(errno))).")
    }
    guard let found = S3Credentials(parsing: text) else {
      throw ExitError(
        .configuration, "--\(credentials) names '\(path)', which lacks aws_access_key_id or aws_secret_access_key.")
    }
    return found
  }

  private static func observer(_ metrics: Metrics) -> @Sendable (BucketEvent) -> Void {
    let requests = metrics.counters(
      "asset_store_requests_total", "Requests to the bucket of assets, by method and outcome.",
      labels: ["method", "outcome"])
    let seconds = metrics.histograms(
      "asset_store_request_seconds", "Time of requests to the bucket of assets, in seconds.", labels: ["method"])
    let bytes = metrics.counters(
      "asset_store_bytes_total", "Bytes of bodies to and from the bucket of assets.", labels: ["direction"])
    let retries = metrics.counter("asset_store_retries_total", "Requests to the bucket of assets that were repeated.")
    return { event in
      switch event {
      case .repetition: retries.increment()
      case .attempt(let method, let status, let time, let sent, let received):
        let outcome =
          switch status {
          case nil: "unanswered"
          case .some(200...299): "done"
          case .some(404): "missing"
          case .some(500...599), .some(429): "failed"
          case .some: "refused"
          }
        requests[method, outcome].increment()
        seconds[method].observe(time / .seconds(1))
        bytes["sent"].increment(by: sent)
        bytes["received"].increment(by: received)
      }
    }
  }
}
