// Turns credentials into principals: asks the share service, and caches its answer for as long as it allows.

public import Records
public import ServiceBus
public import ServiceKit
import Synchronization

/// A cache over `Authenticate`, for gateways and notifiers.
///
/// A change in the directory clears the cache, and an answer expires after its lifetime. While the share service is
/// away, an expired answer stays good for `staleLimit`, so that clients notice no restart of the directory. The answer
/// about a session stays good for the session's guaranteed validity only. Refusals are not cached, so a token works as
/// soon as it exists.
public final class Authenticator: Sendable {
  static let staleLimit: Duration = .seconds(600)
  /// At this number of cached answers, the older half is dropped.
  static let entryLimit = 20_000
  /// The time for which the answer about a grant is cached unless the directory changes.
  private static let grantLifetime = Duration.seconds(60)

  public struct Question: Hashable, Sendable {
    public let container: ContainerID?
    public let environment: Environment?
    public let apiToken: String?
    public let userToken: String?
    public let keyID: String?

    public init(
      container: ContainerID?, environment: Environment?, apiToken: String?, userToken: String?, keyID: String? = nil
    ) {
      self.container = container
      self.environment = environment
      self.apiToken = apiToken
      self.userToken = userToken
      self.keyID = keyID
    }
  }

  private struct Entry {
    let reply: Authenticate.Reply
    let expiry: ContinuousClock.Instant
    /// The end of the time in which the answer is good while the share service is away.
    let lastUse: ContinuousClock.Instant
    /// The time from which answers carry a successor token; nil for never.
    let rotation: ContinuousClock.Instant?
    var successor: String?
    /// Rises with each entry, to tell old entries from new ones.
    let number: Int
  }

  private struct State {
    var entries: [Question: Entry] = [:]
    /// Answers about grants, and the end of the time in which they are cached.
    var grants: [VerifyGrant: (holds: Bool, expiry: ContinuousClock.Instant)] = [:]
    var nextNumber = 0
    /// Rises when the directory changes. Answers to earlier questions are not cached.
    var generation = 0
    var version: DirectoryVersion?
  }

  private let timing: Timing
  private let state = Mutex(State())

  public init(timing: Timing) { self.timing = timing }

  // MARK: Credentials

  /// The cached answer, if it has not expired.
  public func known(_ question: Question) -> Authenticate.Reply? {
    let now = timing.now()
    return state.withLock { state in state.entries[question].flatMap { now < $0.expiry ? $0.reply : nil } }
  }

  /// Answers from the cache or from the share service.
  /// - Throws: `tryAgainLater` when the share service does not answer and no usable answer is cached.
  public func answer(to question: Question, from share: ShareCalls) async throws(RecordError) -> Authenticate.Reply {
    let start = timing.now()
    let (known, asked) = state.withLock { ($0.entries[question], $0.generation) }
    if let known, start < known.expiry { return known.reply }
    let message = Authenticate(
      container: question.container, environment: question.environment, apiToken: question.apiToken,
      userToken: question.userToken, keyID: question.keyID)
    let reply: Authenticate.Reply
    do throws(RecordError) {
      reply = try await known == nil ? share.call(message) : share.callOnce(message)
    } catch {
      guard let known, error.code == .tryAgainLater else { throw error }
      if start < known.lastUse, state.withLock({ $0.generation }) == asked { return known.reply }
      reply = try await share.call(message)
    }
    keep(reply, for: question, asked: asked, at: start)
    return reply
  }

  /// - Parameter start: the time of the question. All times of the reply count from there.
  private func keep(_ reply: Authenticate.Reply, for question: Question, asked: Int, at start: ContinuousClock.Instant)
  {
    let expiry = start + .seconds(reply.lifetimeSeconds)
    state.withLock { state in
      guard asked == state.generation else { return }
      guard reply.refusal == nil, reply.lifetimeSeconds > 0 else {
        state.entries[question] = nil
        return
      }
      if state.entries.count >= Self.entryLimit {
        let middle = state.entries.values.map(\.number).sorted()[state.entries.count / 2]
        state.entries = state.entries.filter { $0.value.number >= middle }
      }
      let lastUse = reply.session.map { start + .milliseconds($0.validity) } ?? expiry + Self.staleLimit
      let rotation = reply.session.map { start + .milliseconds($0.rotationDelay) }
      state.entries[question] = Entry(
        reply: reply, expiry: expiry, lastUse: lastUse, rotation: rotation, successor: nil, number: state.nextNumber)
      state.nextNumber += 1
    }
  }

  // MARK: Sessions

  /// The successor of a session token, which a good answer hands out; nil when none is due or the share service is
  /// away.
  /// - Parameter reply: the answer to the question.
  public func successor(of question: Question, _ reply: Authenticate.Reply, from share: ShareCalls) async -> String? {
    guard let session = reply.session, let token = question.userToken else { return nil }
    let now = timing.now()
    let entry = state.withLock { $0.entries[question] }
    if let known = entry?.successor { return known }
    // An answer that is not cached has just arrived, so its delay counts from now.
    guard entry?.rotation.map({ $0 <= now }) ?? (session.rotationDelay <= 0) else { return nil }
    let successor: String?
    do throws(RecordError) {
      successor = try await share.callOnce(RotateSession(token: token)).successor
    } catch {
      // Dropped because this answer is good without a successor, and the next answer tries again.
      return nil
    }
    state.withLock { $0.entries[question]?.successor = successor }
    return successor
  }

  // MARK: Grants

  /// True when credentials that a caller presented earlier still hold, and while the directory is away.
  public func holds(_ grant: VerifyGrant, from share: ShareCalls) async -> Bool {
    let now = timing.now()
    let (known, asked) = state.withLock { ($0.grants[grant], $0.generation) }
    if let known, now < known.expiry { return known.holds }
    let holds: Bool
    do throws(RecordError) {
      holds = try await share.callOnce(grant).holds
    } catch {
      // Dropped because such a user learns only that something has changed.
      return true
    }
    state.withLock { state in
      guard asked == state.generation else { return }
      if state.grants.count >= Self.entryLimit { state.grants.removeAll() }
      state.grants[grant] = (holds, now + Self.grantLifetime)
    }
    return holds
  }

  // MARK: Changes

  /// Handles a change that the directory published.
  /// - Returns: whether credentials may have changed; the cache is cleared then.
  @discardableResult public func note(_ change: DirectoryChanged) -> Bool {
    state.withLock { state in
      let isGap = change.version.map { version in state.version.map { !version.follows($0) } ?? false } ?? false
      if let version = change.version { state.version = version }
      guard change.credentials || isGap else { return false }
      Self.forget(&state)
      return true
    }
  }

  /// Handles the directory's version, which arrives after a lost connection.
  /// - Returns: whether changes were missed; the cache is cleared then.
  @discardableResult public func note(_ version: DirectoryVersion) -> Bool {
    state.withLock { state in
      let isMissed = state.version != version
      state.version = version
      if isMissed { Self.forget(&state) }
      return isMissed
    }
  }

  public func forgetAll() { state.withLock { Self.forget(&$0) } }

  private static func forget(_ state: inout State) {
    state.entries.removeAll()
    state.grants.removeAll()
    state.generation += 1
  }
}

extension BusHandlers {
  /// Serves the share service's notices about credentials.
  /// - Parameter changed: called when credentials may have changed, after the cache is cleared.
  public mutating func serve(_ authenticator: Authenticator, changed: @escaping @Sendable () -> Void = {}) {
    on(DirectoryChanged.self) { message, _, _ in
      if authenticator.note(message) { changed() }
      return Answer(Acknowledgement())
    }
    on(PublishDirectoryVersion.self) { message, _, _ in
      if authenticator.note(message.version) { changed() }
      return Answer(Acknowledgement())
    }
  }
}
