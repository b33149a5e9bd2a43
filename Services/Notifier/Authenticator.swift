// Who opens a stream: asked of the share service, remembered for as long as it allows.

import Records
import ServiceBus
import ServiceKit

/// A cache over `Authenticate` and `FetchSecrets`.
actor Authenticator {
  struct Question: Hashable, Sendable {
    let container: ContainerID
    let environment: Environment
    let apiToken: String?
    let userToken: String?
  }

  private struct Entry {
    let reply: Authenticate.Reply
    let expiry: ContinuousClock.Instant
  }

  private let timing: Timing
  private let bus: any Bus
  private var entries: [Question: Entry] = [:]
  /// Users that were found, and until when that is remembered.
  private var users: [String: ContinuousClock.Instant] = [:]
  private var signingKey: [UInt8]?
  /// Rises when the directory changes: what was asked before is not remembered then.
  private var generation = 0

  private static let callLimit = Duration.seconds(5)
  /// How long a user who was found is taken to exist when no change of the directory is heard of.
  private static let userLifetime = Duration.seconds(60)
  /// All are forgotten when more credentials than this are known.
  private static let entryLimit = 20_000

  init(bus: any Bus, timing: Timing) {
    self.bus = bus
    self.timing = timing
  }

  /// - Throws: `tryAgainLater` when the share service does not answer.
  func reply(to question: Question) async throws(RecordError) -> Authenticate.Reply {
    if let known = entries[question], timing.now() < known.expiry { return known.reply }
    let asked = generation
    let message = Authenticate(
      container: question.container, environment: question.environment, apiToken: question.apiToken, userToken: question.userToken)
    let reply = try await call(message)
    // A refusal is not remembered: a token that was made a moment ago works at once.
    if reply.refusal == nil, reply.lifetimeSeconds > 0, asked == generation {
      if entries.count >= Self.entryLimit { entries.removeAll() }
      entries[question] = Entry(reply: reply, expiry: timing.now() + .seconds(reply.lifetimeSeconds))
    }
    return reply
  }

  /// The user behind credentials.
  /// - Throws: `authenticationFailed`, `authenticationRequired`, `notFound`, `tryAgainLater`.
  func user(of question: Question) async throws(RecordError) -> (userRecordName: String, allowedOrigins: [String]) {
    guard question.apiToken != nil || question.userToken != nil else { throw RecordError(.authenticationFailed, "The request has no credentials.") }
    let reply = try await reply(to: question)
    switch reply.refusal {
    case .apiToken: throw RecordError(.authenticationFailed, "The API token is not valid for this container and environment.")
    case .userToken: throw RecordError(.authenticationRequired, "The web-auth token is not valid any more.")
    case .container: throw RecordError(.notFound, "The container does not exist.")
    case nil: break
    }
    guard let user = reply.userRecordName else { throw RecordError(.authenticationRequired, "Pings go to a signed-in user.") }
    return (user, reply.allowedOrigins)
  }

  /// Whether a user exists and is not disabled; who asks while the directory is away is believed.
  func isKnown(_ userRecordName: String) async -> Bool {
    if let expiry = users[userRecordName], timing.now() < expiry { return true }
    let asked = generation
    do throws(BusError) {
      _ = try await bus.call(LookUpUser(userRecordName: userRecordName), to: .role(.share), within: Self.callLimit)
    } catch {
      // Other failures are dropped because a ping tells nothing but that something changed.
      return error.code != .notFound
    }
    if asked == generation {
      if users.count >= Self.entryLimit { users.removeAll() }
      users[userRecordName] = timing.now() + Self.userLifetime
    }
    return true
  }

  /// The installation's signing key.
  func key() async throws(RecordError) -> [UInt8] {
    if let signingKey { return signingKey }
    let key = try await call(FetchSecrets()).signingKey
    signingKey = key
    return key
  }

  func forgetAll() {
    entries.removeAll()
    users.removeAll()
    generation += 1
  }

  private func call<M: Message>(_ message: M) async throws(RecordError) -> M.Reply {
    do throws(BusError) {
      return try await bus.call(message, to: .role(.share), within: Self.callLimit)
    } catch {
      throw RecordError(.tryAgainLater, "The directory does not answer at the moment.", retryAfter: 1)
    }
  }
}
