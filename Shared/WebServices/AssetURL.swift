// Signed, expiring paths of assets: whoever has one may fetch that content until it expires, and can't make another.

import Crypto

/// The path of an asset's content on a gateway: `/assets/1/{SHA-256 in hex}/{expiry}/{signature}`.
public struct AssetURL: Hashable, Sendable {
  /// SHA-256 of the content, 32 bytes.
  public let hash: [UInt8]
  /// Seconds since 1970; the path is refused from then on.
  public let expiry: Int64

  public init(hash: [UInt8], expiry: Int64) {
    self.hash = hash
    self.expiry = expiry
  }

  /// The path's first two segments.
  public static let prefix = ["assets", "1"]
  /// Keeps signatures made with the same key for other purposes from being valid here.
  private static let purpose = Array("aquifer asset url 1".utf8)

  /// - Parameter key: the installation's signing key.
  public func path(signedWith key: [UInt8]) -> String {
    "/\(Self.prefix.joined(separator: "/"))/\(Hex.encode(hash))/\(expiry)/\(Hex.encode(signature(with: key)))"
  }

  /// Checks the path of a request.
  /// - Parameters:
  ///   - segments: all of the path, percent-decoded: `["assets", "1", hex, expiry, signature]`.
  ///   - now: seconds since 1970.
  /// - Returns: nil for a path that was never signed with this key, was altered, or has expired.
  public init?(segments: [String], signedWith key: [UInt8], now: Int64) {
    guard segments.count == Self.prefix.count + 3, segments.starts(with: Self.prefix), let hash = Hex.decode(segments[2]), hash.count == SHA256.byteCount,
      let expiry = Int64(segments[3]), let signature = Hex.decode(segments[4])
    else { return nil }
    self.init(hash: hash, expiry: expiry)
    guard HMACSHA256.isValid(signature, for: signedBytes, key: key), now < expiry else { return nil }
  }

  private func signature(with key: [UInt8]) -> [UInt8] { HMACSHA256.code(for: signedBytes, key: key) }

  private var signedBytes: [UInt8] {
    var bytes = Self.purpose
    bytes.append(contentsOf: hash)
    withUnsafeBytes(of: expiry.bigEndian) { bytes.append(contentsOf: $0) }
    return bytes
  }
}
