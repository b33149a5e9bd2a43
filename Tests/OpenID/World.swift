// One forged provider and a client that is registered with it.

import ForgedProvider
import HTTPClient
import HTTPServer
@testable import OpenID

/// Keys are slow to make, so tests share them.
enum Keys {
  static let rsa = ForgedKey(.rsa(bitCount: 2048), keyID: "key-1")
  static let other = ForgedKey(.rsa(bitCount: 2048), keyID: "key-2")
  static let weak = ForgedKey(.rsa(bitCount: 1024), keyID: "key-1")
  static let curve = ForgedKey(.p256, keyID: "key-3")
}

struct ProviderWorld {
  static let now: Int64 = 1_790_000_000_000
  static let returnAddress = "https://sync.example.org/signin/return/acme"

  let forged = ForgedProvider(now: now, key: Keys.rsa)
  let server: HTTPServer
  let client = HTTPClient(bodyByteLimit: 1 << 20)
  let provider: IdentityProvider
  let attempt = SignInAttempt(random: (0..<96).map { UInt8($0) })

  init(secret: ProviderConfiguration.Secret = .text("s3cret & more")) throws {
    server = try forged.serve()
    provider = IdentityProvider(
      ProviderConfiguration(
        issuer: forged.issuer, clientID: "aquifer", secret: secret, nativeClientIDs: ["org.example.app"]),
      client: client)
  }

  /// Visits the provider as a browser does.
  /// - Returns: the code of its answer.
  func visit(now: Int64 = now) async throws -> String {
    let address = try await provider.authorizationAddress(
      attempt, returnAddress: Self.returnAddress, now: now)
    let answer = try await client.send("GET", address)
    let target = answer["location"] ?? ""
    guard target.hasPrefix(Self.returnAddress + "?code="), target.hasSuffix("&state=\(attempt.state)") else {
      throw UnexpectedAnswer(status: answer.status, target: target)
    }
    return String(target.dropFirst(Self.returnAddress.count + 6).prefix { $0 != "&" })
  }

  struct UnexpectedAnswer: Error {
    let status: Int
    let target: String
  }

  /// A whole sign-in.
  func signIn(now: Int64 = now) async throws -> Identity {
    try await provider.identity(
      forCode: try await visit(now: now), issuer: nil, attempt, returnAddress: Self.returnAddress, now: now)
  }
}
