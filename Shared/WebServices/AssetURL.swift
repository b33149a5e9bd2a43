// Signed, expiring paths of assets: their holder may fetch that content until they expire, and cannot make others.

import Crypto
public import Records

/// The path of an asset's content on a gateway: `/assets/1/{shard}/{SHA-256 in hex}/{expiry}/{signature}`. For a
/// participant it is `/assets/1/{shard}/{SHA-256 in hex}/{expiry}/{reader in hex}/{signature}`.
public struct AssetURL: Hashable, Sendable {
  /// The shard whose records use the asset.
  public let shard: Int
  /// SHA-256 of the content, 32 bytes.
  public let hash: [UInt8]
  /// Seconds since 1970; the path is refused from then on.
  public let expiry: Int64
  /// The participant for whom the path was made, who may use it only while the owner shares with them; nil: anybody may
  /// use it.
  public let reader: Reader?

  /// A participant in another user's zone.
  public struct Reader: Hashable, Sendable {
    public let container: ContainerID
    public let environment: Environment
    /// The record name of the zones' owner.
    public let owner: String
    public let userRecordName: String
    /// The zone; nil for any of the owner's zones that the user takes part in.
    public let zoneName: String?

    public init(
      container: ContainerID, environment: Environment, owner: String, userRecordName: String, zoneName: String?
    ) {
      self.container = container
      self.environment = environment
      self.owner = owner
      self.userRecordName = userRecordName
      self.zoneName = zoneName
    }

    fileprivate var bytes: [UInt8] {
      SignedText.bytes(
        of: [container.rawValue, environment.rawValue, owner, userRecordName] + (zoneName.map { [$0] } ?? []))
    }

    fileprivate init?(_ bytes: [UInt8]) {
      guard let parts = SignedText.parts(bytes), (4...5).contains(parts.count),
        let container = ContainerID(rawValue: parts[0]),
        let environment = Environment(rawValue: parts[1])
      else { return nil }
      self.init(
        container: container, environment: environment, owner: parts[2], userRecordName: parts[3],
        zoneName: parts.count == 5 ? parts[4] : nil)
    }
  }

  public init(shard: Int, hash: [UInt8], expiry: Int64, reader: Reader? = nil) {
    self.reader = reader
    self.shard = shard
    self.hash = hash
    self.expiry = expiry
  }

  /// The path's first two segments.
  public static let prefix = ["assets", "1"]
  /// Keeps signatures that the same key made for other purposes from being valid here.
  private static let purpose = Array("aquifer asset url 2".utf8)

  /// - Parameter key: the installation's signing key.
  public func path(signedWith key: [UInt8]) -> String {
    let reader = reader.map { Hex.encode($0.bytes) + "/" } ?? ""
    return
      """
      /\(Self.prefix.joined(separator: "/"))/\(shard)/\(Hex.encode(hash))/\(expiry)/\
      \(reader)\(Hex.encode(signature(with: key)))
      """
  }

  /// Checks the path of a request.
  /// - Parameters:
  ///   - segments: the whole path, percent-decoded: `["assets", "1", shard, hex, expiry, signature]`, or with a reader
  ///     before the signature.
  ///   - now: seconds since 1970.
  /// - Returns: nil if the path was not signed with this key, was altered, or has expired.
  public init?(segments: [String], signedWith key: [UInt8], now: Int64) {
    let hasReader = segments.count == Self.prefix.count + 5
    guard hasReader || segments.count == Self.prefix.count + 4, segments.starts(with: Self.prefix),
      let shard = Int(segments[2]), let hash = Hex.decode(segments[3]),
      hash.count == SHA256.byteCount, let expiry = Int64(segments[4]),
      let signature = segments.last.flatMap({ Hex.decode($0) })
    else { return nil }
    let reader = hasReader ? Hex.decode(segments[5]).flatMap(Reader.init) : nil
    guard (reader != nil) == hasReader else { return nil }
    self.init(shard: shard, hash: hash, expiry: expiry, reader: reader)
    guard HMACSHA256.isValid(signature, for: signedBytes, key: key), now < expiry else { return nil }
  }

  private func signature(with key: [UInt8]) -> [UInt8] { HMACSHA256.code(for: signedBytes, key: key) }

  private var signedBytes: [UInt8] {
    var bytes = Self.purpose
    bytes.append(contentsOf: hash)
    withUnsafeBytes(of: Int64(shard).bigEndian) { bytes.append(contentsOf: $0) }
    withUnsafeBytes(of: expiry.bigEndian) { bytes.append(contentsOf: $0) }
    if let reader { bytes += reader.bytes }
    return bytes
  }
}
