// `GET /signin/icon/…`: the picture that an operator set for a provider of identities.

import Crypto
import HTTPServer
import Records
import ServiceBus

extension Gateway {
  /// The address changes with the picture, so that browsers may keep it for a day.
  static func address(of icon: ProviderIcon, provider name: String) -> String {
    "/signin/icon/\(name)?v=\(Hex.encode(SHA256.hash(icon.bytes).prefix(8)))"
  }

  /// - Throws: `notFound` for a provider without a picture.
  func providerIcon(_ request: HTTPRequest, provider name: String) async throws(RecordError) -> HTTPResponse {
    try take(.address(request.clientNetwork))
    let entries = try await state.providers.entries(of: nil, from: share)
    guard let icon = entries.first(where: { $0.name == name })?.icon else {
      throw RecordError(.notFound, "There is no icon of a provider '\(name)'")
    }
    return HTTPResponse(
      status: 200,
      headers: [
        ("Content-Type", icon.kind == .png ? "image/png" : "image/svg+xml"), ("X-Content-Type-Options", "nosniff"),
        // An SVG that is opened by itself is a document, and may run and fetch nothing either.
        ("Content-Security-Policy", "default-src 'none'; sandbox"), ("Cross-Origin-Resource-Policy", "same-origin"),
        ("Cache-Control", "public, max-age=86400"),
      ], body: .bytes(icon.bytes))
  }
}
