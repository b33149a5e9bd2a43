// The providers of identities that containers have, and the connections to them.

import Authentication
import Crypto
import HTTPClient
import OpenID
import Records
import ServiceBus
import ServiceKit
import Synchronization

/// A cache over `FetchIdentityProviders`. Every registration keeps its provider's documents for as long as it is known.
final class ProviderBook: Sendable {
  /// The cache is emptied when it would hold more containers than this.
  static let entryLimit = 1000
  private static let lifetime = Duration.seconds(60)
  /// The sign-in page goes without providers rather than wait longer.
  private static let patience = Duration.seconds(2)
  /// The most bytes of a provider's answer.
  private static let answerByteLimit = 1 << 20

  private struct State {
    var entries: [ContainerID?: (entries: [IdentityProviderEntry], expiry: ContinuousClock.Instant)] = [:]
    var providers: [IdentityProviderEntry: IdentityProvider] = [:]
    /// Made with the first provider, because it has a thread.
    var client: HTTPClient?
    /// Rises when the directory changes. An answer to a question asked before the change is not kept.
    var generation = 0
  }

  private let timing: Timing
  private let state = Mutex(State())

  init(timing: Timing) { self.timing = timing }

  /// Ascending by name.
  /// - Parameter container: nil: all providers.
  /// - Throws: `tryAgainLater` while the share service is away.
  func entries(of container: ContainerID?, from share: ShareCalls) async throws(RecordError) -> [IdentityProviderEntry]
  {
    let now = timing.now()
    let (known, asked) = state.withLock { ($0.entries[container], $0.generation) }
    if let known, now < known.expiry { return known.entries }
    let entries = try await share.call(FetchIdentityProviders(container: container), within: Self.patience).providers
    state.withLock { state in
      guard asked == state.generation else { return }
      if state.entries.count >= Self.entryLimit, state.entries[container] == nil { state.entries.removeAll() }
      state.entries[container] = (entries, now + Self.lifetime)
      state.providers = state.providers.filter { registered, _ in
        state.entries.values.contains { $0.entries.contains(registered) }
      }
    }
    return entries
  }

  /// The connection to a provider.
  /// - Throws: `internalError` for a key that this release can't read.
  func provider(_ entry: IdentityProviderEntry) throws(RecordError) -> IdentityProvider {
    let configuration = try ProviderConfiguration(entry)
    return state.withLock { state in
      if let provider = state.providers[entry] { return provider }
      let client = state.client ?? HTTPClient(bodyByteLimit: Self.answerByteLimit)
      state.client = client
      let provider = IdentityProvider(configuration, client: client)
      state.providers[entry] = provider
      return provider
    }
  }

  /// Marks all entries as outdated after a change of the directory.
  func expire() {
    state.withLock { state in
      state.entries.removeAll()
      state.generation += 1
    }
  }
}

extension ProviderConfiguration {
  fileprivate init(_ entry: IdentityProviderEntry) throws(RecordError) {
    let secret: Secret
    switch entry.secret {
    case .none: secret = .none
    case .text(let text): secret = .text(text)
    case .apple(let teamID, let keyID, let privateKey):
      guard let key = P256PrivateKey(pem: privateKey) else {
        throw RecordError(.internalError, "The private key of the provider '\(entry.name)' can't be read")
      }
      secret = .apple(AppleKey(teamID: teamID, keyID: keyID, key: key))
    }
    self.init(
      issuer: entry.issuer, clientID: entry.clientID, secret: secret, nativeClientIDs: entry.nativeClientIDs,
      scopes: entry.scopes, answersByForm: entry.answersByForm)
  }
}
