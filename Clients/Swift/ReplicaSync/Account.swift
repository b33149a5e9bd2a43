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

  /// The time from one sign-in or sign-out to the next. Nothing that begins in one gets the token of another.
  package struct Session: Hashable, Sendable {
    fileprivate var number = 0
  }

  fileprivate struct State {
    var token: String?
    var isLoaded = false
    var session = Session()
    var userRecordName: String?
    var listeners: [Int: AsyncStream<String?>.Continuation] = [:]
    var sessionListeners: [Int: AsyncStream<Session>.Continuation] = [:]
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
  /// Held while the token store is told, so that a renewal never undoes a sign-out.
  private let storing = Mutex(())

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
    begin(nil, nil) { try? tokens.store(nil) }
  }

  // MARK: Sessions

  package var session: Session { state.withLock { $0.session } }

  /// Each session that begins from now on.
  package var sessions: AsyncStream<Session> {
    let (stream, continuation) = AsyncStream<Session>.makeStream(bufferingPolicy: .bufferingNewest(1))
    let number = state.withLock { state in
      state.nextListener += 1
      state.sessionListeners[state.nextListener] = continuation
      return state.nextListener
    }
    continuation.onTermination = { [weak self] _ in self?.state.withLock { $0.sessionListeners[number] = nil } }
    return stream
  }

  /// - Throws: what the token store throws; then nobody else is signed in.
  func keep(_ token: String, of user: String) throws { try begin(token, user) { try tokens.store(token) } }

  private func begin(_ token: String?, _ user: String?, _ store: () throws -> Void) rethrows {
    let listeners = try storing.withLock { _ in
      try store()
      return state.withLock { state in
        state.session.number += 1
        state.isLoaded = true
        state.token = token
        let listeners = (Array(state.sessionListeners.values), state.session, state.take(user))
        return listeners
      }
    }
    for listener in listeners.0 { listener.yield(listeners.1) }
    for listener in listeners.2 { listener.yield(user) }
  }

  // MARK: Tokens

  /// - Parameter session: nil: whatever session it is now.
  /// - Throws: `signedOut`, also when the session is over, and when the token store does not answer.
  package func token(in session: Session? = nil) throws(StoreError) -> String {
    let token: String? = state.withLock { state in
      if !state.isLoaded {
        // Dropped because a store that can't be read has no token.
        state.token = (try? tokens.load()) ?? nil
        state.isLoaded = true
      }
      return session.map { $0 == state.session } ?? true ? state.token : nil
    }
    guard let token else { throw .signedOut }
    return token
  }

  /// Takes the successor of a token. It is kept first; if that fails the earlier one goes on for its five minutes, and
  /// the next answer brings the same successor.
  package func renew(_ earlier: String, to successor: String) {
    storing.withLock { _ in
      guard successor != earlier, (try? token()) == earlier, (try? tokens.store(successor)) != nil else { return }
      state.withLock { $0.token = successor }
    }
  }

  /// Whose session it is; nil: the server has not told it, or the session is over.
  package func userRecordName(in session: Session) -> String? {
    state.withLock { $0.session == session ? $0.userRecordName : nil }
  }

  /// The server told whose session it is.
  package func told(userRecordName: String, in session: Session) {
    let listeners = state.withLock { $0.session == session ? $0.take(userRecordName) : [] }
    for listener in listeners { listener.yield(userRecordName) }
  }
}

extension Account.State {
  /// - Returns: who is to be told, without the lock: a listener that ends just then waits for it.
  fileprivate mutating func take(_ user: String?) -> [AsyncStream<String?>.Continuation] {
    guard userRecordName != user else { return [] }
    userRecordName = user
    return Array(listeners.values)
  }
}
