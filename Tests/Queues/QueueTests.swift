import Queues
import Testing

/// A generator with the same numbers in every run.
private struct Seeded: RandomNumberGenerator {
  var state: UInt64
  mutating func next() -> UInt64 {
    state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
    return state ^ (state >> 29)
  }
}

@Suite struct QueueTests {
  @Test func `a queue does what an array does`() {
    var generator = Seeded(state: 3)
    var queue = FIFO<Int>()
    var array: [Int] = []
    for number in 0..<20_000 {
      switch Int.random(in: 0..<(number < 10_000 ? 5 : 9), using: &generator) {
      case 0...2:
        queue.append(number)
        array.append(number)
      case 3 where number.isMultiple(of: 7):
        queue.prepend(number)
        array.insert(number, at: 0)
      case 4 where number.isMultiple(of: 101):
        queue.removeAll { $0.isMultiple(of: 3) }
        array.removeAll { $0.isMultiple(of: 3) }
      default: #expect(queue.popFirst() == (array.isEmpty ? nil : array.removeFirst()))
      }
      #expect(queue.count == array.count)
      #expect(queue.isEmpty == array.isEmpty)
    }
  }

  @Test func `parties take turns, and each one's elements keep their order`() {
    var queue = TurnQueue<Int>()
    for number in 0..<1000 { queue.append(number, of: "flood") }
    queue.append(1000, of: "quiet")
    queue.append(1001, of: "quiet")
    #expect((queue.count(of: "flood"), queue.count(of: "quiet"), queue.count(of: "nobody")) == (1000, 2, 0))
    var taken: [Int] = []
    while let (number, party) = queue.popFirst() {
      #expect(party == (number < 1000 ? "flood" : "quiet"))
      taken.append(number)
    }
    #expect(taken.prefix(4) == [0, 1000, 1, 1001])
    #expect(taken.filter { $0 < 1000 } == Array(0..<1000))
    #expect(queue.isEmpty)
  }

  @Test func `a waiter that may not go is passed over, and keeps its place`() {
    var queue = TurnQueue<Int>()
    for number in 0..<3 { queue.append(number, of: "a") }
    queue.append(9, of: "b")
    #expect(queue.popFirst { $0 != "a" }?.element == 9)
    #expect(queue.popFirst { $0 != "a" } == nil)
    #expect(queue.count == 3)
    #expect(queue.popFirst()?.element == 0)
  }

  @Test(arguments: [7, 700])
  func `turns are what a naive list of lines says, whatever is put in, taken back and left out`(partyCount: Int) {
    var generator = Seeded(state: 11)
    var queue = TurnQueue<Int>()
    var lines: [(party: String, elements: [Int])] = []
    for number in 0..<20_000 {
      let party = "p\(Int.random(in: 0..<partyCount, using: &generator))"
      let place = lines.firstIndex { $0.party == party }
      switch Int.random(in: 0..<(number < 10_000 ? 5 : 9), using: &generator) {
      case 0...2:
        let isFull = place.map { lines[$0].elements.count >= 20 } ?? false
        #expect(queue.append(number, of: party, atMost: 20) == !isFull)
        if isFull { continue }
        if let place { lines[place].elements.append(number) } else { lines.append((party, [number])) }
      case 3 where number.isMultiple(of: 7):
        queue.prepend(number, of: party)
        let line = place.map { lines.remove(at: $0).elements } ?? []
        lines.insert((party, [number] + line), at: 0)
      case 4 where number.isMultiple(of: 11):
        queue.removeAll(of: party) { $0.isMultiple(of: 3) }
        if let place {
          lines[place].elements.removeAll { $0.isMultiple(of: 3) }
          lines.removeAll { $0.elements.isEmpty }
        }
      default:
        let taken = queue.popFirst()
        if lines.isEmpty {
          #expect(taken == nil)
        } else {
          var line = lines.removeFirst()
          #expect(taken?.element == line.elements.removeFirst() && taken?.party == line.party)
          if !line.elements.isEmpty { lines.append(line) }
        }
      }
      #expect(queue.count == lines.reduce(0) { $0 + $1.elements.count })
      #expect(queue.count(of: party) == lines.first { $0.party == party }?.elements.count ?? 0)
    }
  }

  @Test func `parties that went away leave no more than a few empty lines`() {
    var queue = TurnQueue<Int>()
    queue.append(0, of: "waits")
    for number in 1...10_000 {
      queue.append(number, of: "p\(number)")
      queue.append(0, of: "waits")
      #expect(queue.popFirst()?.party == "waits")
      #expect(queue.popFirst()?.element == number)
      #expect(queue.lineCount < 300)
    }
    #expect(queue.count(of: "waits") == 1)
  }

  @Test func `a hashed key is equal to its like, and to no other`() {
    let table: [Hashed<[String]>: Int] = [Hashed(["a", "b"]): 1, Hashed(["a"]): 2]
    #expect(table[Hashed(["a", "b"])] == 1)
    #expect(table[Hashed(["a"])] == 2)
    #expect(table[Hashed(["ab"])] == nil)
  }
}
