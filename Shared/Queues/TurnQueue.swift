// A queue that many parties share in turn, so that the backlog of one does not hold up the others.

/// One line for each party. The lines yield one element each in rotation.
///
/// Between two elements of one party, every other party yields at most one. Each operation costs one dictionary access,
/// except `prepend` and `removeAll`. The queue forgets a party that has no elements.
@frozen public struct TurnQueue<Element> {
  @usableFromInline var lines: [String: FIFO<Element>] = [:]
  /// Parties whose lines are not empty, the next one first.
  @usableFromInline var rotation = FIFO<String>()
  @usableFromInline var total = 0

  @inlinable public init() {}

  @inlinable public var count: Int { total }
  @inlinable public var isEmpty: Bool { total == 0 }

  /// The number of elements of `party` that wait.
  @inlinable public func count(of party: String) -> Int { lines[party]?.count ?? 0 }

  @inlinable public mutating func append(_ element: Element, of party: String) {
    if lines[party] == nil { rotation.append(party) }
    lines[party, default: FIFO()].append(element)
    total += 1
  }

  /// Puts an element before all others. Its party yields the next element.
  @inlinable public mutating func prepend(_ element: Element, of party: String) {
    if lines[party] != nil { rotation.removeAll { $0 == party } }
    rotation.prepend(party)
    lines[party, default: FIFO()].prepend(element)
    total += 1
  }

  /// Takes the next element.
  /// - Parameter mayGo: whether a party may yield now. The turn of a party that may not passes to the next.
  /// - Returns: the element and its party; nil when no party may yield one.
  @inlinable public mutating func popFirst(where mayGo: (_ party: String) -> Bool = { _ in true }) -> (
    element: Element, party: String
  )? {
    for _ in 0..<rotation.count {
      guard let party = rotation.popFirst() else { return nil }
      guard mayGo(party), let element = lines[party]?.popFirst() else {
        rotation.append(party)
        continue
      }
      total -= 1
      if lines[party]?.isEmpty == false { rotation.append(party) } else { lines[party] = nil }
      return (element, party)
    }
    return nil
  }

  @inlinable public mutating func removeAll(of party: String, where isUnwanted: (Element) -> Bool) {
    guard let before = lines[party]?.count else { return }
    lines[party]?.removeAll(where: isUnwanted)
    let rest = lines[party]?.count ?? 0
    total -= before - rest
    guard rest == 0 else { return }
    lines[party] = nil
    rotation.removeAll { $0 == party }
  }
}

extension TurnQueue: Sendable where Element: Sendable {}
