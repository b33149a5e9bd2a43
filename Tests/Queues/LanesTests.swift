import Queues
import Testing

@Suite struct LanesTests {
  /// Adds elements, and takes all that may run.
  private func start(_ lanes: inout Lanes<Int>, _ elements: [(Int, String)]) -> [Int] {
    for (element, party) in elements { lanes.append(element, of: party) }
    var taken: [Int] = []
    while let next = lanes.next() { taken.append(next.element) }
    return taken
  }

  @Test func `a party has its share of the lanes, and the others take turns with the rest`() {
    var lanes = Lanes<Int>(4, share: 2)
    #expect(start(&lanes, [(0, "a"), (1, "a"), (2, "a"), (3, "a")]) == [0, 1])
    #expect(start(&lanes, [(10, "b"), (20, "c"), (30, "d")]) == [10, 20])
    #expect(lanes.waitingCount == 3 && lanes.waitingCount(of: "a") == 2)
    #expect(!lanes.hasLane(for: "d"), "all are in use")
    lanes.end("c")
    #expect(lanes.next().map { [$0.element: $0.party] } == [30: "d"])
    #expect(lanes.next() == nil)
    lanes.end("a")
    #expect(lanes.next()?.element == 2)
    #expect(lanes.next() == nil)
  }

  @Test func `the server itself may have all lanes, and no more`() {
    var lanes = Lanes<Int>(3, share: 1)
    #expect(start(&lanes, (0..<5).map { ($0, "") }) == [0, 1, 2])
    lanes.end("")
    #expect(start(&lanes, [(10, "a")]) == [3])
    lanes.end("")
    #expect(lanes.next()?.element == 10)
  }

  @Test func `lanes are empty once all that ran has ended`() {
    var lanes = Lanes<Int>(2, share: 1)
    #expect(lanes.isEmpty)
    #expect(start(&lanes, [(0, "a"), (1, "a")]) == [0])
    #expect(!lanes.hasLane(for: "a") && lanes.hasLane(for: "b") && lanes.hasLane(for: ""))
    lanes.end("a")
    #expect(!lanes.isEmpty, "one waits")
    #expect(lanes.next()?.element == 1)
    #expect(!lanes.isEmpty, "one runs")
    lanes.end("a")
    #expect(lanes.isEmpty)
  }

  @Test(arguments: [1, 3, 40]) func `no element waits that could run`(partyCount: Int) {
    var generator = SplitMix(state: 5)
    var lanes = Lanes<Int>(8, share: 3)
    var running: [String: Int] = [:]
    var waiting: [String: [Int]] = [:]
    for number in 0..<5000 {
      let ending = running.keys.sorted().randomElement(using: &generator)
      if let ending, Bool.random(using: &generator) {
        lanes.end(ending)
        running[ending] = running[ending].flatMap { $0 > 1 ? $0 - 1 : nil }
      } else {
        let party = "p\(Int.random(in: 0..<partyCount, using: &generator))"
        lanes.append(number, of: party)
        waiting[party, default: []].append(number)
      }
      if let next = lanes.next() {
        #expect(next.element == waiting[next.party]?.removeFirst())
        running[next.party, default: 0] += 1
      }
      let runningCount = running.values.reduce(0, +)
      #expect(runningCount <= 8 && running.values.allSatisfy { $0 <= 3 })
      #expect(runningCount == 8 || waiting.allSatisfy { $0.value.isEmpty || running[$0.key] == 3 })
      #expect(lanes.waitingCount == waiting.values.reduce(0) { $0 + $1.count })
      #expect(lanes.isEmpty == (running.isEmpty && waiting.values.allSatisfy(\.isEmpty)))
    }
  }
}

/// A generator with the same numbers in every run.
private struct SplitMix: RandomNumberGenerator {
  var state: UInt64

  mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var mixed = (state ^ (state >> 30)) &* 0xbf58_476d_1ce4_e5b9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
    return mixed ^ (mixed >> 31)
  }
}
