// How many requests are under way at a time, for whom: a user's crowd is told to come later before it takes the places of others.

import Authentication
import HTTPServer
import Records
import ServiceBus
import ServiceKit
import Synchronization

/// Who sends requests, as those under way are counted.
struct Requester: Hashable, Sendable {
  let container: ContainerID
  /// A user, a server key, or the address that an app's users without a name come from.
  let name: String
}

/// Requests under way. A value: every entry stands for requests that are, so that it is no longer than connections are many.
struct PlaceBook: Sendable {
  struct Limits: Sendable {
    /// Requests of one requester; nil: any number. Fewer than a worker's window on the bus takes, so that nobody fills it alone.
    var perUser: Int? = 64
    /// Requests of one requester that ask to be held (`wait`, streams of events): they take no place on the bus while they are.
    var heldPerUser: Int? = 128
    /// Requests of one container that are not held.
    var perContainer: Int? = 1024
  }

  /// What there is no further place for.
  enum Refusal: String, Sendable {
    case user, held, container
  }

  /// The last quarter of a container's places is for requesters with fewer than that many under way: a crowd of many users leaves room, too.
  static let fewCount = 4

  private let limits: Limits
  private var underWay: [Requester: Int] = [:]
  private var held: [Requester: Int] = [:]
  private var containers: [ContainerID: Int] = [:]

  init(limits: Limits) { self.limits = limits }

  /// Requesters of which something is under way or held.
  var requesterCount: Int { underWay.count + held.count }
  var underWayCount: Int { containers.values.reduce(0, +) }
  var heldCount: Int { held.values.reduce(0, +) }

  /// - Returns: nil when it has its place.
  mutating func begin(_ requester: Requester, isHeld: Bool) -> Refusal? {
    if isHeld {
      if let limit = limits.heldPerUser, held[requester, default: 0] >= limit { return .held }
      held[requester, default: 0] += 1
      return nil
    }
    let own = underWay[requester, default: 0]
    if let limit = limits.perUser, own >= limit { return .user }
    if let limit = limits.perContainer {
      let count = containers[requester.container, default: 0]
      guard count < (own < Self.fewCount ? limit : limit - limit / 4) else { return .container }
    }
    underWay[requester, default: 0] += 1
    containers[requester.container, default: 0] += 1
    return nil
  }

  /// Gives back a place that `begin` gave.
  mutating func end(_ requester: Requester, isHeld: Bool) {
    if isHeld { return held.takeOne(requester) }
    underWay.takeOne(requester)
    containers.takeOne(requester.container)
  }
}

extension Dictionary where Value == Int {
  fileprivate mutating func takeOne(_ key: Key) {
    guard let count = self[key] else { return }
    self[key] = count == 1 ? nil : count - 1
  }
}

/// The book, for all tasks that answer requests.
final class RequestPlaces: Sendable {
  /// A request's place, given back when nobody holds it any more.
  final class Place: Sendable {
    private let giveBack: @Sendable () -> Void
    fileprivate init(_ giveBack: @escaping @Sendable () -> Void) { self.giveBack = giveBack }
    deinit { giveBack() }
  }

  private let book: Mutex<PlaceBook>

  init(_ limits: PlaceBook.Limits) { book = Mutex(PlaceBook(limits: limits)) }

  var counts: (underWay: Int, held: Int) { book.withLock { ($0.underWayCount, $0.heldCount) } }

  func take(_ requester: Requester, isHeld: Bool) -> Result<Place, PlaceRefused> {
    if let refusal = book.withLock({ $0.begin(requester, isHeld: isHeld) }) { return .failure(PlaceRefused(refusal: refusal)) }
    return .success(Place { [self] in book.withLock { $0.end(requester, isHeld: isHeld) } })
  }

  struct PlaceRefused: Error {
    let refusal: PlaceBook.Refusal
  }
}

extension Gateway {
  /// The place of a request whose caller is known; nil for operators, who look after what goes wrong.
  /// - Throws: `throttled`.
  func place(for caller: Caller, _ exchange: Exchange, _ match: RouteMatch, _ address: Address) throws(RecordError) -> RequestPlaces.Place? {
    guard !caller.isOperator, let container = address.container else { return nil }
    let name = caller.userRecordName ?? "\(exchange.authentication?.question.apiToken ?? "") \(exchange.request.remoteAddress)"
    switch places.take(Requester(container: container, name: name), isHeld: Self.isHeld(exchange.request, match)) {
    case .success(let place): return place
    case .failure(let error):
      metrics.countThrottled(by: Self.limitName(error.refusal))
      throw RecordError(.throttled, Self.reason(error.refusal), retryAfter: RetryPlan.retryAfterSeconds)
    }
  }

  /// Whether the client asks to wait until something happens: then nobody works for it most of the time.
  private static func isHeld(_ request: HTTPRequest, _ match: RouteMatch) -> Bool {
    guard match.route.target == .objectPlane, request.method == .get else { return false }
    return wantsStream(request) || request.query("wait").map { $0 != "0" } ?? false
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
    case .user: "You have as many requests under way as you may"
    case .held: "You have as many requests waiting for changes as you may"
    case .container: "The container has as many requests under way as it may"
    }
  }
}
