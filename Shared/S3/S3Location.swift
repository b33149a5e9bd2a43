// The place of a bucket, as operators write it: s3://bucket/prefix?endpoint=URL&region=NAME&public=URL.

import Crypto

/// A bucket, the beginning of all keys in it, and the servers that have it.
public struct S3Location: Hashable, Sendable, CustomStringConvertible {
  public let bucket: String
  /// Empty, or ends with a slash.
  public let prefix: String
  public let region: String
  /// The URL of the server that processes ask, without a final slash; nil for Amazon's.
  public let endpoint: String?
  /// The URL of the server that clients ask, without a final slash; nil when clients do not reach the bucket.
  public let publicEndpoint: String?

  /// The server and the encoded path of a key.
  struct Place: Hashable {
    let origin: String
    let host: String
    let path: String
  }

  /// A location that can't be read.
  public struct Fault: Error, Hashable, Sendable {
    /// A part of a sentence: "has no bucket".
    public let reason: String
  }

  public static let scheme = "s3://"

  /// - Parameter text: begins with `scheme`.
  public init(_ text: String) throws(Fault) {
    guard text.hasPrefix(Self.scheme) else { throw Fault(reason: "does not begin with \(Self.scheme)") }
    let parts = text.dropFirst(Self.scheme.count).split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
    let path = parts[0].split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
    bucket = String(path[0])
    guard Self.isBucket(bucket) else {
      throw Fault(reason: "names no bucket of 3 to 63 small letters, digits, dots and hyphens")
    }
    var prefix = path.count == 2 ? String(path[1]) : ""
    guard prefix.utf8.count <= 512, prefix.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f }) else {
      throw Fault(reason: "has a prefix that is not plain text of at most 512 characters")
    }
    while prefix.hasSuffix("/") { prefix.removeLast() }
    self.prefix = prefix.isEmpty ? "" : prefix + "/"
    var values: [String: String] = [:]
    for item in parts.count == 2 ? parts[1].split(separator: "&") : [] {
      let pair = item.split(separator: "=", maxSplits: 1).map(String.init)
      guard pair.count == 2, ["endpoint", "region", "public"].contains(pair[0]) else {
        throw Fault(reason: "has '\(item)' where endpoint=URL, region=NAME or public=URL belongs")
      }
      guard values.updateValue(pair[1], forKey: pair[0]) == nil else { throw Fault(reason: "has two \(pair[0])s") }
    }
    region = values["region"] ?? "us-east-1"
    guard region.utf8.allSatisfy({ $0 == 0x2d || (0x30...0x39).contains($0) || (0x61...0x7a).contains($0) }) else {
      throw Fault(reason: "has a region that is not of small letters, digits and hyphens")
    }
    endpoint = try Self.server(values["endpoint"], "endpoint")
    publicEndpoint = try Self.server(values["public"], "public address")
  }

  public var description: String { Self.scheme + bucket + "/" + prefix }

  private static func isBucket(_ name: String) -> Bool {
    (3...63).contains(name.utf8.count)
      && name.utf8.allSatisfy {
        (0x61...0x7a).contains($0) || (0x30...0x39).contains($0) || $0 == 0x2d || $0 == 0x2e
      }
  }

  /// `http://host:port` without a path, because signatures cover paths.
  private static func server(_ text: String?, _ noun: String) throws(Fault) -> String? {
    guard var text else { return nil }
    while text.hasSuffix("/") { text.removeLast() }
    for scheme in ["http://", "https://"] where text.hasPrefix(scheme) {
      let host = text.dropFirst(scheme.count)
      if !host.isEmpty, host.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f && $0 != 0x2f && $0 != 0x40 }) { return text }
    }
    throw Fault(reason: "has the \(noun) '\(text)', which is not http://host:port or https://host")
  }

  /// A server that the operator names has buckets as its first folder, as all
  /// of them understand; Amazon wants the bucket in the host's name.
  func place(of key: String, endpoint: String?) -> Place {
    let key = S3Text.encoded(key, keepsSlashes: true)
    if let endpoint {
      let start = endpoint.firstRange(of: "//")?.upperBound ?? endpoint.startIndex
      return Place(origin: endpoint, host: String(endpoint[start...]), path: "/\(bucket)/\(key)")
    }
    let host = "\(bucket).s3.\(region).amazonaws.com"
    return Place(origin: "https://\(host)", host: host, path: "/\(key)")
  }
}

/// The spellings that signatures need.
public enum S3Text {
  /// Percent-encodes all but unreserved characters.
  public static func encoded(_ text: String, keepsSlashes: Bool = false) -> String {
    var result = ""
    for byte in text.utf8 {
      switch byte {
      case 0x41...0x5a, 0x61...0x7a, 0x30...0x39, 0x2d, 0x2e, 0x5f, 0x7e: result.unicodeScalars.append(.init(byte))
      case 0x2f where keepsSlashes: result += "/"
      default: result += "%" + Hex.encode([byte]).uppercased()
      }
    }
    return result
  }
}
