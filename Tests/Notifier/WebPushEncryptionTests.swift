import Crypto
import Testing

@testable import Notifier

@Suite struct WebPushEncryptionTests {
  private func bytes(_ text: String) throws -> [UInt8] { try #require(Base64URL.decode(text)) }

  /// RFC 8291, appendix A.
  @Test func `a message is encrypted as the standard's example`() throws {
    let sender = try #require(
      P256PrivateKey(scalar: try bytes("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw")))
    let encrypted = WebPushEncryption.encrypt(
      Array("When I grow up, I want to be a watermelon".utf8),
      for: try bytes("BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"),
      secret: try bytes("BTBZMqHH6r4Tts7J_aSIgg"), sender: sender, salt: try bytes("DGv6ra1nlYgDCS1FRnbzlw"))
    let expected =
      "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8w"
      + "EqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
    #expect(encrypted.map { Base64URL.encode($0) } == expected)
  }

  @Test func `each message has a key and a salt of its own, and fits a service's limit`() throws {
    let receiver = P256PrivateKey.make()
    let secret = [UInt8](repeating: 7, count: 16)
    let content = [UInt8](repeating: 65, count: WebPushEncryption.byteLimit)
    let one = try #require(WebPushEncryption.encrypt(content, for: receiver.publicPoint, secret: secret))
    let two = try #require(WebPushEncryption.encrypt(content, for: receiver.publicPoint, secret: secret))
    #expect(one.count == 4096 && one[..<86] != two[..<86])
    #expect(WebPushEncryption.encrypt([], for: [UInt8](repeating: 4, count: 65), secret: secret) == nil)
  }
}
