// Who waits for something that many want: one after the other, so that nobody's crowd holds up the others.

/// A line for each party; the lines give one element after the other.
///
/// An element waits for at most one of each other party's, and for what its own party put before it. Costs as much as a dictionary's access,
/// however many wait; parties without elements are forgotten.
package struct TurnQueue<Element> {
  private var lines: [String: FIFO<Element>] = [:]
  /// Parties whose lines are not empty, the next one first.
  private var rotation = FIFO<String>()
  package private(set) var count = 0

  package init() {}

  package var isEmpty: Bool { count == 0 }

  /// How many of a party's wait.
  package func count(of party: String) -> Int { lines[party]?.count ?? 0 }

  package mutating func append(_ element: Element, of party: String) {
    if lines[party] == nil { rotation.append(party) }
    lines[party, default: FIFO()].append(element)
    count += 1
  }

  /// Puts an element before all others.
  package mutating func prepend(_ element: Element, of party: String) {
    if lines[party] != nil { rotation.removeAll { $0 == party } }
    rotation.prepend(party)
    lines[party, default: FIFO()].prepend(element)
    count += 1
  }

  /// Takes the next element.
  /// - Parameter mayGo: whether it is a party's turn at all; one that may not go loses it.
  /// - Returns: nil when nobody's turn it is.
  package mutating func popFirst(where mayGo: (_ party: String) -> Bool = { _ in true }) -> (element: Element, party: String)? {
    for _ in 0..<rotation.count {
      guard let party = rotation.popFirst() else { return nil }
      guard mayGo(party), let element = lines[party]?.popFirst() else {
        rotation.append(party)
        continue
      }
      count -= 1
      if lines[party]?.isEmpty == false { rotation.append(party) } else { lines[party] = nil }
      return (element, party)
    }
    return nil
  }

  package mutating func removeAll(of party: String, where isUnwanted: (Element) -> Bool) {
    guard let before = lines[party]?.count else { return }
    lines[party]?.removeAll(where: isUnwanted)
    let rest = lines[party]?.count ?? 0
    count -= before - rest
    guard rest == 0 else { return }
    lines[party] = nil
    rotation.removeAll { $0 == party }
  }
}
