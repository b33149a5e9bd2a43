// One sign-in under way: the secrets that tie a provider's answer to the browser that asked.

import Crypto

/// PKCE's verifier (RFC 7636) and the nonce stay with the browser; the provider gets the challenge and the nonce.
public struct SignInAttempt: Hashable, Sendable {
  /// Names the attempt in the provider's answer.
  public let state: String
  public let nonce: String
  public let verifier: String

  /// - Parameter random: 96 random bytes.
  public init(random: [UInt8]) {
    precondition(random.count == 96, "an attempt has three secrets of 32 bytes")
    state = Base64URL.encode(Array(random[..<32]))
    nonce = Base64URL.encode(Array(random[32..<64]))
    verifier = Base64URL.encode(Array(random[64...]))
  }

  /// An attempt that was kept as three texts.
  public init(state: String, nonce: String, verifier: String) {
    self.state = state
    self.nonce = nonce
    self.verifier = verifier
  }

  var challenge: String { Base64URL.encode(SHA256.hash(verifier)) }
}

/// Text for queries and forms.
enum FormText {
  /// `name=value&…`, with everything but unreserved characters percent-encoded.
  static func joined(_ fields: [(name: String, value: String)]) -> String {
    fields.map { "\($0.name)=\(encoded($0.value))" }.joined(separator: "&")
  }

  static func encoded(_ text: String) -> String {
    var encoded = ""
    for byte in text.utf8 {
      let isPlain =
        (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) || (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte)
        || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) || "-._~".utf8.contains(byte)
      if isPlain {
        encoded.unicodeScalars.append(UnicodeScalar(byte))
      } else {
        encoded += "%" + Hex.encode([byte]).uppercased()
      }
    }
    return encoded
  }
}
