// Elements in the order of their due times: a binary heap.

/// Adding and taking an element cost the logarithm of the count. Elements of one time come in the order of their
/// addition.
public struct DueQueue<Time: Comparable, Element> {
  fileprivate struct Entry {
    let time: Time
    let number: Int
    let element: Element

    func precedes(_ other: Entry) -> Bool { time == other.time ? number < other.number : time < other.time }
  }

  private var heap: [Entry] = []
  private var additionCount = 0

  public init() {}

  public var count: Int { heap.count }
  /// The earliest time; nil when the queue is empty.
  public var nextTime: Time? { heap.first?.time }

  public mutating func add(_ element: Element, at time: Time) {
    heap.append(Entry(time: time, number: additionCount, element: element))
    additionCount += 1
    rise(from: heap.count - 1)
  }

  /// The earliest element.
  public mutating func takeFirst() -> (time: Time, element: Element)? {
    heap.isEmpty ? nil : take(at: 0)
  }

  /// The earliest of the elements that fit. Unlike the others, it looks at each element.
  public mutating func takeFirst(where fits: (Element) -> Bool) -> (time: Time, element: Element)? {
    var first: Int?
    for index in heap.indices where first.map({ heap[index].precedes(heap[$0]) }) ?? true {
      if fits(heap[index].element) { first = index }
    }
    return first.map { take(at: $0) }
  }

  private mutating func take(at index: Int) -> (time: Time, element: Element) {
    heap.swapAt(index, heap.count - 1)
    let taken = heap.removeLast()
    if index < heap.count {
      sink(from: index)
      rise(from: index)
    }
    return (taken.time, taken.element)
  }

  /// The earliest element, if its time has come.
  public mutating func takeFirst(dueAt now: Time) -> Element? {
    guard let next = nextTime, next <= now else { return nil }
    return takeFirst()?.element
  }

  private mutating func rise(from start: Int) {
    var index = start
    while index > 0, heap[index].precedes(heap[(index - 1) / 2]) {
      heap.swapAt(index, (index - 1) / 2)
      index = (index - 1) / 2
    }
  }

  private mutating func sink(from start: Int) {
    var index = start
    while true {
      var earliest = index
      for child in [2 * index + 1, 2 * index + 2] where child < heap.count && heap[child].precedes(heap[earliest]) {
        earliest = child
      }
      if earliest == index { return }
      heap.swapAt(index, earliest)
      index = earliest
    }
  }
}

extension DueQueue.Entry: Sendable where Time: Sendable, Element: Sendable {}
extension DueQueue: Sendable where Time: Sendable, Element: Sendable {}
