// Secrets that are typed at a terminal.

import Foundation
import Testing

@testable import Console

struct TypedSecretTests {
  private func typed(_ text: String) -> (text: String, end: TypedSecret.End?) {
    var secret = TypedSecret()
    for byte in text.utf8 {
      if let end = secret.take(byte) { return (String(decoding: secret.bytes, as: UTF8.self), end) }
    }
    return (String(decoding: secret.bytes, as: UTF8.self), nil)
  }

  @Test(arguments: [
    ("pass word\nrest", "pass word"), ("pass\r", "pass"), ("secré\u{7f}\u{7f}et\n", "secet"), ("a\u{8}b\n", "b"),
    ("\u{7f}\u{7f}a\n", "a"), ("wrong\u{15}right\n", "right"), ("all\u{4}", "all"), ("\n", ""),
    ("𝄞\u{7f}x\n", "x"),
  ])
  func `Enter ends a typed secret, and the keys that correct a line correct it by whole characters`(
    keys: String, secret: String
  ) {
    let found = typed(keys)
    #expect(found.text == secret && found.end == .entered)
  }

  @Test func `Ctrl-C interrupts, and before the end there is none`() {
    #expect(typed("abc\u{3}").end == .interrupted)
    #expect(typed("abc").end == nil)
  }

  @Test func `what comes through a pipe is left to be read whole`() {
    var ends: [Int32] = [-1, -1]
    #expect(pipe(&ends) == 0)
    defer { for end in ends { close(end) } }
    #expect(write(ends[1], "secret", 6) == 6)
    #expect(TypedSecret.read(from: ends[0], asking: "") == nil)
    var rest = [UInt8](repeating: 0, count: 16)
    #expect(read(ends[0], &rest, rest.count) == 6)
  }
}
