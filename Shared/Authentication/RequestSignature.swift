// Signed requests of servers (docs/protocol/record-plane.md#server-keys): reads the headers, and verifies them.

public import Crypto
public import HTTPServer
import WebServices

/// The three headers of a signed request, as received.
public struct RequestSignature: Hashable, Sendable {
  public let keyID: String
  /// A part of the signed message, byte for byte.
  let date: String
  /// The signature: DER in base64.
  let signature: String

  private static let keyIDCharacterCount = 64
  /// The greatest distance of the date from the present, in milliseconds.
  public static let window: Int64 = 600_000

  /// Fails without a key ID. A missing date or signature becomes empty, and so is never valid.
  public init?(of request: HTTPRequest) {
    guard let keyID = request.header("x-apple-cloudkit-request-keyid") else { return nil }
    self.keyID = keyID.lowercased()
    date = request.header("x-apple-cloudkit-request-iso8601date") ?? ""
    signature = request.header("x-apple-cloudkit-request-signaturev1") ?? ""
  }

  /// True when the key ID has the form of one.
  public var isPlausible: Bool {
    keyID.utf8.count == Self.keyIDCharacterCount
      && keyID.utf8.allSatisfy {
        (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains($0)
      }
  }

  /// Identifies a valid signature, so that the caller can check that it is not used twice.
  public struct Proof: Hashable, Sendable {
    /// 32 bytes that are the same for all spellings of one signature.
    public let digest: [UInt8]
    /// Milliseconds since 1970. From here on the date is refused for its age, even by a clock that is one window
    /// behind.
    public let expiry: Int64
  }

  /// Verifies the date, and the key's signature over date, body and request target.
  /// - Parameter now: milliseconds since 1970.
  /// - Returns: nil when either is invalid.
  public func proof(for request: HTTPRequest, by key: P256PublicKey, now: Int64) -> Proof? {
    guard let signed = MirrorDate.milliseconds(date), (now - Self.window...now + Self.window).contains(signed),
      let der = Base64.decode(signature),
      let signature = P256Signature(der: der)
    else { return nil }
    let hashes = [Base64.encode(SHA256.hash(request.body))] + (request.body.isEmpty ? [""] : [])
    // The hash of a body is required. For an empty body, some clients hash it and others leave the hash out.
    guard hashes.contains(where: { key.isValid(signature, for: message(hash: $0, request)) }) else { return nil }
    return Proof(digest: SHA256.hash(Array(keyID.utf8) + signature.r), expiry: signed + 2 * Self.window)
  }

  private func message(hash: String, _ request: HTTPRequest) -> [UInt8] {
    Array("\(date):\(hash):\(Self.pathAndQuery(of: request.target))".utf8)
  }

  /// The path and query from the request line, undecoded, without the scheme and host that some clients send.
  private static func pathAndQuery(of target: String) -> Substring {
    guard !target.hasPrefix("/"), let scheme = target.firstRange(of: "://") else { return target[...] }
    let rest = target[scheme.upperBound...]
    return rest.firstIndex(of: "/").map { rest[$0...] } ?? rest
  }
}
