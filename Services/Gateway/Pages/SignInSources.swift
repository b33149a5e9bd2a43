// The origin of a sign-in, as a gateway knows it from the request.

import Authentication
import HTTPServer
import Records
import ServiceBus
import ServiceKit

/// A client's short name for the lists of sessions, made of its `User-Agent`.
enum ClientName {
  private static let characterLimit = 60
  /// Words of browsers with their names. Most browsers also name those that stand below them.
  private static let browsers = [
    ("Edg", "Edge"), ("OPR/", "Opera"), ("Firefox/", "Firefox"), ("FxiOS/", "Firefox"), ("Chrome/", "Chrome"),
    ("CriOS/", "Chrome"), ("Safari/", "Safari"),
  ]
  private static let systems = [
    ("iPhone", "iPhone"), ("iPad", "iPad"), ("Android", "Android"), ("Windows", "Windows"), ("Mac OS X", "Mac"),
    ("CrOS", "ChromeOS"), ("Linux", "Linux"),
  ]

  /// "Firefox on Linux" for a browser; for another client its own first words; nil without any.
  static func name(ofUserAgent text: String?) -> String? {
    guard let text else { return nil }
    let known = [browsers, systems].map { words in words.first { text.contains($0.0) }?.1 }
    if text.hasPrefix("Mozilla/"), let browser = known[0] { return known[1].map { "\(browser) on \($0)" } ?? browser }
    let plain = text.unicodeScalars.filter { (0x20..<0x7f).contains($0.value) }.prefix(characterLimit)
    return plain.isEmpty ? nil : String(String.UnicodeScalarView(plain))
  }
}

extension HTTPRequest {
  func signInSource(_ way: SignInSource.Way, provider: String? = nil) -> SignInSource {
    SignInSource(
      way: way, provider: provider, address: remoteAddress,
      client: ClientName.name(ofUserAgent: header("user-agent")))
  }
}

extension Gateway {
  /// Notes for the audit that somebody was not signed in.
  func note(
    _ refusal: NoteRefusedSignIn.Refusal, of source: SignInSource, _ container: ContainerID,
    _ environment: Environment
  ) async throws(RecordError) {
    _ = try await share.call(
      NoteRefusedSignIn(container: container, environment: environment, source: source, refusal: refusal))
  }
}
