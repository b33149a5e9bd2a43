// A queue that many parties share in turn, so that the backlog of one does not hold up the others.

/// One line for each party. The lines yield one element each in rotation.
///
/// Between two elements of one party, every other party yields at most one. `append` looks its party up once, and
/// taking an element looks nothing up. The queue keeps some empty lines, because most parties come back at once.
@frozen public struct TurnQueue<Element> {
  @frozen @usableFromInline struct Line {
    @usableFromInline let party: String
    @usableFromInline var elements = FIFO<Element>()

    @inlinable init(party: String) { self.party = party }
  }

  @usableFromInline var lines: [Line] = []
  /// Places in `lines`.
  @usableFromInline var places: [String: Int] = [:]
  /// Places of the lines that are not empty, the next one first.
  @usableFromInline var rotation = FIFO<Int>()
  @usableFromInline var emptyCount = 0
  @usableFromInline var total = 0

  /// Beyond this number empty lines are forgotten, once they are half of all lines.
  @usableFromInline static var emptyLimit: Int { 128 }

  @inlinable public init() {}

  @inlinable public var count: Int { total }
  @inlinable public var isEmpty: Bool { total == 0 }
  /// The parties that have a line, empty or not.
  @inlinable public var lineCount: Int { lines.count }

  /// The number of elements of `party` that wait.
  @inlinable public func count(of party: String) -> Int { places[party].map { lines[$0].elements.count } ?? 0 }

  /// - Parameter limit: the most elements of one party; at least 1.
  /// - Returns: false if so many wait; the element was not added then.
  @discardableResult
  @inlinable public mutating func append(_ element: Element, of party: String, atMost limit: Int = .max) -> Bool {
    let place = place(of: party)
    guard lines[place].elements.count < limit else { return false }
    if lines[place].elements.isEmpty {
      rotation.append(place)
      emptyCount -= 1
    }
    lines[place].elements.append(element)
    total += 1
    return true
  }

  /// Puts an element before all others. Its party yields the next element.
  @inlinable public mutating func prepend(_ element: Element, of party: String) {
    let place = place(of: party)
    if lines[place].elements.isEmpty { emptyCount -= 1 } else { rotation.removeAll { $0 == place } }
    rotation.prepend(place)
    lines[place].elements.prepend(element)
    total += 1
  }

  /// Takes the next element.
  /// - Parameter mayGo: whether a party may yield now. The turn of a party that may not passes to the next.
  /// - Returns: the element and its party; nil when no party may yield one.
  @inlinable public mutating func popFirst(where mayGo: (_ party: String) -> Bool = { _ in true }) -> (
    element: Element, party: String
  )? {
    for _ in 0..<rotation.count {
      guard let place = rotation.popFirst() else { return nil }
      let party = lines[place].party
      guard mayGo(party), let element = lines[place].elements.popFirst() else {
        rotation.append(place)
        continue
      }
      total -= 1
      if lines[place].elements.isEmpty { noteEmptyLine() } else { rotation.append(place) }
      return (element, party)
    }
    return nil
  }

  @inlinable public mutating func removeAll(of party: String, where isUnwanted: (Element) -> Bool) {
    guard let place = places[party], !lines[place].elements.isEmpty else { return }
    total -= lines[place].elements.count
    lines[place].elements.removeAll(where: isUnwanted)
    total += lines[place].elements.count
    guard lines[place].elements.isEmpty else { return }
    rotation.removeAll { $0 == place }
    noteEmptyLine()
  }

  /// The place of a party's line, which is made if there is none.
  @inlinable mutating func place(of party: String) -> Int {
    if let place = places[party] { return place }
    places[party] = lines.count
    lines.append(Line(party: party))
    emptyCount += 1
    return lines.count - 1
  }

  @inlinable mutating func noteEmptyLine() {
    emptyCount += 1
    if emptyCount > Self.emptyLimit, emptyCount * 2 > lines.count { forgetEmptyLines() }
  }

  @usableFromInline mutating func forgetEmptyLines() {
    var kept: [Line] = []
    var moved = [Int](repeating: 0, count: lines.count)
    places.removeAll()
    for (place, line) in lines.enumerated() where !line.elements.isEmpty {
      moved[place] = kept.count
      places[line.party] = kept.count
      kept.append(line)
    }
    var turns = FIFO<Int>()
    while let place = rotation.popFirst() { turns.append(moved[place]) }
    (lines, rotation, emptyCount) = (kept, turns, 0)
  }
}

extension TurnQueue.Line: Sendable where Element: Sendable {}
extension TurnQueue: Sendable where Element: Sendable {}
