// Who is signed in, and where.

package import ReplicaStore
import MirrorWire
import Synchronization

/// A user of a server. Tokens that the server renews are kept before they are used (K19).
public final class Account: Sendable {
  /// A file that only its user can read, the Keychain, or the app's own.
  public protocol TokenStore: Sendable {
    func load() throws -> String?
    /// - Parameter token: nil: nobody is signed in any more.
    func store(_ token: String?) throws
  }

  private struct State {
    var token: String?
    var isLoaded = false
    var userRecordName: String?
    var listeners: [Int: AsyncStream<String?>.Continuation] = [:]
    var nextListener = 0
  }

  /// The gateway's address, without a slash at its end.
  public let server: String
  /// The notifier's address; nil: imports wait at the gateway.
  public let notifier: String?
  /// 64 hexadecimal digits.
  let apiToken: String
  private let tokens: any TokenStore
  private let state = Mutex(State())

  public init(server: String, notifier: String? = nil, apiToken: String, tokens: any TokenStore) {
    self.server = Self.withoutSlash(server)
    self.notifier = notifier.map(Self.withoutSlash)
    self.apiToken = apiToken
    self.tokens = tokens
  }

  private static func withoutSlash(_ address: String) -> String {
    address.hasSuffix("/") ? String(address.dropLast()) : address
  }

  /// nil until the server has told it.
  public var userRecordName: String? { state.withLock { $0.userRecordName } }

  /// The user's record name, each time it becomes another; nil: signed out. Begins with the present one.
  public var changes: AsyncStream<String?> {
    let (stream, continuation) = AsyncStream<String?>.makeStream(bufferingPolicy: .bufferingNewest(16))
    let number = state.withLock { state in
      state.nextListener += 1
      state.listeners[state.nextListener] = continuation
      continuation.yield(state.userRecordName)
      return state.nextListener
    }
    continuation.onTermination = { [weak self] _ in self?.state.withLock { $0.listeners[number] = nil } }
    return stream
  }

  /// Forgets the token here. A session ends by itself; the files stay for the next time.
  public func signOut() async {
    // Dropped because the token is not used any more in any case.
    try? tokens.store(nil)
    set(user: nil, token: nil)
  }

  // MARK: Tokens

  /// - Throws: `signedOut`, also when the token store does not answer.
  package func token() throws(StoreError) -> String {
    let token = state.withLock { state in
      if !state.isLoaded {
        // Dropped because a store that can't be read has no token.
        state.token = (try? tokens.load()) ?? nil
        state.isLoaded = true
      }
      return state.token
    }
    guard let token else { throw .signedOut }
    return token
  }

  /// Takes the successor of a token. It is kept first; if that fails the earlier one goes on for its five minutes, and
  /// the next answer brings the same successor.
  package func renew(_ earlier: String, to successor: String) {
    guard successor != earlier, (try? token()) == earlier, (try? tokens.store(successor)) != nil else { return }
    state.withLock { state in if state.token == earlier { state.token = successor } }
  }

  /// - Throws: what the token store throws; then nobody else is signed in.
  func keep(_ token: String, of user: String) throws {
    try tokens.store(token)
    set(user: user, token: token)
  }

  package func told(userRecordName: String) {
    let token = state.withLock { $0.token }
    set(user: userRecordName, token: token)
  }

  private func set(user: String?, token: String?) {
    let listeners: [AsyncStream<String?>.Continuation] = state.withLock { state in
      state.isLoaded = true
      state.token = token
      guard state.userRecordName != user else { return [] }
      state.userRecordName = user
      return Array(state.listeners.values)
    }
    // Not within the lock: a listener that ends just then waits for it while it holds its task.
    for listener in listeners { listener.yield(user) }
  }
}
