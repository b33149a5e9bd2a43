// Base64 and hexadecimal text: RFC 4648's vectors, every refusal, and a naive encoder as the oracle.

import Testing

import Crypto

struct TextTests {
  @Test(arguments: [
    ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="),
    ("foobar", "Zm9vYmFy"),
  ])
  func `base64 of the standard's words`(plain: String, text: String) {
    #expect(Base64.encode(Array(plain.utf8)) == text)
    #expect(Base64.decode(text) == Array(plain.utf8))
  }

  @Test(arguments: [
    "Zg", "Zg=", "Zg===", "=Zg=", "Z===", "====", "Zm9v=", "Zm=v", "Zm9vZg==Zm9v", "Zg==Zg==", "Zh==", "Zm9=", " Zg==",
    "Zg==\n", "Zm9v\n", "\nZm9",
    "    Zm9v", "Zm9v    ", "Zm9v\r\n\r\n", "Zm9v----", "Zm-_", "Zm9é", "Zm\u{0}v", "Zm 9v123", "ZgA=====",
  ])
  func `text that is not canonical base64 is refused`(text: String) {
    #expect(Base64.decode(text) == nil)
  }

  @Test func `base64 of every length agrees with a naive encoder`() {
    var generator = SplitMix(state: 7)
    for count in 0..<200 {
      let bytes = (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
      let text = Base64.encode(bytes)
      #expect(text == Self.naiveBase64(bytes))
      #expect(text.utf8.count == Base64.encodedByteCount(count))
      #expect(Base64.decode(text) == bytes)
      var buffer: [UInt8] = [1]
      bytes.withUnsafeBytes { Base64.append($0, to: &buffer) }
      #expect(buffer == [1] + Array(text.utf8))
    }
  }

  @Test func `a decoded text encodes to the same text`() {
    var generator = SplitMix(state: 8)
    let alphabet = Array("ABab01+/==- ".unicodeScalars)
    for _ in 0..<20_000 {
      var text = ""
      for _ in 0..<Int.random(in: 0...12, using: &generator) {
        text.unicodeScalars.append(alphabet[Int.random(in: 0..<alphabet.count, using: &generator)])
      }
      if let bytes = Base64.decode(text) { #expect(Base64.encode(bytes) == text) }
    }
  }

  @Test func `hexadecimal both ways`() {
    #expect(Hex.encode([0x00, 0x9f, 0xa0, 0xff]) == "009fa0ff")
    #expect(Hex.decode("009fA0Ff") == [0x00, 0x9f, 0xa0, 0xff])
    #expect(Hex.decode("") == [])
    for text in ["0", "0g", "G0", " 00", "0x10", "é"] { #expect(Hex.decode(text) == nil) }
  }

  private static func naiveBase64(_ bytes: [UInt8]) -> String {
    let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
    let bits = bytes.flatMap { byte in (0..<8).map { byte >> (7 - $0) & 1 } }
    var text = ""
    for start in stride(from: 0, to: bits.count, by: 6) {
      text.append(alphabet[(0..<6).reduce(0) { $0 << 1 | Int(start + $1 < bits.count ? bits[start + $1] : 0) }])
    }
    while text.count % 4 != 0 { text.append("=") }
    return text
  }
}

struct SplitMix: RandomNumberGenerator {
  var state: UInt64

  mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
    return mixed ^ (mixed >> 31)
  }
}
