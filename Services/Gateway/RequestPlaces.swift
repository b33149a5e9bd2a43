// Limits requests under way per user and container: one user's crowd is refused before it takes the places of
// others.

import Authentication
import HTTPServer
import Queues
import Records
import ServiceBus
import ServiceKit
import Synchronization

/// A sender of requests, as the limits count it.
struct Requester: Hashable, Sendable {
  let container: ContainerID
  /// A user, a server key, or an API token with a network for requests without a user.
  let name: String
}

/// Requests under way. The book is no longer than the number of connections, since every entry stands for open
/// requests.
struct PlaceBook: Sendable {
  struct Limits: Sendable {
    /// Requests of one requester; nil: no limit. Below the bus window of a worker, so that no requester fills it alone.
    var perUser: Int? = 64
    /// Held requests of one requester (`wait`, event streams), which take no place on the bus; nil: no limit.
    var heldPerUser: Int? = 128
    /// Requests of one container that are not held; nil: no limit.
    var perContainer: Int? = 1024
  }

  /// The limit that a request would exceed.
  enum Refusal: String, Sendable {
    case user, held, container
  }

  /// The last quarter of a container's places is kept for requesters with fewer requests under way than this, so that
  /// even a crowd of many users leaves room.
  static let fewCount = 4

  private let limits: Limits
  private var underWay: [Hashed<Requester>: Int] = [:]
  private var held: [Hashed<Requester>: Int] = [:]
  private var containers: [ContainerID: Int] = [:]

  init(limits: Limits) { self.limits = limits }

  /// Requesters with a request under way, plus requesters with a held one.
  var requesterCount: Int { underWay.count + held.count }
  var underWayCount: Int { containers.values.reduce(0, +) }
  var heldCount: Int { held.values.reduce(0, +) }

  /// - Returns: nil when the request has its place.
  mutating func begin(_ requester: Hashed<Requester>, isHeld: Bool) -> Refusal? {
    if isHeld {
      if let limit = limits.heldPerUser, held[requester, default: 0] >= limit { return .held }
      held[requester, default: 0] += 1
      return nil
    }
    let own = underWay[requester, default: 0]
    if let limit = limits.perUser, own >= limit { return .user }
    let limit = limits.perContainer.map { own < Self.fewCount ? $0 : $0 - $0 / 4 } ?? .max
    guard containers[requester.value.container, default: 0].addOne(below: limit) else { return .container }
    underWay[requester] = own + 1
    return nil
  }

  /// Gives back a place that `begin` gave.
  mutating func end(_ requester: Hashed<Requester>, isHeld: Bool) {
    if isHeld { return held.takeOne(requester) }
    underWay.takeOne(requester)
    containers.takeOne(requester.value.container)
  }
}

extension Dictionary where Value == Int {
  fileprivate mutating func takeOne(_ key: Key) {
    guard let place = index(forKey: key) else { return }
    if values[place] == 1 { remove(at: place) } else { values[place] -= 1 }
  }
}

extension Int {
  /// - Returns: false when the count has reached the limit.
  fileprivate mutating func addOne(below limit: Int) -> Bool {
    guard self < limit else { return false }
    self += 1
    return true
  }
}

/// The book for all tasks that answer requests.
final class RequestPlaces: Sendable {
  /// The place of a request, given back when its last reference goes.
  final class Place: Sendable {
    private let giveBack: @Sendable () -> Void
    init(_ giveBack: @escaping @Sendable () -> Void) { self.giveBack = giveBack }
    deinit { giveBack() }
  }

  private let book: Mutex<PlaceBook>

  init(_ limits: PlaceBook.Limits) { book = Mutex(PlaceBook(limits: limits)) }

  var counts: (underWay: Int, held: Int) { book.withLock { ($0.underWayCount, $0.heldCount) } }

  func take(_ requester: Requester, isHeld: Bool) -> Result<Place, PlaceRefused> {
    let requester = Hashed(requester)
    if let refusal = book.withLock({ $0.begin(requester, isHeld: isHeld) }) {
      return .failure(PlaceRefused(refusal: refusal))
    }
    return .success(Place { [self] in book.withLock { $0.end(requester, isHeld: isHeld) } })
  }

  struct PlaceRefused: Error {
    let refusal: PlaceBook.Refusal
  }
}

extension Gateway {
  /// Takes a place for a request whose caller is known; nil for operators, who repair things and need no limit.
  /// - Throws: `throttled`.
  func place(for caller: Caller, _ exchange: IncomingRequest, _ address: Address) throws(RecordError)
    -> RequestPlaces.Place?
  {
    guard caller.member?.role != .operator, let container = address.container else { return nil }
    let name =
      caller.userRecordName ?? caller.member.map { "developer \($0.name)" }
      ?? "\(exchange.authentication?.question.apiToken ?? "") \(exchange.request.clientNetwork)"
    switch places.take(Requester(container: container, name: name), isHeld: exchange.wait == .change) {
    case .success(let place): return place
    case .failure(let error):
      metrics.countThrottled(by: Self.limitName(error.refusal))
      throw RecordError(.throttled, Self.reason(error.refusal), retryAfter: RetryPlan.retryAfterSeconds)
    }
  }

  private static func limitName(_ refusal: PlaceBook.Refusal) -> String {
    switch refusal {
    case .user: "user-requests"
    case .held: "user-waits"
    case .container: "container-requests"
    }
  }

  private static func reason(_ refusal: PlaceBook.Refusal) -> String {
    switch refusal {
    case .user: "You have too many requests under way"
    case .held: "You have too many requests that wait for changes"
    case .container: "The container has too many requests under way"
    }
  }
}
