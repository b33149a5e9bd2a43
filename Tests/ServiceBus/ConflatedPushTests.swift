// Conflated pushes, which lose nothing in the end, however slow or faulty the subscriber is.

import Synchronization
import Testing

@testable import ServiceBus

private struct Change: Sendable, Equatable {
  let zone: Int
  let sequence: Int
}

/// A subscriber that keeps the latest change of each zone, and may stall or fail.
private final class Subscriber: Sendable {
  struct State {
    var latest: [Int: Int] = [:]
    var batchCount = 0
    var longestBatch = 0
    var underWay = 0
    var failureCount = 0
    var isStalled = false
    var waiters: [CheckedContinuation<Void, Never>] = []
  }
  let state = Mutex(State())

  func stall() { state.withLock { $0.isStalled = true } }

  func go() {
    let waiters = state.withLock { state in
      state.isStalled = false
      defer { state.waiters = [] }
      return state.waiters
    }
    for waiter in waiters { waiter.resume() }
  }

  func fail(_ count: Int) { state.withLock { $0.failureCount = count } }

  func take(_ changes: [Change]) async throws {
    state.withLock {
      $0.underWay += 1
      #expect($0.underWay == 1, "one batch at a time")
    }
    defer { state.withLock { $0.underWay -= 1 } }
    await withCheckedContinuation { continuation in
      let goesOn = state.withLock { state in
        if state.isStalled { state.waiters.append(continuation) }
        return !state.isStalled
      }
      if goesOn { continuation.resume() }
    }
    try state.withLock { state in
      state.failureCount -= 1
      if state.failureCount >= 0 { throw BusError(.timedOut, "stalled") }
      state.batchCount += 1
      state.longestBatch = max(state.longestBatch, changes.count)
      for change in changes { state.latest[change.zone] = max(change.sequence, state.latest[change.zone] ?? 0) }
    }
  }

  func reaches(_ expected: [Int: Int]) async {
    await eventually { state.withLock { $0.latest == expected } }
  }
}

private func peer(_ name: String, incarnation: UInt64 = 1) -> Peer {
  Peer(name: name, role: .notifier, incarnation: incarnation, endpoint: "memory://" + name, isReady: true)
}

private func push(to subscribers: [String: Subscriber], batchCount: Int = 1000) -> ConflatedPush<Int, Change> {
  ConflatedPush(
    batchCount: batchCount, firstPause: .milliseconds(1), longestPause: .milliseconds(5),
    send: { peer, changes in try await subscribers[peer.name]?.take(changes) },
    key: { $0.zone }, merge: { earlier, later in later.sequence >= earlier.sequence ? later : earlier })
}

@Suite(.timeLimit(.minutes(2))) struct ConflatedPushTests {
  @Test
  func
    `200 000 changes over 500 zones leave no subscriber behind, and at most one entry a zone waits`()
    async
  {
    let subscribers = ["quick": Subscriber(), "stalled": Subscriber(), "failing": Subscriber()]
    let pushes = push(to: subscribers, batchCount: 100)
    pushes.subscribers(subscribers.keys.sorted().map { peer($0) })
    subscribers["stalled"]?.stall()
    subscribers["failing"]?.fail(5)
    var expected: [Int: Int] = [:]
    for number in 1...200_000 {
      let zone = number &* 7919 % 500
      expected[zone] = number
      pushes.push(Change(zone: zone, sequence: number))
      if number.isMultiple(of: 1000) { #expect(pushes.pendingCounts.values.allSatisfy { $0 <= 500 }) }
    }
    #expect((400...500).contains(pushes.pendingCounts["stalled"] ?? 0))
    subscribers["stalled"]?.go()
    for subscriber in subscribers.values { await subscriber.reaches(expected) }
    #expect(subscribers.values.allSatisfy { $0.state.withLock(\.longestBatch) <= 100 })
    #expect(subscribers["stalled"]?.state.withLock(\.batchCount) ?? 0 <= 7)
  }

  @Test func `a drain waits for the batch under way, and for those behind it without their spacing`() async {
    let subscriber = Subscriber()
    let pushes = ConflatedPush(
      batchCount: 1, spacing: .seconds(3600), send: { _, changes in try await subscriber.take(changes) },
      key: { (change: Change) in change.zone }, merge: { $1 })
    pushes.subscribers([peer("a")])
    subscriber.stall()
    for zone in 1...3 { pushes.push(Change(zone: zone, sequence: 1)) }
    await eventually { subscriber.state.withLock { !$0.waiters.isEmpty } }
    async let drained: Void = pushes.drain(within: .seconds(60))
    await eventually { pushes.isDraining.load(ordering: .relaxed) }
    subscriber.go()
    await drained
    #expect(subscriber.state.withLock(\.latest) == [1: 1, 2: 1, 3: 1])
    pushes.close()
  }

  @Test func `a drain waits for no lost subscriber, and not for ever for one that stalls`() async {
    let (lost, stalled) = (Subscriber(), Subscriber())
    let time = Mutex(ContinuousClock.now)
    let pushes = ConflatedPush(
      absence: .seconds(60), sleep: { pause in time.withLock { $0 += pause } }, now: { time.withLock(\.self) },
      send: { peer, changes in try await (peer.name == "lost" ? lost : stalled).take(changes) },
      key: { (change: Change) in change.zone }, merge: { $1 })
    pushes.subscribers([peer("lost")])
    pushes.subscribers([])
    pushes.push(Change(zone: 1, sequence: 1))
    let began = time.withLock(\.self)
    await pushes.drain(within: .seconds(1))
    #expect(time.withLock(\.self) == began && pushes.pendingCounts == ["lost": 1])
    stalled.stall()
    pushes.subscribers([peer("stalled")])
    pushes.push(Change(zone: 1, sequence: 2))
    await pushes.drain(within: .seconds(1))
    #expect(time.withLock(\.self) - began >= .seconds(1))
    stalled.go()
    await stalled.reaches([1: 2])
    pushes.close()
  }

  @Test func `a failed batch is merged under what came meanwhile`() async {
    let subscriber = Subscriber()
    let pushes = push(to: ["a": subscriber])
    pushes.subscribers([peer("a")])
    subscriber.stall()
    subscriber.fail(1)
    pushes.push(Change(zone: 1, sequence: 1))
    pushes.push(Change(zone: 2, sequence: 1))
    await eventually { subscriber.state.withLock { !$0.waiters.isEmpty } }
    pushes.push(Change(zone: 1, sequence: 5))
    subscriber.go()
    await subscriber.reaches([1: 5, 2: 1])
  }

  @Test func `the first change leaves at once, and those that come before the spacing is over leave together after it`()
    async
  {
    let (subscriber, rest) = (Subscriber(), Subscriber())
    rest.stall()
    let pushes = ConflatedPush<Int, Change>(
      spacing: .seconds(7),
      sleep: { duration in
        #expect(duration == .seconds(7))
        try await rest.take([])
      }, send: { _, changes in try await subscriber.take(changes) }, key: { $0.zone },
      merge: { $1.sequence >= $0.sequence ? $1 : $0 })
    pushes.subscribers([peer("a")])
    pushes.push(Change(zone: 1, sequence: 1))
    await eventually { rest.state.withLock { !$0.waiters.isEmpty } }
    #expect(subscriber.state.withLock(\.latest) == [1: 1])
    for sequence in 2...50 { pushes.push(Change(zone: sequence % 3, sequence: sequence)) }
    #expect(subscriber.state.withLock(\.batchCount) == 1)
    rest.go()
    await subscriber.reaches([0: 48, 1: 49, 2: 50])
    #expect(subscriber.state.withLock(\.batchCount) == 2)
    pushes.close()
  }

  @Test
  func `a batch that is too large goes in halves, and a value that is too large by itself is dropped and counted`()
    async
  {
    let subscriber = Subscriber()
    let pushes = ConflatedPush<Int, Change>(
      firstPause: .milliseconds(1), longestPause: .milliseconds(5),
      send: { _, changes in
        if changes.count > 3 || changes.contains(where: { $0.zone == 7 }) { throw BusError(.tooLarge, "a long batch") }
        try await subscriber.take(changes)
      }, key: { $0.zone }, merge: { $1.sequence >= $0.sequence ? $1 : $0 })
    pushes.subscribers([peer("a")])
    for zone in 1...20 { pushes.push(Change(zone: zone, sequence: zone)) }
    var expected: [Int: Int] = [:]
    for zone in 1...20 where zone != 7 { expected[zone] = zone }
    await subscriber.reaches(expected)
    await eventually { pushes.droppedCount == 1 }
    pushes.push(Change(zone: 7, sequence: 1))
    await eventually { pushes.droppedCount == 2 }
    #expect(pushes.pendingCounts == ["a": 0])
    pushes.close()
  }

  @Test func `a subscriber that left is forgotten with its entries, and one that came back starts empty`() async {
    let subscriber = Subscriber()
    let pushes = push(to: ["a": subscriber])
    #expect(pushes.subscribers([peer("a")]).map(\.name) == ["a"])
    #expect(pushes.subscribers([peer("a")]).isEmpty)
    subscriber.fail(.max)
    pushes.push(Change(zone: 1, sequence: 1))
    #expect(pushes.subscribers([]).isEmpty)
    #expect(pushes.pendingCounts.isEmpty)
    subscriber.fail(0)
    pushes.push(Change(zone: 2, sequence: 2))
    #expect(pushes.subscribers([peer("a", incarnation: 2)]).map(\.incarnation) == [2])
    pushes.push(Change(zone: 4, sequence: 4), to: peer("a", incarnation: 1))
    pushes.push(Change(zone: 3, sequence: 3), to: peer("a", incarnation: 2))
    await subscriber.reaches([3: 3])
    pushes.close()
  }

  /// A clock that the test moves.
  private final class Elapsed: Sendable {
    private let start = ContinuousClock.now
    private let time = Mutex(Duration.zero)
    var now: ContinuousClock.Instant { start + time.withLock { $0 } }
    func set(_ duration: Duration) { time.withLock { $0 = duration } }
  }

  /// A lost subscriber may be away for a minute.
  private func pushes(to subscriber: Subscriber, by clock: Elapsed) -> ConflatedPush<Int, Change> {
    ConflatedPush(
      absence: .seconds(60), firstPause: .milliseconds(1), longestPause: .milliseconds(5), now: { clock.now },
      send: { _, changes in try await subscriber.take(changes) }, key: { $0.zone },
      merge: { $1.sequence >= $0.sequence ? $1 : $0 })
  }

  @Test func `one that was lost for a while finds what it had not acknowledged and what came meanwhile, each once`()
    async
  {
    let (subscriber, clock) = (Subscriber(), Elapsed())
    let pushes = pushes(to: subscriber, by: clock)
    pushes.subscribers([peer("a")])
    // Under way when the process stops, and not acknowledged.
    subscriber.stall()
    subscriber.fail(1)
    pushes.push(Change(zone: 1, sequence: 1))
    await eventually { subscriber.state.withLock { !$0.waiters.isEmpty } }
    #expect(pushes.subscribers([]).isEmpty)
    pushes.push(Change(zone: 2, sequence: 2))
    clock.set(.seconds(59))
    pushes.push(Change(zone: 2, sequence: 3))
    #expect(pushes.subscribers([peer("a")]).map(\.name) == ["a"])
    subscriber.go()
    await subscriber.reaches([1: 1, 2: 3])
    pushes.close()
  }

  @Test(arguments: [(1, 60), (2, 1)]) func `one that was lost for too long, or was started anew, starts empty`(
    incarnation: UInt64, seconds: Int
  ) async {
    let (subscriber, clock) = (Subscriber(), Elapsed())
    let pushes = pushes(to: subscriber, by: clock)
    pushes.subscribers([peer("a")])
    pushes.subscribers([])
    pushes.push(Change(zone: 1, sequence: 1))
    #expect(pushes.pendingCounts == ["a": 1])
    clock.set(.seconds(seconds))
    pushes.subscribers([peer("a", incarnation: incarnation)])
    pushes.push(Change(zone: 2, sequence: 2))
    await subscriber.reaches([2: 2])
    pushes.close()
  }

  @Test func `values that wait for a lost subscriber are bounded`() {
    let pushes = ConflatedPush<Int, Change>(absence: .seconds(60), send: { _, _ in }, key: { $0.zone }, merge: { $1 })
    pushes.subscribers([peer("a")])
    pushes.subscribers([])
    for zone in 0..<ConflatedPush<Int, Change>.absentLimit + 10 { pushes.push(Change(zone: zone, sequence: 1)) }
    #expect(pushes.pendingCounts == ["a": 100_000] && pushes.droppedCount == 10)
    pushes.close()
  }

  @Test
  func
    `with a key for each value, a stalled subscriber keeps the newest up to the limit, and the rest is counted`()
    async
  {
    let subscriber = Subscriber()
    let pushes = ConflatedPush<Int, Change>(
      limit: 10, batchCount: 4, firstPause: .milliseconds(1), longestPause: .milliseconds(5),
      send: { _, changes in try await subscriber.take(changes) },
      key: { $0.zone }, merge: { _, later in later })
    pushes.subscribers([peer("stalled")])
    subscriber.stall()
    for zone in 1...1000 { pushes.push(Change(zone: zone, sequence: 1)) }
    #expect((pushes.pendingCounts["stalled"] ?? 99) <= 10)
    // A push under way waits besides the ten; when it fails, it gives way to later ones.
    subscriber.fail(3)
    subscriber.go()
    await eventually {
      pushes.pendingCounts["stalled"] == 0
        && subscriber.state.withLock { $0.latest.count } + pushes.droppedCount == 1000
    }
    let latest = subscriber.state.withLock { $0.latest }
    #expect(Set(latest.keys).isSuperset(of: 991...1000))
    #expect(latest.count <= 14)
    pushes.close()
  }
}
