// Signed, expiring paths of assets: whoever has one may fetch that content until it expires, and can't make another.

import Crypto

/// The path of an asset's content on a gateway: `/assets/1/{shard}/{SHA-256 in hex}/{expiry}/{signature}`.
public struct AssetURL: Hashable, Sendable {
  /// The shard whose records use it.
  public let shard: Int
  /// SHA-256 of the content, 32 bytes.
  public let hash: [UInt8]
  /// Seconds since 1970; the path is refused from then on.
  public let expiry: Int64

  public init(shard: Int, hash: [UInt8], expiry: Int64) {
    self.shard = shard
    self.hash = hash
    self.expiry = expiry
  }

  /// The path's first two segments.
  public static let prefix = ["assets", "1"]
  /// Keeps signatures made with the same key for other purposes from being valid here.
  private static let purpose = Array("aquifer asset url 2".utf8)

  /// - Parameter key: the installation's signing key.
  public func path(signedWith key: [UInt8]) -> String {
    "/\(Self.prefix.joined(separator: "/"))/\(shard)/\(Hex.encode(hash))/\(expiry)/\(Hex.encode(signature(with: key)))"
  }

  /// Checks the path of a request.
  /// - Parameters:
  ///   - segments: all of the path, percent-decoded: `["assets", "1", shard, hex, expiry, signature]`.
  ///   - now: seconds since 1970.
  /// - Returns: nil for a path that was never signed with this key, was altered, or has expired.
  public init?(segments: [String], signedWith key: [UInt8], now: Int64) {
    guard segments.count == Self.prefix.count + 4, segments.starts(with: Self.prefix), let shard = Int(segments[2]), let hash = Hex.decode(segments[3]),
      hash.count == SHA256.byteCount, let expiry = Int64(segments[4]), let signature = Hex.decode(segments[5])
    else { return nil }
    self.init(shard: shard, hash: hash, expiry: expiry)
    guard HMACSHA256.isValid(signature, for: signedBytes, key: key), now < expiry else { return nil }
  }

  private func signature(with key: [UInt8]) -> [UInt8] { HMACSHA256.code(for: signedBytes, key: key) }

  private var signedBytes: [UInt8] {
    var bytes = Self.purpose
    bytes.append(contentsOf: hash)
    withUnsafeBytes(of: Int64(shard).bigEndian) { bytes.append(contentsOf: $0) }
    withUnsafeBytes(of: expiry.bigEndian) { bytes.append(contentsOf: $0) }
    return bytes
  }
}
