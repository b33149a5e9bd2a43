// Connects the worker of a shared store's user with the shards of the owners who share with that user.

package import Records
package import ServiceBus
package import ServiceKit
import Synchronization
package import ZoneCommit

/// A user who shares zones with another user, or did.
struct SharedOwner: Hashable, Sendable {
  let name: String
  /// The owner shares at least one zone with the user now.
  let isActive: Bool
  /// The sequence of the owner's database at the latest change of the shared zones.
  var sequence: Int64 = 0
}

/// The owners who share with a user.
package struct SharedOwnerList: Hashable, Sendable {
  /// Ascending by name.
  var owners: [SharedOwner]
  /// False for a list from memory, which may lack an owner.
  var isCurrent = true
}

/// Asks the holders of owners' shards, and finds out who the owners are.
package protocol Owners: Sendable {
  /// - Parameter limit: the time for all attempts; the request is repeatable.
  /// - Throws: when there is no answer. A refusal of the owner's worker is an answer with its status.
  func ask(_ request: GuestRequest, body: [UInt8], within limit: Duration) async throws(RecordError) -> PlaneAnswer
  /// Returns the JSON array that answers `ResolveShortGUIDs`.
  func resolve(_ message: ResolveShortGUIDs, within limit: Duration) async throws(RecordError) -> [UInt8]
  /// - Throws: `TRY_AGAIN_LATER` when the share service is away and no earlier list is known.
  func owners(sharingWith userRecordName: String, _ container: ContainerID, _ environment: Environment)
    async throws(RecordError) -> SharedOwnerList
  /// Where databases are; nil while unknown.
  var layout: ShardLayout? { get }
}

/// Calls on the bus's nested lane: the caller of the asking worker waits on the usual lane.
package final class OwnersByBus: Owners {
  private struct Key: Hashable {
    let user: String
    let container: ContainerID
    let environment: Environment
  }

  private let calls: ShardCalls
  private let bus: any Bus
  private let cluster: Cluster
  /// The last known owners, for when the share service is away. The table is emptied when it holds `limit` entries.
  private let known = Mutex<[Key: [SharedOwner]]>([:])

  /// Owners whose shards did not answer, and until when calls to them get the short wait.
  private let away = Mutex<[DatabaseID: ContinuousClock.Instant]>([:])

  private static let limit = 10_000
  private static let silence = Duration.seconds(3)
  private static let deadline = Duration.seconds(2)
  private static let shortWait = Duration.seconds(1)

  package init(bus: any Bus, cluster: Cluster, timing: Timing) {
    calls = ShardCalls(bus: bus, cluster: cluster, timing: timing)
    self.bus = bus
    self.cluster = cluster
  }

  package var layout: ShardLayout? { cluster.layout }

  package func ask(_ request: GuestRequest, body: [UInt8], within limit: Duration) async throws(RecordError)
    -> PlaneAnswer
  {
    let database = request.request.database
    let isAway = away.withLock { $0[database].map { $0 > .now } ?? false }
    let answer: Answer<DatabaseRequest.Reply>
    do {
      // An earlier call waited in vain: this one keeps time for the other owners.
      answer = try await calls.ask(
        request, body: body, holderOf: database, within: isAway ? min(limit, Self.shortWait) : limit)
    } catch {
      // A call with too little time left proves nothing about the owner.
      guard isAway || limit >= Self.shortWait else { throw error }
      away.withLock { away in
        if away.count >= Self.limit { away.removeAll() }
        away[database] = .now + Self.silence
      }
      throw error
    }
    if !away.withLock({ $0.isEmpty }) { away.withLock { $0[database] = nil } }
    return PlaneAnswer(
      status: answer.reply.status, contentType: answer.reply.contentType, retryAfter: answer.reply.retryAfter,
      mayWait: answer.reply.mayWait ?? false, error: answer.reply.error, body: answer.body)
  }

  package func resolve(_ message: ResolveShortGUIDs, within limit: Duration) async throws(RecordError) -> [UInt8] {
    try await calls.ask(GuestResolve(message), holderOf: message.shard, within: limit).body
  }

  /// Asks every time, so that an invitation just accepted counts. The last list holds while the share service is away.
  package func owners(sharingWith userRecordName: String, _ container: ContainerID, _ environment: Environment)
    async throws(RecordError) -> SharedOwnerList
  {
    let key = Key(user: userRecordName, container: container, environment: environment)
    do {
      let message = FetchSharedZones(userRecordName: userRecordName, container: container, environment: environment)
      let owners = try await bus.call(message, to: .role(.share), within: Self.deadline).owners.map { owner in
        SharedOwner(
          name: owner.owner, isActive: owner.zones.contains(where: \.isActive),
          sequence: owner.zones.map(\.sequence).max() ?? 0)
      }
      known.withLock { known in
        if known.count >= Self.limit { known.removeAll() }
        known[key] = owners
      }
      return SharedOwnerList(owners: owners)
    } catch {
      guard let last = known.withLock({ $0[key] }) else {
        throw RecordError(
          .tryAgainLater, "The zones that are shared with the user are not known at the moment",
          retryAfter: RetryPlan.retryAfterSeconds)
      }
      return SharedOwnerList(owners: last, isCurrent: false)
    }
  }
}

/// The owners of a worker that stands alone, as in most tests.
struct NoOwners: Owners {
  var layout: ShardLayout? { nil }

  func ask(_ request: GuestRequest, body: [UInt8], within limit: Duration) async throws(RecordError) -> PlaneAnswer {
    throw Self.alone
  }
  func resolve(_ message: ResolveShortGUIDs, within limit: Duration) async throws(RecordError) -> [UInt8] {
    throw Self.alone
  }
  func owners(sharingWith userRecordName: String, _ container: ContainerID, _ environment: Environment)
    async throws(RecordError) -> SharedOwnerList
  {
    SharedOwnerList(owners: [])
  }

  private static let alone = RecordError(.tryAgainLater, "No other shard can be reached")
}

extension PlaneAnswer {
  package var onBus: Answer<DatabaseRequest.Reply> {
    let reply = DatabaseRequest.Reply(
      status: status, contentType: contentType, retryAfter: retryAfter, mayWait: mayWait ? true : nil, error: error)
    return Answer(reply, body: body)
  }
}
