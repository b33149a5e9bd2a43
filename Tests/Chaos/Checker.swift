// Compares a history with the guarantees. Pure and independent of the product: its oracle is a dictionary.

/// The faults of a history, by kind.
struct Verdict: Sendable {
  enum Fault: String, CaseIterable, Sendable {
    /// An acknowledged save is missing or has another value.
    case lost
    /// A counter is higher than the acknowledged additions, or a transaction is there more than once.
    case appliedTwice
    /// A record is there that was deleted or never saved.
    case unknown
    /// Two saves of a zone have the same change tag, or a client's later save has the smaller one.
    case tags
    /// A feed had an older value after a newer one.
    case order
    /// A feed had one save of a name twice: it was exported twice, or a token went back.
    case toldTwice
    /// A reader that followed its tokens has other data than one that started from the beginning.
    case diverged
    /// A save was refused for good, or a process failed on its own.
    case refused
  }

  private(set) var counts: [Fault: Int] = [:]
  /// The first examples of each kind.
  private(set) var examples: [Fault: [String]] = [:]
  var isClean: Bool { counts.isEmpty }

  static let exampleLimit = 5

  mutating func add(_ fault: Fault, _ text: @autoclosure () -> String) {
    counts[fault, default: 0] += 1
    if examples[fault, default: []].count < Self.exampleLimit { examples[fault, default: []].append(text()) }
  }
}

struct Checker {
  private let history: History
  private var verdict = Verdict()

  static func verdict(on history: History) -> Verdict {
    var checker = Checker(history: history)
    checker.checkFinal()
    checker.checkTags()
    for feed in history.feeds { checker.check(feed) }
    checker.checkLogs()
    for refusal in history.refusals { checker.verdict.add(.refused, refusal) }
    return checker.verdict
  }

  private init(history: History) { self.history = history }

  /// The expected values by database and name.
  static func expected(of saves: [Save]) -> [String: [String: Int64]] {
    var expected: [String: [String: Int64]] = [:]
    // Each name except the counters has one writer whose saves are in order, so the order between clients does not
    // matter.
    for save in saves {
      expected[save.database, default: [:]].apply(save.changes)
    }
    return expected
  }

  private mutating func checkFinal() {
    let expected = Self.expected(of: history.saves)
    for database in Set(expected.keys).union(history.final.keys).sorted() {
      let (should, has) = (expected[database] ?? [:], history.final[database] ?? [:])
      let counters = Set(
        history.saves.lazy.filter { $0.database == database }.flatMap(\.changes).filter { $0.kind == .add }.map(\.name))
      for (name, value) in should.sorted(by: { $0.key < $1.key }) {
        guard let found = has[name] else {
          verdict.add(.lost, "\(database): \(name) is missing, \(value) was acknowledged")
          continue
        }
        if found == value { continue }
        if counters.contains(name), found > value {
          verdict.add(.appliedTwice, "\(database): \(name) is \(found), \(value) additions were acknowledged")
        } else {
          verdict.add(.lost, "\(database): \(name) is \(found), \(value) was acknowledged")
        }
      }
      for name in has.keys.sorted() where should[name] == nil { verdict.add(.unknown, "\(database): \(name) is there") }
    }
  }

  private mutating func checkTags() {
    var owners: [String: [Int64: Int]] = [:]
    var last: [String: Int64] = [:]
    for save in history.saves {
      for tag in save.tags {
        if let other = owners[save.database, default: [:]].updateValue(save.number, forKey: tag) {
          verdict.add(.tags, "\(save.database): saves \(other) and \(save.number) both have the tag \(tag)")
        }
      }
      guard let least = save.tags.min(), let greatest = save.tags.max() else { continue }
      if let before = last[save.client + save.database], least <= before {
        verdict.add(
          .tags, "\(save.database): \(save.client)'s save \(save.number) has the tag \(least) after \(before)")
      }
      last[save.client + save.database] = greatest
    }
  }

  private mutating func check(_ feed: Feed) {
    var copy: [String: Int64] = [:]
    var newest: [String: Int64] = [:]
    var lastTag = Int64.min
    for item in feed.items {
      if let tag = item.tag {
        if tag <= lastTag { verdict.add(.order, "\(feed.reader) received the tag \(tag) after \(lastTag)") }
        lastTag = max(lastTag, tag)
      }
      guard let value = item.value else {
        copy[item.name] = nil
        continue
      }
      if let before = newest[item.name] {
        if value < before { verdict.add(.order, "\(feed.reader) received \(item.name) = \(value) after \(before)") }
        if value == before { verdict.add(.toldTwice, "\(feed.reader) received \(item.name) = \(value) twice") }
      }
      newest[item.name] = max(value, newest[item.name] ?? value)
      copy[item.name] = value
    }
    let final = history.final[feed.database] ?? [:]
    for name in Set(copy.keys).union(final.keys).sorted() where copy[name] != final[name] {
      verdict.add(
        .diverged, "\(feed.reader) has \(name) = \(Self.text(copy[name])), a new reader \(Self.text(final[name]))")
    }
  }

  private mutating func checkLogs() {
    for log in history.logs {
      let acknowledged = history.saves.filter { $0.client == log.client }.map(\.number)
      for (before, number) in zip(log.numbers, log.numbers.dropFirst()) {
        if number == before {
          verdict.add(.appliedTwice, "\(log.client): transaction \(number) is twice in its history")
        }
        if number < before {
          verdict.add(.order, "\(log.client): transaction \(number) is after \(before) in its history")
        }
      }
      let listed = Set(log.numbers)
      for number in acknowledged where !listed.contains(number) {
        verdict.add(.lost, "\(log.client): transaction \(number) is not in its history")
      }
      for number in listed.subtracting(acknowledged).sorted() {
        verdict.add(.unknown, "\(log.client): transaction \(number) is in its history")
      }
    }
  }

  private static func text(_ value: Int64?) -> String { value.map(String.init) ?? "nothing" }
}

extension [String: Int64] {
  mutating func apply(_ changes: [Change]) {
    for change in changes {
      switch change.kind {
      case .put(let value): self[change.name] = value
      case .delete: self[change.name] = nil
      case .add: self[change.name, default: 0] += 1
      }
    }
  }
}

/// Damage done to a history on purpose, to show that the checker finds it.
enum Planted: String, CaseIterable, Sendable {
  case none, loss, repetition

  func spoil(_ history: inout History) {
    switch self {
    case .none: break
    case .loss:
      // Hides the last save whose value is still there.
      for save in history.saves.reversed() {
        guard let change = save.changes.first, case .put(let value) = change.kind,
          history.final[save.database]?[change.name] == value
        else { continue }
        history.final[save.database]?[change.name] = nil
        for index in history.feeds.indices where history.feeds[index].database == save.database {
          history.feeds[index].items.removeAll { $0.name == change.name && $0.value == value }
        }
        return
      }
    case .repetition:
      guard let save = history.saves.last(where: { $0.changes.contains { $0.kind == .add } }),
        let name = save.changes.first?.name
      else { return }
      history.final[save.database]?[name, default: 0] += 1
    }
  }
}
