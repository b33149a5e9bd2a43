// The queue behind every backlog and mailbox: an array that gives up its front cheaply.

package struct FIFO<Element> {
  private var elements: [Element?] = []
  private var head = 0

  package init() {}

  package var isEmpty: Bool { head == elements.count }
  package var count: Int { elements.count - head }

  package mutating func append(_ element: Element) {
    elements.append(element)
  }

  package mutating func prepend(_ element: Element) {
    if head > 0 {
      head -= 1
      elements[head] = element
    } else {
      elements.insert(element, at: 0)
    }
  }

  package mutating func popFirst() -> Element? {
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

  package mutating func removeAll(where isUnwanted: (Element) -> Bool) {
    elements.removeFirst(head)
    head = 0
    elements.removeAll { $0.map(isUnwanted) ?? true }
  }
}
