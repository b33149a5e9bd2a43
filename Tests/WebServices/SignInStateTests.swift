import Records
import Testing

@testable import WebServices

@Suite struct SignInStateTests {
  private let key = [UInt8](repeating: 3, count: 32)
  private let container = ContainerID(rawValue: "iCloud.org.example.photos")

  private func state(origin: String? = "https://app.example", callback: String? = nil) throws -> SignInState {
    SignInState(
      container: try #require(container), environment: .production, origin: origin, callbackURL: callback, expiry: 1_000
    )
  }

  @Test(
    arguments: [
      (nil, nil), ("https://app.example", nil), (nil, "https://app.example/done?a=b"), ("null", "myapp://done"),
    ] as [(String?, String?)])
  func `a signed state is read as it was`(origin: String?, callback: String?) throws {
    let state = try state(origin: origin, callback: callback)
    let text = state.text(signedWith: key)
    #expect(
      text.utf8.allSatisfy {
        $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: "_") || Character(UnicodeScalar($0)).isLetter
          || Character(UnicodeScalar($0)).isNumber
      })
    #expect(SignInState(text: text, verifiedWith: key, now: 999) == state)
  }

  @Test func `the longest origin and callback fit`() throws {
    let long = try state(
      origin: "https://" + String(repeating: "a", count: 500),
      callback: "https://" + String(repeating: "b", count: 2040))
    #expect(SignInState(text: long.text(signedWith: key), verifiedWith: key, now: 0) == long)
  }

  @Test func `it expires to the millisecond`() throws {
    let text = try state().text(signedWith: key)
    #expect(SignInState(text: text, verifiedWith: key, now: 999) != nil)
    #expect(SignInState(text: text, verifiedWith: key, now: 1_000) == nil)
  }

  @Test func `altered in any character, or signed with another key or for another purpose, it is none`() throws {
    let text = try state().text(signedWith: key)
    for index in text.indices {
      var altered = text
      altered.replaceSubrange(index...index, with: text[index] == "A" ? "B" : "A")
      #expect(SignInState(text: altered, verifiedWith: key, now: 0) == nil)
    }
    for wrong in ["", "A", String(text.dropLast()), text + "A", String(repeating: "A", count: 9000)] {
      #expect(SignInState(text: wrong, verifiedWith: key, now: 0) == nil)
    }
    #expect(SignInState(text: text, verifiedWith: [1], now: 0) == nil)
    let courier = CourierToken(
      container: try #require(container), environment: .production, userRecordName: "_a", clientID: "c", grant: "g",
      expiry: .max
    )
    .text(signedWith: key)
    #expect(SignInState(text: courier, verifiedWith: key, now: 0) == nil)
  }
}
