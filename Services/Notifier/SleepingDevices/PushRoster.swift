// The registrations of sleeping devices that a notifier knows, and the share of them that it wakes.

import Crypto
import ServiceBus

/// All registrations are known to each notifier, and each is woken by one of them.
struct PushRoster: Sendable {
  /// The next page of registrations follows this revision.
  private var revision: Int64 = 0
  private var incarnation: String?
  private var registrations: [Int64: PushRegistration] = [:]
  private var share: Share

  /// The rank of a notifier for a registration.
  typealias Rank = @Sendable (_ notifier: String, _ id: Int64) -> UInt64

  init(name: String, rank: @escaping Rank = PushRoster.rank) { share = Share(of: name, with: [], rank) }

  var count: Int { registrations.count }

  subscript(id: Int64) -> PushRegistration? { registrations[id] }

  /// The changes of what this notifier wakes.
  struct Change: Sendable, Equatable {
    var ended: [Int64] = []
    var begun: [Int64] = []
  }

  /// The question for the next page.
  var question: FetchPushRegistrations { FetchPushRegistrations(after: revision, incarnation: incarnation) }

  mutating func apply(_ page: FetchPushRegistrations.Reply) -> Change {
    var change = Change()
    for id in page.ended where registrations[id] != nil {
      remove(id)
      change.ended.append(id)
    }
    for registration in page.registrations {
      if registrations.updateValue(registration, forKey: registration.id) != nil {
        change.ended.append(registration.id)
      }
      share.rank(registration.id)
      if isOwn(registration.id) { change.begun.append(registration.id) }
    }
    revision = max(revision, page.revision)
    incarnation = page.incarnation
    return change
  }

  /// Forgets a registration, unless another one has its place.
  /// - Returns: the message that ends it in the directory.
  mutating func end(_ registration: PushRegistration) -> EndPushRegistrations? {
    guard registrations[registration.id] == registration else { return nil }
    remove(registration.id)
    return EndPushRegistrations(
      registrations: [.init(id: registration.id, revision: registration.revision)], incarnation: incarnation)
  }

  private mutating func remove(_ id: Int64) {
    registrations[id] = nil
    share.forget(id)
  }

  /// Begins anew, because the directory is another one: one restored from a backup counts from an earlier revision.
  mutating func removeAll() -> [Int64] {
    defer {
      registrations = [:]
      share.forget { _ in true }
      revision = 0
    }
    return Array(registrations.keys)
  }

  /// True for a registration that this notifier wakes.
  func isOwn(_ id: Int64) -> Bool { share.isOwn(id) }

  // MARK: Other notifiers

  /// The share of this notifier among others, before any registration is ranked; nil when the others are those that are
  /// known.
  func newShare(with others: [String]) -> Share? {
    let new = share.among(others)
    return new.notifiers == share.notifiers ? nil : new
  }

  /// The registrations that `share` has not ranked.
  func unranked(in share: Share) -> [Int64] { registrations.keys.filter { !share.hasRanked($0) } }

  /// Takes over a share that has ranked all registrations.
  mutating func adopt(_ share: Share) -> Change {
    let former = self.share
    var change = Change()
    self.share = share
    self.share.forget { registrations[$0] == nil }
    for id in registrations.keys where former.isOwn(id) != share.isOwn(id) {
      if share.isOwn(id) { change.begun.append(id) } else { change.ended.append(id) }
    }
    change.ended.sort()
    change.begun.sort()
    return change
  }
}

extension PushRoster {
  /// The registrations that one of several notifiers wakes: each notifier ranks all of them for an identifier, and
  /// finds the same one first.
  struct Share: Sendable {
    /// Ascending, this one's among them.
    fileprivate let notifiers: [String]
    private let name: String
    private let ranking: Rank
    private var own: [Int64: Bool] = [:]

    fileprivate init(of name: String, with others: [String], _ rank: @escaping Rank) {
      notifiers = (others + [name]).sorted()
      self.name = name
      ranking = rank
    }

    fileprivate func among(_ others: [String]) -> Share { Share(of: name, with: others, ranking) }

    fileprivate func hasRanked(_ id: Int64) -> Bool { own[id] != nil }
    fileprivate func isOwn(_ id: Int64) -> Bool { own[id] ?? false }
    fileprivate mutating func forget(_ id: Int64) { own[id] = nil }
    fileprivate mutating func forget(where isGone: (Int64) -> Bool) { own = own.filter { !isGone($0.key) } }

    mutating func rank(_ id: Int64) {
      guard own[id] == nil else { return }
      let mine = notifiers.count > 1 ? ranking(name, id) : 0
      own[id] = notifiers.allSatisfy { $0 == name || ranking($0, id) <= mine }
    }
  }

  @Sendable static func rank(_ notifier: String, _ id: Int64) -> UInt64 {
    SHA256.hash("\(notifier) \(id)").prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
  }
}
