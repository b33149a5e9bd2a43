import Crypto
import Testing

@Suite struct ContentEncryptionTests {
  /// RFC 5869, the first test case.
  @Test func `HKDF gives the standard's key`() throws {
    let info = (0xf0...0xf9).map { UInt8($0) }
    let key = HKDFSHA256.key(
      from: [UInt8](repeating: 0x0b, count: 22), salt: Array(0...0x0c), info: info, byteCount: 32)
    #expect(Hex.encode(key) == "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf")
  }

  /// The fourth test case of the GCM specification, without its additional data, and the second.
  @Test func `a single-use key encrypts as the specification does`() throws {
    let zero = [UInt8](repeating: 0, count: 16)
    let sealed = SingleUseAESGCM.seal(zero, key: zero, nonce: [UInt8](repeating: 0, count: 12))
    #expect(Hex.encode(sealed) == "0388dace60b6a392f328c2b971b2fe78ab6e47d42cec13bdf53a67b21257bddf")
    let empty = SingleUseAESGCM.seal([], key: zero, nonce: [UInt8](repeating: 0, count: 12))
    #expect(Hex.encode(empty) == "58e2fccefa7e3061367f1d57a4e7455a")
  }

  @Test func `two keys share a secret, and a point off the curve none`() throws {
    let (one, two) = (P256PrivateKey.make(), P256PrivateKey.make())
    let secret = try #require(one.sharedSecret(with: two.publicPoint))
    #expect(secret == two.sharedSecret(with: one.publicPoint) && secret.count == 32)
    #expect(P256PrivateKey(scalar: one.scalar)?.publicPoint == one.publicPoint)
    var off = two.publicPoint
    off[64] ^= 1
    #expect(one.sharedSecret(with: off) == nil)
    for bad in [
      [], [UInt8](repeating: 0, count: 65), Array(two.publicPoint.dropLast()), [2] + two.publicPoint.dropFirst(),
    ] {
      #expect(one.sharedSecret(with: bad) == nil)
    }
  }

  @Test func `a scalar outside of the curve's order is no key`() throws {
    let order = try #require(Hex.decode("ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551"))
    for scalar in [[], [UInt8](repeating: 0, count: 32), order, [UInt8](repeating: 255, count: 32)] {
      #expect(P256PrivateKey(scalar: scalar) == nil, "\(scalar)")
    }
    var last = order
    last[31] -= 1
    #expect(P256PrivateKey(scalar: last)?.scalar == last)
  }
}
