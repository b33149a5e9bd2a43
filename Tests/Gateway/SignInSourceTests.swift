// The origin of sign-ins, as the gateway tells it to the directory.

import Testing

@testable import Gateway

@Suite struct ClientNameTests {
  @Test(arguments: [
    ("Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0", "Firefox on Linux"),
    (
      "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/129.0.0.0 Mobile Safari/537.36",
      "Chrome on Android"
    ),
    (
      "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/129.0.0.0 Safari/537.36 Edg/129.0.0.0",
      "Edge on Windows"
    ),
    (
      "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 Version/17.5 Safari/604.1",
      "Safari on iPhone"
    ),
    ("Mozilla/5.0 (Toaster) Firefox/1.0", "Firefox"), ("Journal/3 CFNetwork/1490", "Journal/3 CFNetwork/1490"),
    ("a\u{1b}[31mred\n", "a[31mred"), (String(repeating: "x", count: 900), String(repeating: "x", count: 60)),
  ])
  func `a client has a short name`(text: String, name: String) {
    #expect(ClientName.name(ofUserAgent: text) == name)
  }

  @Test func `a client that tells nothing has no name`() {
    for text in [nil, "", "\u{e9}\n"] { #expect(ClientName.name(ofUserAgent: text) == nil) }
  }
}
