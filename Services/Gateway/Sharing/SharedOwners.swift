// Whose zones a user has access to, as the share service last said: asked with every request that needs it, remembered for when it is away.

import Authentication
import Records
import ServiceBus
import ServiceKit
import Synchronization

/// Asks the share service, and has the last answers while it does not answer.
final class SharedOwners: Sendable {
  /// Whom is asked about.
  fileprivate struct Key: Hashable {
    let userRecordName: String
    let container: ContainerID
    let environment: Environment
  }

  fileprivate struct State {
    var known: [Key: FetchSharedZones.Reply] = [:]
    /// In the order in which they were first asked.
    var order: [Key] = []
    /// Until then nobody is made to wait for the share service again.
    var awayUntil: ContinuousClock.Instant?
  }

  /// Users whose lists are remembered.
  fileprivate static let limit = 10_000
  /// How long a client waits for a share service that may be gone while there is a list to go on with.
  private static let patience: Duration = .seconds(2)
  private static let pause: Duration = .seconds(1)

  private let share: ShareCalls
  private let timing: Timing
  private let state = Mutex(State())

  init(share: ShareCalls, timing: Timing) {
    self.share = share
    self.timing = timing
  }

  /// - Throws: `tryAgainLater` when the share service is away and the user was not asked about before.
  func zones(of userRecordName: String, _ container: ContainerID, _ environment: Environment) async throws(RecordError) -> [FetchSharedZones.Reply.Owner] {
    let key = Key(userRecordName: userRecordName, container: container, environment: environment)
    let (known, awayUntil) = state.withLock { ($0.known[key], $0.awayUntil) }
    if let known, let awayUntil, timing.now() < awayUntil { return known.owners }
    do {
      let message = FetchSharedZones(userRecordName: userRecordName, container: container, environment: environment)
      let reply = try await share.call(message, within: known == nil ? nil : Self.patience)
      state.withLock { $0.note(reply, of: key) }
      return reply.owners
    } catch {
      guard let known else { throw error }
      // A client that hung up says nothing of the share service.
      if !Task.isCancelled { state.withLock { $0.awayUntil = timing.now() + Self.pause } }
      return known.owners
    }
  }
}

extension SharedOwners.State {
  fileprivate mutating func note(_ reply: FetchSharedZones.Reply, of key: SharedOwners.Key) {
    awayUntil = nil
    if known.updateValue(reply, forKey: key) != nil { return }
    order.append(key)
    guard order.count > SharedOwners.limit else { return }
    known[order.removeFirst()] = nil
  }
}
