// Who waits for something that many want: one after the other, so that nobody's crowd holds up the others.

/// A line for each party; the lines give one element after the other.
///
/// An element waits for at most one of each other party's, and for what its own party put before it. Costs as much as a dictionary's access,
/// however many wait; parties without elements are forgotten.
@frozen public struct TurnQueue<Element> {
  @usableFromInline var lines: [String: FIFO<Element>] = [:]
  /// Parties whose lines are not empty, the next one first.
  @usableFromInline var rotation = FIFO<String>()
  @usableFromInline var total = 0

  @inlinable public init() {}

  @inlinable public var count: Int { total }
  @inlinable public var isEmpty: Bool { total == 0 }

  /// How many of a party's wait.
  @inlinable public func count(of party: String) -> Int { lines[party]?.count ?? 0 }

  @inlinable public mutating func append(_ element: Element, of party: String) {
    if lines[party] == nil { rotation.append(party) }
    lines[party, default: FIFO()].append(element)
    total += 1
  }

  /// Puts an element before all others.
  @inlinable public mutating func prepend(_ element: Element, of party: String) {
    if lines[party] != nil { rotation.removeAll { $0 == party } }
    rotation.prepend(party)
    lines[party, default: FIFO()].prepend(element)
    total += 1
  }

  /// Takes the next element.
  /// - Parameter mayGo: whether it is a party's turn at all; one that may not go loses it.
  /// - Returns: nil when nobody's turn it is.
  @inlinable public mutating func popFirst(where mayGo: (_ party: String) -> Bool = { _ in true }) -> (element: Element, party: String)? {
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
