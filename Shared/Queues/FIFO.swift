// The queue behind every backlog and mailbox: an array that gives up its front cheaply. Inlinable because it is on hot
// paths: a call into an opaque generic looks up its element's type each time.

@frozen public struct FIFO<Element> {
  @usableFromInline var elements: [Element?] = []
  @usableFromInline var head = 0

  @inlinable public init() {}

  @inlinable public var isEmpty: Bool { head == elements.count }
  @inlinable public var count: Int { elements.count - head }

  @inlinable public mutating func append(_ element: Element) {
    elements.append(element)
  }

  @inlinable public mutating func prepend(_ element: Element) {
    if head > 0 {
      head -= 1
      elements[head] = element
    } else {
      elements.insert(element, at: 0)
    }
  }

  @inlinable public mutating func popFirst() -> Element? {
    guard head < elements.count else { return nil }
    let element = elements[head].take()
    head += 1
    if head == elements.count {
      elements.removeAll(keepingCapacity: head <= 64)
      head = 0
    } else if head >= 64, head * 2 >= elements.count {
      elements.removeFirst(head)
      head = 0
    }
    return element
  }

  @inlinable public mutating func removeAll(where isUnwanted: (Element) -> Bool) {
    elements.removeFirst(head)
    head = 0
    elements.removeAll { $0.map(isUnwanted) ?? true }
  }
}

extension FIFO: Sendable where Element: Sendable {}
