// How the worker of a shared store's user reaches the shards of those who share with him.

import Records
import ServiceBus
import ServiceKit
import Synchronization

/// Somebody who shares zones with a user, or did.
struct SharedOwner: Hashable, Sendable {
  let name: String
  /// At least one zone of his is shared with the user now.
  let isActive: Bool
  /// Of his database, when that changed last.
  var sequence: Int64 = 0
}

/// Who they are.
struct SharedOwnerList: Hashable, Sendable {
  /// Ascending by name.
  var owners: [SharedOwner]
  /// false: it is what was known before: somebody may be missing.
  var isCurrent = true
}

/// Asks the holders of owners' shards, and who the owners are.
protocol Owners: Sendable {
  /// - Parameter limit: the time for all attempts; the request is repeatable.
  /// - Throws: when nobody answered. What the owner's worker refuses is an answer with its status.
  func ask(_ request: GuestRequest, body: [UInt8], within limit: Duration) async throws(RecordError) -> PlaneAnswer
  /// As `ResolveShortGUIDs` is answered: a JSON array.
  func resolve(_ message: ResolveShortGUIDs, within limit: Duration) async throws(RecordError) -> [UInt8]
  /// - Throws: `TRY_AGAIN_LATER` when nobody can tell.
  func owners(sharingWith userRecordName: String, _ container: ContainerID, _ environment: Environment) async throws(RecordError) -> SharedOwnerList
  /// How many shards there are; nil: not known yet.
  var shardCount: Int? { get }
}

/// On the nested lane: the asker's own caller waits on the usual one.
final class OwnersByBus: Owners {
  private struct Key: Hashable {
    let user: String
    let container: ContainerID
    let environment: Environment
  }

  private let calls: ShardCalls
  private let bus: any Bus
  private let cluster: Cluster
  /// For when the share service is away: all are forgotten when more users than `limit` were asked about.
  private let known = Mutex<[Key: [SharedOwner]]>([:])

  /// Owners whose shards did not answer, and until when nobody waits for them again.
  private let away = Mutex<[DatabaseID: ContinuousClock.Instant]>([:])

  private static let limit = 10_000
  private static let silence = Duration.seconds(3)
  private static let deadline = Duration.seconds(2)
  private static let shortWait = Duration.seconds(1)

  init(bus: any Bus, cluster: Cluster, timing: Timing) {
    calls = ShardCalls(bus: bus, cluster: cluster, timing: timing)
    self.bus = bus
    self.cluster = cluster
  }

  var shardCount: Int? { cluster.current.flatMap { $0.shardCount > 0 ? $0.shardCount : nil } }

  func ask(_ request: GuestRequest, body: [UInt8], within limit: Duration) async throws(RecordError) -> PlaneAnswer {
    let database = request.request.database
    let isAway = away.withLock { $0[database].map { $0 > .now } ?? false }
    let answer: Answer<DatabaseRequest.Reply>
    do {
      // Somebody waited in vain a moment ago: everybody else is to have time left for the others.
      answer = try await calls.ask(request, body: body, holderOf: database, within: isAway ? min(limit, Self.shortWait) : limit)
    } catch {
      // Whoever had no time left says nothing of the owner.
      guard isAway || limit >= Self.shortWait else { throw error }
      away.withLock { away in
        if away.count >= Self.limit { away.removeAll() }
        away[database] = .now + Self.silence
      }
      throw error
    }
    if !away.withLock({ $0.isEmpty }) { away.withLock { $0[database] = nil } }
    return PlaneAnswer(
      status: answer.reply.status, contentType: answer.reply.contentType, retryAfter: answer.reply.retryAfter, mayWait: answer.reply.mayWait ?? false,
      body: answer.body)
  }

  func resolve(_ message: ResolveShortGUIDs, within limit: Duration) async throws(RecordError) -> [UInt8] {
    try await calls.ask(GuestResolve(message), holderOf: message.shard, within: limit).body
  }

  /// Asked every time: an invitation that was accepted is in the index by then. While the share service is away what it said last holds.
  func owners(sharingWith userRecordName: String, _ container: ContainerID, _ environment: Environment) async throws(RecordError) -> SharedOwnerList {
    let key = Key(user: userRecordName, container: container, environment: environment)
    do {
      let message = FetchSharedZones(userRecordName: userRecordName, container: container, environment: environment)
      let owners = try await bus.call(message, to: .role(.share), within: Self.deadline).owners.map { owner in
        SharedOwner(name: owner.owner, isActive: owner.zones.contains(where: \.isActive), sequence: owner.zones.map(\.sequence).max() ?? 0)
      }
      known.withLock { known in
        if known.count >= Self.limit { known.removeAll() }
        known[key] = owners
      }
      return SharedOwnerList(owners: owners)
    } catch {
      guard let last = known.withLock({ $0[key] }) else {
        throw RecordError(.tryAgainLater, "Nobody can tell what is shared with the user", retryAfter: RetryPlan.retryAfterSeconds)
      }
      return SharedOwnerList(owners: last, isCurrent: false)
    }
  }
}

/// Where a worker stands alone, as in most tests.
struct NoOwners: Owners {
  var shardCount: Int? { nil }

  func ask(_ request: GuestRequest, body: [UInt8], within limit: Duration) async throws(RecordError) -> PlaneAnswer { throw Self.alone }
  func resolve(_ message: ResolveShortGUIDs, within limit: Duration) async throws(RecordError) -> [UInt8] { throw Self.alone }
  func owners(sharingWith userRecordName: String, _ container: ContainerID, _ environment: Environment) async throws(RecordError) -> SharedOwnerList {
    SharedOwnerList(owners: [])
  }

  private static let alone = RecordError(.tryAgainLater, "No other shard can be reached")
}

extension PlaneAnswer {
  var onBus: Answer<DatabaseRequest.Reply> {
    let reply = DatabaseRequest.Reply(status: status, contentType: contentType, retryAfter: retryAfter, mayWait: mayWait ? true : nil)
    return Answer(reply, body: body)
  }
}
