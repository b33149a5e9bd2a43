// Reasons why a provider's answer signs nobody in.

/// One sentence for the log and for operators; visitors see a general one.
public struct IdentityError: Error, Hashable, CustomStringConvertible {
  public enum Kind: Hashable, Sendable {
    /// The provider did not answer, or could not; the same sign-in may work later.
    case unavailable
    /// The provider's documents, or the registration with it, are not what sign-in needs: an operator has to act.
    case misconfigured
    /// The answer or the token proves no identity to this client.
    case refused
  }

  public let kind: Kind
  public let description: String

  init(_ kind: Kind, _ description: String) {
    self.kind = kind
    self.description = description
  }

  static func refused(_ description: String) -> IdentityError { IdentityError(.refused, description) }
  static func misconfigured(_ description: String) -> IdentityError { IdentityError(.misconfigured, description) }
}
