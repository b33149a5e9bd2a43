// The bound on what runs at a time, and on the part of it that one party has.

/// Elements of many parties that wait for a few lanes. A pure value: its owner calls `next` after each `append` and
/// each `end`, and runs the element that it gets. So no element waits that could run.
///
/// Parties take turns, and each has at most its share of the lanes. The empty party, the server itself, has no share.
public struct Lanes<Element> {
  private let count: Int
  private let share: Int
  private var waiting = TurnQueue<Element>()
  /// Lanes in use, by party.
  private var used: [String: Int] = [:]
  private var usedCount = 0

  /// - Parameters:
  ///   - count: the number of lanes.
  ///   - share: the most lanes of one party.
  public init(_ count: Int, share: Int) {
    self.count = count
    self.share = share
  }

  /// True when no element has a lane or waits for one.
  public var isEmpty: Bool { usedCount == 0 && waiting.isEmpty }
  /// Elements without a lane.
  public var waitingCount: Int { waiting.count }
  public func waitingCount(of party: String) -> Int { waiting.count(of: party) }

  /// True when an element of `party` gets a lane at once.
  public func hasLane(for party: String) -> Bool {
    usedCount < count && (party.isEmpty || used[party, default: 0] < share)
  }

  public mutating func append(_ element: Element, of party: String) { waiting.append(element, of: party) }

  /// Gives a lane to the element whose turn it is; nil when none may have one.
  public mutating func next() -> (element: Element, party: String)? {
    guard usedCount < count else { return nil }
    let next = waiting.popFirst { [used, share] in $0.isEmpty || used[$0, default: 0] < share }
    guard let next else { return nil }
    usedCount += 1
    used[next.party, default: 0] += 1
    return next
  }

  /// Takes back the lane of an element of `party`.
  public mutating func end(_ party: String) {
    usedCount -= 1
    let rest = used[party, default: 0] - 1
    used[party] = rest > 0 ? rest : nil
  }
}

extension Lanes: Sendable where Element: Sendable {}
