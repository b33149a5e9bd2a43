import Records
import Testing
import WebServices

struct CourierTokenTests {
  private let key = [UInt8](repeating: 7, count: 32)

  private func token(clientID: String = "AF1C-client/1") throws -> CourierToken {
    let container = try #require(ContainerID(rawValue: "iCloud.org.example.photos"))
    return CourierToken(
      container: container, environment: .development, userRecordName: "_8f3c", clientID: clientID, grant: "ab:s12",
      expiry: 1000)
  }

  @Test(arguments: ["", "a", "ab", "Zoë ☃", String(repeating: "x", count: 255)])
  func `a token reads back as what it was made of, and fits into a path`(clientID: String) throws {
    let token = try token(clientID: clientID)
    let text = token.text(signedWith: key)
    #expect(
      text.utf8.allSatisfy { "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8.contains($0) })
    #expect(CourierToken(text: text, verifiedWith: key, now: 999) == token)
  }

  @Test func `a token with any byte changed, cut or added is refused`() throws {
    let text = Array(try token().text(signedWith: key).utf8)
    for index in text.indices {
      var forged = text
      forged[index] = forged[index] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
      #expect(CourierToken(text: String(decoding: forged, as: UTF8.self), verifiedWith: key, now: 999) == nil)
      #expect(CourierToken(text: String(decoding: text[..<index], as: UTF8.self), verifiedWith: key, now: 999) == nil)
    }
    for suffix in ["A", "=", "==", "AAAA", "%"] {
      #expect(CourierToken(text: String(decoding: text, as: UTF8.self) + suffix, verifiedWith: key, now: 999) == nil)
    }
  }

  @Test func `a token ends when its time is over, and one made again in the same week is the same`() throws {
    let text = try token().text(signedWith: key)
    #expect(CourierToken(text: text, verifiedWith: key, now: 1000) == nil)
    let week: Int64 = 7 * 86_400_000
    for now in [0, 1, week - 1, week, 2900 * week + 5] {
      let expiry = CourierToken.expiry(at: now)
      #expect(expiry - now > 5 * week && expiry - now <= 6 * week)
      #expect(expiry == CourierToken.expiry(at: now / week * week))
    }
  }

  @Test func `another installation's token is refused`() throws {
    #expect(
      CourierToken(text: try token().text(signedWith: [UInt8](repeating: 8, count: 32)), verifiedWith: key, now: 999)
        == nil)
  }

  @Test(arguments: ["", "A", "AAAA", "a+b/", "ü", String(repeating: "A", count: 10_000)])
  func `a text that never was a token is refused`(text: String) {
    #expect(CourierToken(text: text, verifiedWith: key, now: 999) == nil)
  }
}
