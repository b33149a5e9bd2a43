import SigningKeys
import Testing

@testable import Crypto

@Suite struct PasswordHashTests {
  @Test func `a password matches its own hash and no other, and no two hashes are alike`() throws {
    let password = Array("correct horse".utf8)
    let (first, second) = (
      try #require(PasswordHash.cheapest.make(password)), try #require(PasswordHash.cheapest.make(password))
    )
    #expect(first.hasPrefix("$argon2id$v=19$"))
    #expect(first != second)
    #expect(PasswordHash.isMatch(password, first) && PasswordHash.isMatch(password, second))
    for wrong in ["correct hors", "correct horse ", "Correct horse", ""] {
      #expect(!PasswordHash.isMatch(Array(wrong.utf8), first))
    }
  }

  @Test func `an empty password and one with zero bytes are passwords`() throws {
    for password in [[], [0], [0, 0], [1, 0, 2]] as [[UInt8]] {
      let hash = try #require(PasswordHash.cheapest.make(password))
      #expect(PasswordHash.isMatch(password, hash))
      #expect(!PasswordHash.isMatch(password + [0], hash))
    }
  }

  @Test(arguments: ["", "nonsense", "$argon2id$v=19$m=8,t=1,p=1$", String(repeating: "$", count: 200)])
  func `a text that is no hash matches nothing`(text: String) {
    #expect(!PasswordHash.isMatch([1], text))
  }

  @Test func `a decoy has the form and the costs of a hash, and matches nothing`() {
    for cost in [PasswordHash.cheapest, .interactive] {
      let decoy = cost.decoy(SecureRandom.bytes(48))
      // A decoy that does not parse would count as outdated, and take no time to verify.
      #expect(!cost.isOutdated(decoy))
      #expect(!PasswordHash.isMatch([], decoy) && !PasswordHash.isMatch(Array("password".utf8), decoy))
    }
  }

  @Test func `other costs make a hash outdated, and it still matches`() throws {
    let hash = try #require(PasswordHash.cheapest.make([1]))
    #expect(!PasswordHash.cheapest.isOutdated(hash))
    #expect(PasswordHash.interactive.isOutdated(hash))
    #expect(PasswordHash.interactive.byteCount == 64 << 20)
  }
}

@Suite struct SignatureTests {
  private let key = SigningKey()

  private func publicKey(_ key: SigningKey) throws -> P256PublicKey { try #require(P256PublicKey(pem: key.publicPEM)) }

  @Test func `a signature is valid for its message and key only`() throws {
    let message = Array("date:hash:/path".utf8)
    let signature = try #require(P256Signature(der: key.signature(of: message)))
    #expect(try publicKey(key).isValid(signature, for: message))
    #expect(try !publicKey(key).isValid(signature, for: message + [0]))
    #expect(try !publicKey(SigningKey()).isValid(signature, for: message))
    #expect(!P256PublicKey(der: []).isValid(signature, for: message))
    #expect(!P256PublicKey(der: [1, 2, 3]).isValid(signature, for: message))
  }

  @Test func `bytes that are no signature are told at once`() throws {
    let der = key.signature(of: [1])
    for wrong in [
      [], [0], Array(der.dropLast()), der + [0], Array(der.dropFirst()), [UInt8](repeating: 0x30, count: 200),
      [0x30, 0],
    ] {
      #expect(P256Signature(der: wrong) == nil, "\(wrong)")
    }
  }

  @Test func `the other spelling of a signature is valid too, and recognised by its r`() throws {
    for _ in 0..<20 {
      let der = key.signature(of: [1])
      let (one, other) = (
        try #require(P256Signature(der: der)), try #require(P256Signature(der: SigningKey.negated(der)))
      )
      #expect(one != other)
      #expect(try publicKey(key).isValid(other, for: [1]))
      #expect(one.r == other.r && one.r.count == 32)
    }
    #expect(P256Signature(der: key.signature(of: [1]))?.r != P256Signature(der: key.signature(of: [1]))?.r)
  }

  @Test func `a key of another curve signs nothing here`() throws {
    let other = SigningKey(curve: "secp384r1")
    #expect(P256PublicKey(pem: other.publicPEM) == nil)
  }
}
