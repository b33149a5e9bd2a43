// Turns credentials into principals: asks the share service once, and remembers its answer for as long as it may.

public import Records
public import ServiceBus
public import ServiceKit
import Synchronization

/// A cache over `Authenticate`, for gateways and notifiers.
///
/// An answer is forgotten when the directory changes and asked for anew after its lifetime; while the share service is away an old one
/// is good for `staleLimit` more, so that a restart of the directory is invisible to clients that were known; a session's, not longer
/// than it certainly counts. Refusals are not kept: a token that was made a moment ago works at once.
public final class Authenticator: Sendable {
  static let staleLimit: Duration = .seconds(600)
  /// When more credentials than this are known, the older half is forgotten.
  static let entryLimit = 20_000
  /// How long a grant that held is taken to hold when no change of the directory is heard of.
  private static let grantLifetime = Duration.seconds(60)

  public struct Question: Hashable, Sendable {
    public let container: ContainerID?
    public let environment: Environment?
    public let apiToken: String?
    public let userToken: String?
    public let keyID: String?

    public init(container: ContainerID?, environment: Environment?, apiToken: String?, userToken: String?, keyID: String? = nil) {
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
    /// Good until then while the share service is away.
    let lastUse: ContinuousClock.Instant
    /// When answers begin to hand out a successor; nil: never.
    let rotation: ContinuousClock.Instant?
    var successor: String?
    /// Rises with every entry: tells old from new.
    let number: Int
  }

  private struct State {
    var entries: [Question: Entry] = [:]
    /// Grants that held, and until when that is remembered.
    var grants: [VerifyGrant: (holds: Bool, expiry: ContinuousClock.Instant)] = [:]
    var nextNumber = 0
    /// Rises when the directory changes: what was asked before is not kept.
    var generation = 0
    var version: DirectoryVersion?
  }

  private let timing: Timing
  private let state = Mutex(State())

  public init(timing: Timing) { self.timing = timing }

  // MARK: Credentials

  /// The answer that is known and fresh.
  public func known(_ question: Question) -> Authenticate.Reply? {
    let now = timing.now()
    return state.withLock { state in state.entries[question].flatMap { now < $0.expiry ? $0.reply : nil } }
  }

  /// - Throws: `tryAgainLater` when the share service does not answer and nothing is known.
  public func answer(to question: Question, from share: ShareCalls) async throws(RecordError) -> Authenticate.Reply {
    let start = timing.now()
    let (known, asked) = state.withLock { ($0.entries[question], $0.generation) }
    if let known, start < known.expiry { return known.reply }
    let message = Authenticate(
      container: question.container, environment: question.environment, apiToken: question.apiToken, userToken: question.userToken, keyID: question.keyID)
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

  /// - Parameter start: when it was asked: all its times count from then.
  private func keep(_ reply: Authenticate.Reply, for question: Question, asked: Int, at start: ContinuousClock.Instant) {
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
      state.entries[question] = Entry(reply: reply, expiry: expiry, lastUse: lastUse, rotation: rotation, successor: nil, number: state.nextNumber)
      state.nextNumber += 1
    }
  }

  // MARK: Sessions

  /// The successor to hand out with a good answer; nil when there is none to hand out, or the share service is away.
  /// - Parameter reply: what the question was answered.
  public func successor(of question: Question, _ reply: Authenticate.Reply, from share: ShareCalls) async -> String? {
    guard let session = reply.session, let token = question.userToken else { return nil }
    let now = timing.now()
    let entry = state.withLock { $0.entries[question] }
    if let known = entry?.successor { return known }
    // What is not kept is as fresh as the reply.
    guard entry?.rotation.map({ $0 <= now }) ?? (session.rotationDelay <= 0) else { return nil }
    let successor: String?
    do throws(RecordError) {
      successor = try await share.callOnce(RotateSession(token: token)).successor
    } catch {
      // Dropped because the next answer hands it out; this one was good without.
      return nil
    }
    state.withLock { $0.entries[question]?.successor = successor }
    return successor
  }

  // MARK: Grants

  /// Whether credentials that somebody came by earlier still hold; while the directory is away, they are believed to.
  public func holds(_ grant: VerifyGrant, from share: ShareCalls) async -> Bool {
    let now = timing.now()
    let (known, asked) = state.withLock { ($0.grants[grant], $0.generation) }
    if let known, now < known.expiry { return known.holds }
    let holds: Bool
    do throws(RecordError) {
      holds = try await share.callOnce(grant).holds
    } catch {
      // Dropped because nothing is told such a user but that something changed.
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

  /// The directory published a change.
  /// - Returns: whether credentials may have changed: what was known of them is forgotten.
  @discardableResult public func note(_ change: DirectoryChanged) -> Bool {
    state.withLock { state in
      let isGap = change.version.map { version in state.version.map { !version.follows($0) } ?? false } ?? false
      if let version = change.version { state.version = version }
      guard change.credentials || isGap else { return false }
      Self.forget(&state)
      return true
    }
  }

  /// The directory says where it is, after a connection was lost.
  /// - Returns: whether changes were missed: what was known of credentials is forgotten.
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
  /// Serves what the share service pushes about credentials.
  /// - Parameter changed: called when credentials may have changed, after they were forgotten.
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
