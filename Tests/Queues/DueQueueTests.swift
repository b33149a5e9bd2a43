import Queues
import Testing

/// The same numbers in each run.
private struct Draws {
  private var state: UInt64 = 7

  mutating func next(below bound: Int) -> Int {
    state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
    return Int((state >> 33) % UInt64(bound))
  }
}

@Suite struct DueQueueTests {
  @Test func `elements come in the order of their times, and those of one time in the order of their addition`() {
    var queue = DueQueue<Int, Int>()
    var oracle: [(time: Int, element: Int)] = []
    var draws = Draws()
    for number in 0..<20_000 {
      if draws.next(below: 9) < (number < 10_000 ? 5 : 4) {
        let time = draws.next(below: 300)
        queue.add(number, at: time)
        oracle.insert((time, number), at: oracle.firstIndex { $0.time > time } ?? oracle.count)
      } else {
        #expect(queue.nextTime == oracle.first?.time)
        let now = draws.next(below: 300)
        let isDue = oracle.first.map { $0.time <= now } ?? false
        let taken = queue.takeFirst(dueAt: now)
        #expect(taken == (isDue ? oracle.removeFirst().element : nil))
      }
    }
    #expect(queue.count == oracle.count)
    while let taken = queue.takeFirst() {
      let expected = oracle.removeFirst()
      #expect(taken.time == expected.time && taken.element == expected.element)
    }
    #expect(oracle.isEmpty)
  }

  @Test func `the earliest element that fits is taken from among the others, which keep their order`() {
    var queue = DueQueue<Int, Int>()
    var oracle: [(time: Int, element: Int)] = []
    var draws = Draws()
    for number in 0..<4000 {
      if draws.next(below: 9) < 5 {
        let time = draws.next(below: 300)
        queue.add(number, at: time)
        oracle.insert((time, number), at: oracle.firstIndex { $0.time > time } ?? oracle.count)
      } else {
        let rest = draws.next(below: 7)
        let taken = queue.takeFirst { $0 % 7 == rest }
        let place = oracle.firstIndex { $0.element % 7 == rest }
        #expect(taken?.element == place.map { oracle.remove(at: $0).element })
      }
    }
    #expect(queue.count == oracle.count && queue.count > 100)
    while let taken = queue.takeFirst() {
      let expected = oracle.removeFirst()
      #expect(taken.time == expected.time && taken.element == expected.element)
    }
    #expect(oracle.isEmpty)
  }
}
