// Signed requests of servers (docs/protocol/record-plane.md#server-keys): reads the headers, and verifies them.

public import Crypto
public import HTTPServer
import WebServices

/// The three headers of a signed request, as they came.
public struct RequestSignature: Hashable, Sendable {
  public let keyID: String
  /// Part of what is signed, to the letter.
  let date: String
  /// Base64 of the signature in DER.
  let signature: String

  private static let keyIDCharacterCount = 64
  /// How far the date may be from the present, either way. Unit: milliseconds.
  public static let window: Int64 = 600_000

  /// nil without a key ID. What is missing besides is empty, and so never valid.
  public init?(of request: HTTPRequest) {
    guard let keyID = request.header("x-apple-cloudkit-request-keyid") else { return nil }
    self.keyID = keyID.lowercased()
    date = request.header("x-apple-cloudkit-request-iso8601date") ?? ""
    signature = request.header("x-apple-cloudkit-request-signaturev1") ?? ""
  }

  /// Whether there can be a key of this ID.
  public var isPlausible: Bool {
    keyID.utf8.count == Self.keyIDCharacterCount
      && keyID.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains($0) }
  }

  /// What a valid signature leaves to be checked: that nobody used it before.
  public struct Proof: Hashable, Sendable {
    /// 32 bytes, the same for all spellings of one signature.
    public let digest: [UInt8]
    /// Milliseconds since 1970: when the date is refused for its age, by clocks a window apart, too.
    public let expiry: Int64
  }

  /// nil unless the date is of now and the signature is the key's over date, body and request target.
  /// - Parameter now: milliseconds since 1970.
  public func proof(for request: HTTPRequest, by key: P256PublicKey, now: Int64) -> Proof? {
    guard let signed = MirrorDate.milliseconds(date), (now - Self.window...now + Self.window).contains(signed), let der = Base64.decode(signature),
      let signature = P256Signature(der: der)
    else { return nil }
    let hashes = [Base64.encode(SHA256.hash(request.body))] + (request.body.isEmpty ? [""] : [])
    // A body's hash is always there; for none, one client hashes the empty body and another leaves the hash out.
    guard hashes.contains(where: { key.isValid(signature, for: message(hash: $0, request)) }) else { return nil }
    return Proof(digest: SHA256.hash(Array(keyID.utf8) + signature.r), expiry: signed + 2 * Self.window)
  }

  private func message(hash: String, _ request: HTTPRequest) -> [UInt8] { Array("\(date):\(hash):\(Self.pathAndQuery(of: request.target))".utf8) }

  /// The bytes of the request line, undecoded, without scheme and host where a client sends them.
  private static func pathAndQuery(of target: String) -> Substring {
    guard !target.hasPrefix("/"), let scheme = target.firstRange(of: "://") else { return target[...] }
    let rest = target[scheme.upperBound...]
    return rest.firstIndex(of: "/").map { rest[$0...] } ?? rest
  }
}
