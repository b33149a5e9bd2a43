// Digests against published vectors: FIPS 180-4 and RFC 4231.

import Testing

import Crypto

struct DigestTests {
  @Test(arguments: [
    ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
    ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
    (
      "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
      "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
    ),
  ])
  func `SHA-256 of the standard's messages`(message: String, digest: String) {
    #expect(Hex.encode(SHA256.hash(Array(message.utf8))) == digest)
    #expect(Hex.encode(SHA256.hash(message)) == digest)
  }

  @Test func `a stream cut anywhere has the digest of the whole`() {
    let bytes = (0..<300).map { UInt8($0 & 0xff) }
    for cut in 0...bytes.count {
      let stream = SHA256.Stream()
      stream.update(Array(bytes[..<cut]))
      stream.update(Array(bytes[cut...]))
      #expect(stream.finish() == SHA256.hash(bytes))
    }
  }

  @Test(arguments: [
    (
      String(repeating: "0b", count: 20), "4869205468657265",
      "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
    ),
    (
      "4a656665", "7768617420646f2079612077616e7420666f72206e6f7468696e673f",
      "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    ),
    (
      String(repeating: "aa", count: 131), Hex.encode("Test Using Larger Than Block-Size Key - Hash Key First".utf8),
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
    ),
    ("", "", "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad"),
  ])
  func `HMAC-SHA-256 of the standard's messages`(key: String, message: String, code: String) throws {
    let key = try #require(Hex.decode(key))
    let message = try #require(Hex.decode(message))
    let expected = try #require(Hex.decode(code))
    #expect(HMACSHA256.code(for: message, key: key) == expected)
    #expect(HMACSHA256.isValid(expected, for: message, key: key))
    #expect(!HMACSHA256.isValid(Array(expected.dropLast()), for: message, key: key))
    #expect(!HMACSHA256.isValid(expected, for: message + [0], key: key))
  }

  @Test func `secrets are equal only byte for byte`() {
    #expect(ConstantTime.areEqual([], []))
    #expect(ConstantTime.areEqual([1, 2], [1, 2]))
    #expect(!ConstantTime.areEqual([1, 2], [1, 3]))
    #expect(!ConstantTime.areEqual([1, 2], [1, 2, 0]))
  }

  @Test func `random bytes have the length asked for and do not repeat`() {
    #expect(SecureRandom.bytes(0).isEmpty)
    #expect(SecureRandom.bytes(33).count == 33)
    #expect(Set((0..<1000).map { _ in SecureRandom.bytes(16) }).count == 1000)
    #expect(SecureRandom.uint64() != SecureRandom.uint64())
    // Odd lengths, so that draws end anywhere in the buffer; no two draws may overlap.
    let shares = (0..<2000).map { SecureRandom.bytes(9 + $0 % 8) }
    #expect(shares.enumerated().allSatisfy { $0.element.count == 9 + $0.offset % 8 })
    let windows = shares.flatMap { share in (0...share.count - 8).map { Array(share[$0..<$0 + 8]) } }
    #expect(Set(windows).count == windows.count)
  }

  @Test func `threads that draw at once get different bytes`() async {
    let drawn = await withTaskGroup(of: [[UInt8]].self) { group in
      for _ in 0..<8 { group.addTask { (0..<2000).map { _ in SecureRandom.bytes(16) } } }
      return await group.reduce(into: []) { $0 += $1 }
    }
    #expect(drawn.count == 16_000)
    #expect(Set(drawn).count == 16_000)
  }
}
