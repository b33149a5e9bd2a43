// What `redirectURL` leads to: this server's users get their tokens from its operator, and the page says so.

import Crypto
import HTTPServer

enum SignInPage {
  /// A client that opened the page in a window waits for one message (wire-protocol.md 2.3): it is told that there will be no token.
  static let response = HTTPResponse(
    status: 200,
    headers: [
      ("Content-Type", "text/html; charset=utf-8"), ("X-Content-Type-Options", "nosniff"), ("Referrer-Policy", "no-referrer"),
      ("Content-Security-Policy", "default-src 'none'; script-src 'sha256-\(scriptHash)'"),
    ],
    body: .bytes(Array(html.utf8)))

  private static let script = "if (window.opener) window.opener.postMessage({errorMessage: 'Sign in with a token of the operator'}, '*')"
  private static let scriptHash = Base64.encode(SHA256.hash(Array(script.utf8)))

  private static let html = """
    <!doctype html><html lang="en"><head><meta charset="utf-8"><title>Sign in</title></head><body>
    <h1>Sign in</h1>
    <p>Users of this server get a web-auth token from its operator:</p>
    <pre>aquifer user token NAME</pre>
    <script>\(script)</script></body></html>
    """
}
