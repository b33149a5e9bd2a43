import Records
import Testing
import WebServices

struct CourierTokenTests {
  private let key = [UInt8](repeating: 7, count: 32)

  private func token(clientID: String = "AF1C-client/1") throws -> CourierToken {
    let container = try #require(ContainerID(rawValue: "iCloud.org.example.photos"))
    return CourierToken(container: container, environment: .development, userRecordName: "_8f3c", clientID: clientID)
  }

  @Test(arguments: ["", "a", "ab", "Zoë ☃", String(repeating: "x", count: 255)])
  func `a token reads back as what it was made of, and fits into a path`(clientID: String) throws {
    let token = try token(clientID: clientID)
    let text = token.text(signedWith: key)
    #expect(text.utf8.allSatisfy { "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8.contains($0) })
    #expect(CourierToken(text: text, verifiedWith: key) == token)
  }

  @Test func `a token with any byte changed, cut or added is refused`() throws {
    let text = Array(try token().text(signedWith: key).utf8)
    for index in text.indices {
      var forged = text
      forged[index] = forged[index] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
      #expect(CourierToken(text: String(decoding: forged, as: UTF8.self), verifiedWith: key) == nil)
      #expect(CourierToken(text: String(decoding: text[..<index], as: UTF8.self), verifiedWith: key) == nil)
    }
    for suffix in ["A", "=", "==", "AAAA", "%"] {
      #expect(CourierToken(text: String(decoding: text, as: UTF8.self) + suffix, verifiedWith: key) == nil)
    }
  }

  @Test func `another installation's token is refused`() throws {
    #expect(CourierToken(text: try token().text(signedWith: [UInt8](repeating: 8, count: 32)), verifiedWith: key) == nil)
  }

  @Test(arguments: ["", "A", "AAAA", "a+b/", "ü", String(repeating: "A", count: 10_000)])
  func `what never was a token is refused`(text: String) {
    #expect(CourierToken(text: text, verifiedWith: key) == nil)
  }
}
