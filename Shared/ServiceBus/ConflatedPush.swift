// How hints and maps reach subscribers: acknowledged, and merged while they wait, because PUB/SUB loses what a slow reader misses.

import Queues
import Synchronization

/// Pushes values to subscribers, keeping at most one value a key for each.
///
/// Per subscriber one batch is under way at a time; what changes meanwhile merges. A batch that fails is put back, merged under what
/// came later, and sent again for as long as the subscriber is connected. What a lost subscriber had not acknowledged is dropped: a
/// process that connects (again) starts empty. Memory is bounded by the number of keys, or by `limit`: where every value has a key of its
/// own, nothing merges, and what has waited longest is dropped (and counted) for what comes.
public final class ConflatedPush<Key: Hashable & Sendable, Value: Sendable>: Sendable {
  /// Sends one batch and returns when it is acknowledged.
  public typealias Send = @Sendable (_ peer: Peer, _ values: [Value]) async throws -> Void

  /// A process and what waits for it. One that was restarted is another subscriber. Belongs to the lock.
  private final class Subscriber {
    var peer: Peer
    var pending: [Key: Value] = [:]
    /// Keys of `pending`, the longest waiting first.
    var order = FIFO<Key>()
    /// The task that sends to it; nil while nothing waits.
    var sender: TaskHandle?

    init(_ peer: Peer) { self.peer = peer }

    func `is`(_ other: Peer) -> Bool { peer.incarnation == other.incarnation && peer.name == other.name }
  }

  /// A handful: found by looking through them.
  private let subscribers = Mutex<[Subscriber]>([])
  private let send: Send
  private let key: @Sendable (Value) -> Key
  private let merge: @Sendable (Value, Value) -> Value
  private let limit: Int
  private let dropped = Atomic<Int>(0)
  private let batchCount: Int
  private let spacing: Duration
  private let firstPause: Duration
  private let longestPause: Duration
  private let sleep: @Sendable (Duration) async throws -> Void

  /// - Parameters:
  ///   - limit: keys that wait for one subscriber at most; > 0. nil: any number.
  ///   - batchCount: values in one batch at most.
  ///   - spacing: between an acknowledgement and the next batch: the first change after a quiet moment leaves at once, those that follow
  ///     close behind it travel together.
  ///   - firstPause: after a failure; doubles up to `longestPause`.
  ///   - merge: what a subscriber needs to know of an earlier and a later value of one key.
  public init(
    limit: Int? = nil, batchCount: Int = 1000, spacing: Duration = .zero, firstPause: Duration = .milliseconds(20), longestPause: Duration = .seconds(1),
    sleep: @escaping @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) }, send: @escaping Send,
    key: @escaping @Sendable (Value) -> Key, merge: @escaping @Sendable (_ earlier: Value, _ later: Value) -> Value
  ) {
    self.limit = limit ?? .max
    precondition(self.limit > 0, "at least one key can wait, not \(self.limit)")
    self.batchCount = batchCount
    self.spacing = spacing
    self.sleep = sleep
    self.firstPause = firstPause
    self.longestPause = longestPause
    self.send = send
    self.key = key
    self.merge = merge
  }

  /// The processes to push to from now on: those that left are forgotten with what they had not acknowledged.
  /// - Returns: those that are new; nothing waits for them.
  @discardableResult
  public func subscribers(_ peers: [Peer]) -> [Peer] {
    let (added, lost) = subscribers.withLock { subscribers in
      let lost = subscribers.filter { subscriber in !peers.contains { subscriber.is($0) } }.compactMap(\.sender)
      subscribers.removeAll { subscriber in !peers.contains { subscriber.is($0) } }
      var added: [Peer] = []
      for peer in peers {
        if let known = subscribers.first(where: { $0.is(peer) }) {
          known.peer = peer
        } else {
          subscribers.append(Subscriber(peer))
          added.append(peer)
        }
      }
      return (added, lost)
    }
    for sender in lost { sender.cancel() }
    return added
  }

  /// Queues a value for all subscribers.
  public func push(_ value: Value) {
    let key = key(value)
    let started = subscribers.withLock { subscribers in
      var started: [(Peer, TaskHandle)] = []
      for subscriber in subscribers {
        if let sender = enqueue(value, key, for: subscriber) { started.append((subscriber.peer, sender)) }
      }
      return started
    }
    for (peer, sender) in started { start(peer, sender) }
  }

  /// Queues a value for one subscriber; without effect when it is none.
  public func push(_ value: Value, to peer: Peer) {
    let key = key(value)
    let sender = subscribers.withLock { subscribers in
      subscribers.first { $0.is(peer) }.flatMap { enqueue(value, key, for: $0) }
    }
    if let sender { start(peer, sender) }
  }

  /// How many values wait, by the subscriber's name; a batch under way is not counted.
  public var pendingCounts: [String: Int] {
    subscribers.withLock { subscribers in
      Dictionary(subscribers.map { ($0.peer.name, $0.pending.count) }, uniquingKeysWith: max)
    }
  }

  /// How many values were dropped because more than `limit` waited.
  public var droppedCount: Int { dropped.load(ordering: .relaxed) }

  /// Forgets all subscribers and ends what is under way.
  public func close() { subscribers([]) }

  /// - Returns: a sender to start, when the subscriber has none.
  private func enqueue(_ value: Value, _ key: Key, for subscriber: Subscriber) -> TaskHandle? {
    if let earlier = subscriber.pending.updateValue(value, forKey: key) {
      subscriber.pending[key] = merge(earlier, value)
    } else {
      subscriber.order.append(key)
      dropExcess(of: subscriber)
    }
    guard subscriber.sender == nil else { return nil }
    let sender = TaskHandle()
    subscriber.sender = sender
    return sender
  }

  private func dropExcess(of subscriber: Subscriber) {
    while subscriber.pending.count > limit, let oldest = subscriber.order.popFirst() {
      subscriber.pending[oldest] = nil
      dropped.add(1, ordering: .relaxed)
    }
  }

  private func start(_ peer: Peer, _ sender: TaskHandle) {
    sender.set(Task { [self] in await run(peer) })
  }

  /// Sends batch after batch until nothing waits or the subscriber is gone.
  private func run(_ subscriber: Peer) async {
    var pause = firstPause
    while let (peer, batch) = nextBatch(for: subscriber) {
      var rest = spacing
      do {
        try await send(peer, batch)
        pause = firstPause
      } catch {
        // Not logged here: the bus counts failed calls, and what failed is sent again.
        putBack(batch, for: subscriber)
        rest = max(pause, spacing)
        pause = min(pause * 2, longestPause)
      }
      guard rest > .zero else { continue }
      do {
        try await sleep(rest)
      } catch {
        return
      }
    }
  }

  private func nextBatch(for peer: Peer) -> (Peer, [Value])? {
    subscribers.withLock { subscribers in
      guard let subscriber = subscribers.first(where: { $0.is(peer) }) else { return nil }
      var batch: [Value] = []
      while batch.count < batchCount, let key = subscriber.order.popFirst() {
        if let value = subscriber.pending.removeValue(forKey: key) { batch.append(value) }
      }
      if batch.isEmpty { subscriber.sender = nil }
      return batch.isEmpty ? nil : (subscriber.peer, batch)
    }
  }

  private func putBack(_ batch: [Value], for peer: Peer) {
    subscribers.withLock { subscribers in
      guard let subscriber = subscribers.first(where: { $0.is(peer) }) else { return }
      for value in batch.reversed() {
        let key = key(value)
        if let later = subscriber.pending.updateValue(value, forKey: key) {
          subscriber.pending[key] = merge(value, later)
        } else {
          subscriber.order.prepend(key)
        }
      }
      dropExcess(of: subscriber)
    }
  }
}
