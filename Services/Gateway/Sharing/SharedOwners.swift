// The owners whose zones a user can access: asked of the share service each time, remembered for when it is away.

import Authentication
import Records
import ServiceBus
import ServiceKit
import Synchronization

/// Asks the share service. While it does not answer, the last answers count.
final class SharedOwners: Sendable {
  /// A user in a container and environment.
  fileprivate struct Key: Hashable {
    let userRecordName: String
    let container: ContainerID
    let environment: Environment
  }

  fileprivate struct State {
    var known: [Key: FetchSharedZones.Reply] = [:]
    /// In the order of the first question about each.
    var order: [Key] = []
    /// Until then no request waits for the share service again.
    var awayUntil: ContinuousClock.Instant?
  }

  /// Users whose lists are remembered; the longest known is dropped first.
  fileprivate static let limit = 10_000
  /// Time that a client waits for a silent share service when a remembered list exists.
  private static let patience: Duration = .seconds(2)
  private static let pause: Duration = .seconds(1)

  private let share: ShareCalls
  private let timing: Timing
  private let state = Mutex(State())

  init(share: ShareCalls, timing: Timing) {
    self.share = share
    self.timing = timing
  }

  /// - Throws: `tryAgainLater` when the share service is away and no list of this user is remembered.
  func zones(of userRecordName: String, _ container: ContainerID, _ environment: Environment) async throws(RecordError)
    -> [FetchSharedZones.Reply.Owner]
  {
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
      // A client's hang-up says nothing about the share service.
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
