// The registrations of sleeping devices that a notifier knows, and the share of them that it wakes.

import Crypto
import ServiceBus

/// All registrations are known to each notifier, and each is woken by one of them.
struct PushRoster: Sendable {
  /// The next page of registrations follows this revision.
  private(set) var revision: Int64 = 0
  private var registrations: [Int64: PushRegistration] = [:]
  /// Names of the notifiers that are there, this one's among them.
  private var notifiers: [String]
  private let name: String

  init(name: String) {
    self.name = name
    notifiers = [name]
  }

  var count: Int { registrations.count }

  subscript(id: Int64) -> PushRegistration? { registrations[id] }

  /// The changes of what this notifier wakes.
  struct Change: Sendable, Equatable {
    var ended: [Int64] = []
    var begun: [PushRegistration] = []
  }

  mutating func apply(_ page: FetchPushRegistrations.Reply) -> Change {
    var change = Change()
    for id in page.ended where registrations.removeValue(forKey: id) != nil { change.ended.append(id) }
    for registration in page.registrations {
      if registrations.updateValue(registration, forKey: registration.id) != nil {
        change.ended.append(registration.id)
      }
      if isOwn(registration.id) { change.begun.append(registration) }
    }
    revision = max(revision, page.revision)
    return change
  }

  mutating func remove(_ id: Int64) { registrations[id] = nil }

  /// Begins anew, because the directory is another one: one restored from a backup counts from an earlier revision.
  mutating func removeAll() -> [Int64] {
    defer {
      registrations = [:]
      revision = 0
    }
    return Array(registrations.keys)
  }

  /// - Parameter others: the names of the other notifiers.
  mutating func share(with others: [String]) -> Change {
    let before = Set(registrations.keys.filter(isOwn))
    notifiers = [name] + others
    let after = Set(registrations.keys.filter(isOwn))
    return Change(
      ended: before.subtracting(after).sorted(),
      begun: after.subtracting(before).sorted().compactMap { registrations[$0] })
  }

  /// True for a registration that this notifier wakes: each notifier ranks all of them for an identifier, and finds the
  /// same one first.
  func isOwn(_ id: Int64) -> Bool {
    notifiers.count == 1 || notifiers.allSatisfy { rank($0, id) <= rank(name, id) }
  }

  private func rank(_ notifier: String, _ id: Int64) -> UInt64 {
    SHA256.hash("\(notifier) \(id)").prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
  }
}
