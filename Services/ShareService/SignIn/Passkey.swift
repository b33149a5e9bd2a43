// The checks of passkeys (WebAuthn, 7.1 and 7.2), as pure functions of an authenticator's answer.

import Crypto
import JSON
import ServiceBus
import WebServices

/// Attestation is not asked for: a key proves that it is the same as before, and not who made its device. The browser
/// gives out the key itself beside the authenticator's data, so nothing here is CBOR.
enum Passkey {
  /// A reason why an answer counts for nothing.
  enum Refusal: String, Error, Hashable {
    case malformed, type, challenge, origin, relyingParty, presence, verification, credential, key, signature, counter,
      user
  }

  private static let clientDataByteLimit = 8192

  /// The signed challenge of a ceremony whose page and kind are right.
  /// - Parameter type: `webauthn.create` or `webauthn.get`.
  static func challenge(
    of clientData: [UInt8], type: String, at party: RelyingParty, key: [UInt8], now: Int64
  ) throws(Refusal) -> PasskeyChallenge {
    guard clientData.count <= clientDataByteLimit, let data = try? JSONValue(parsing: clientData) else {
      throw .malformed
    }
    guard data["type"]?.string == type else { throw .type }
    guard data["origin"]?.string == party.origin, data["crossOrigin"]?.bool != true else { throw .origin }
    guard let bytes = data["challenge"]?.string.flatMap({ Base64URL.decode($0) }),
      let text = String(validating: bytes, as: UTF8.self),
      let challenge = PasskeyChallenge(text: text, verifiedWith: key, now: now)
    else { throw .challenge }
    return challenge
  }

  /// The new key of a registration.
  /// - Returns: the credential's identifier, the key, and the authenticator's counter.
  static func registered(_ registration: PasskeyRegistration) throws(Refusal) -> (
    credentialID: [UInt8], key: P256PublicKey, counter: UInt32
  ) {
    let data = try AuthenticatorData(registration.authenticatorData, of: registration.relyingParty)
    guard let credentialID = data.credentialID else { throw .credential }
    guard let key = P256PublicKey(spki: registration.publicKey) else { throw .key }
    return (credentialID, key, data.counter)
  }

  /// Judges an assertion by the key and the counter that are known.
  /// - Returns: the new counter.
  static func verify(_ assertion: PasskeyAssertion, key: P256PublicKey, counter: UInt32) throws(Refusal) -> UInt32 {
    let data = try AuthenticatorData(assertion.authenticatorData, of: assertion.relyingParty)
    let message = assertion.authenticatorData + Array(SHA256.hash(assertion.clientData))
    guard let signature = P256Signature(der: assertion.signature), key.isValid(signature, for: message) else {
      throw .signature
    }
    // An authenticator that counts and does not go forward has a twin.
    guard data.counter == 0 && counter == 0 || data.counter > counter else { throw .counter }
    return data.counter
  }
}

/// The part of an authenticator's answer that it signs (WebAuthn, 6.1).
struct AuthenticatorData: Hashable, Sendable {
  let counter: UInt32
  /// Of a new key; nil for an answer without one.
  let credentialID: [UInt8]?

  private static let headByteCount = 37
  private static let deviceByteCount = 16
  private static let credentialByteLimit = 1023
  private static let byteLimit = 4096

  /// - Throws: `malformed`, or the check that fails: the host, the person's presence, and their verification.
  init(_ bytes: [UInt8], of party: RelyingParty) throws(Passkey.Refusal) {
    guard (Self.headByteCount...Self.byteLimit).contains(bytes.count) else { throw .malformed }
    guard ConstantTime.areEqual(Array(bytes[..<32]), Array(SHA256.hash(party.id))) else { throw .relyingParty }
    let flags = bytes[32]
    guard flags & 0x01 != 0 else { throw .presence }
    guard flags & 0x04 != 0 else { throw .verification }
    counter = bytes[33..<37].reduce(0) { $0 << 8 | UInt32($1) }
    guard flags & 0x40 != 0 else {
      credentialID = nil
      return
    }
    let rest = bytes[Self.headByteCount...].dropFirst(Self.deviceByteCount)
    guard rest.count >= 2 else { throw .malformed }
    let count = rest.prefix(2).reduce(0) { $0 << 8 | Int($1) }
    guard (1...Self.credentialByteLimit).contains(count), rest.count >= 2 + count else { throw .malformed }
    credentialID = Array(rest.dropFirst(2).prefix(count))
  }
}
