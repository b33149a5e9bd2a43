// A client's registration with a provider, as an operator enters it.

public struct ProviderConfiguration: Hashable, Sendable {
  /// The proof with which a client fetches tokens.
  public enum Secret: Hashable, Sendable {
    /// A public client: PKCE alone protects its codes.
    case none
    case text(String)
    /// A key of Apple's developer portal: each secret is a token that it signs.
    case apple(AppleKey)
  }

  /// An `https` address without a slash at its end, unless the provider writes one.
  public var issuer: String
  public var clientID: String
  public var secret: Secret
  /// Other clients of the same people, such as native apps, whose ID tokens are exchanged.
  public var nativeClientIDs: [String]
  public var scopes: [String]
  /// True for a provider that sends its answer as a form, as Apple does when names are asked for.
  public var answersByForm: Bool

  public init(
    issuer: String, clientID: String, secret: Secret = .none, nativeClientIDs: [String] = [],
    scopes: [String] = ["openid", "email", "profile"], answersByForm: Bool = false
  ) {
    self.issuer = issuer
    self.clientID = clientID
    self.secret = secret
    self.nativeClientIDs = nativeClientIDs
    self.scopes = scopes
    self.answersByForm = answersByForm
  }
}
