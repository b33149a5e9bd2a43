// How hints and maps reach subscribers: acknowledged, and merged while they wait, because PUB/SUB loses what a slow reader misses.

public import Queues
public import Synchronization

/// Pushes values to subscribers, keeping at most one value a key for each.
///
/// Per subscriber one batch is under way at a time; what changes meanwhile merges. A batch that fails is put back, merged under what
/// came later, and sent again for as long as the subscriber is connected. What a lost subscriber had not acknowledged waits for it for as
/// long as `absence` says, because a process that stood still for a moment is lost to the bus and still has those who listen to it; then,
/// or when a process of that name was started anew, it is dropped. Memory is bounded by the number of keys, or by `limit`: where every
/// value has a key of its own, nothing merges, and what has waited longest is dropped (and counted) for what comes.
public final class ConflatedPush<Key: Hashable & Sendable, Value: Sendable>: Sendable {
  /// Sends one batch and returns when it is acknowledged.
  public typealias Send = @Sendable (_ peer: Peer, _ values: [Value]) async throws -> Void

  /// A process and what waits for it. One that was restarted is another subscriber. Belongs to the lock.
  @usableFromInline final class Subscriber {
    @usableFromInline var peer: Peer
    @usableFromInline var pending: [Key: Value] = [:]
    /// Keys of `pending`, the longest waiting first.
    @usableFromInline var order = FIFO<Key>()
    /// The task that sends to it; nil while nothing waits, or when what was under way when it was lost has failed.
    @usableFromInline var sender: TaskHandle?
    /// When it was lost; nil while it is there.
    @usableFromInline var lostAt: ContinuousClock.Instant?

    init(_ peer: Peer) { self.peer = peer }

    @usableFromInline func `is`(_ other: Peer) -> Bool { peer.incarnation == other.incarnation && peer.name == other.name }
  }

  /// A handful, those included that may come back: found by looking through them.
  @usableFromInline let subscribers = Mutex<[Subscriber]>([])
  private let send: Send
  @usableFromInline let key: @Sendable (Value) -> Key
  @usableFromInline let merge: @Sendable (Value, Value) -> Value
  @usableFromInline let limit: Int
  @usableFromInline let dropped = Atomic<Int>(0)
  private let batchCount: Int
  private let spacing: Duration
  private let absence: Duration
  @usableFromInline let now: @Sendable () -> ContinuousClock.Instant
  private let firstPause: Duration
  private let longestPause: Duration
  private let sleep: @Sendable (Duration) async throws -> Void

  /// Keys that wait for a lost subscriber at most; after that it is as if it had been away for too long for the oldest.
  @usableFromInline static var absentLimit: Int { 100_000 }

  /// - Parameters:
  ///   - limit: keys that wait for one subscriber at most; > 0. nil: any number.
  ///   - batchCount: values in one batch at most.
  ///   - spacing: between an acknowledgement and the next batch: the first change after a quiet moment leaves at once, those that follow
  ///     close behind it travel together.
  ///   - absence: for how long a subscriber that was lost may come back and find what waits for it. Meanwhile at most `absentLimit` keys do.
  ///   - firstPause: after a failure; doubles up to `longestPause`.
  ///   - merge: what a subscriber needs to know of an earlier and a later value of one key.
  public init(
    limit: Int? = nil, batchCount: Int = 1000, spacing: Duration = .zero, absence: Duration = .zero,
    firstPause: Duration = .milliseconds(20), longestPause: Duration = .seconds(1),
    sleep: @escaping @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) },
    now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }, send: @escaping Send,
    key: @escaping @Sendable (Value) -> Key, merge: @escaping @Sendable (_ earlier: Value, _ later: Value) -> Value
  ) {
    self.limit = limit ?? .max
    precondition(self.limit > 0, "at least one key can wait, not \(self.limit)")
    self.batchCount = batchCount
    self.spacing = spacing
    self.absence = absence
    self.now = now
    self.sleep = sleep
    self.firstPause = firstPause
    self.longestPause = longestPause
    self.send = send
    self.key = key
    self.merge = merge
  }

  /// The processes to push to from now on.
  /// - Returns: those that are new, and those that are back.
  @discardableResult
  public func subscribers(_ peers: [Peer]) -> [Peer] {
    let now = now()
    let (added, forgotten, started) = subscribers.withLock { subscribers in
      for subscriber in subscribers where subscriber.lostAt == nil && !peers.contains(where: { subscriber.is($0) }) { subscriber.lostAt = now }
      let forgotten = forgetLost(&subscribers, now, successors: peers)
      var added: [Peer] = []
      var started: [(Peer, TaskHandle)] = []
      for peer in peers {
        if let known = subscribers.first(where: { $0.is(peer) }) {
          known.peer = peer
          guard known.lostAt.take() != nil else { continue }
          if let sender = makeSender(of: known) { started.append((peer, sender)) }
        } else {
          subscribers.append(Subscriber(peer))
        }
        added.append(peer)
      }
      return (added, forgotten, started)
    }
    for sender in forgotten { sender.cancel() }
    for (peer, sender) in started { start(peer, sender) }
    return added
  }

  /// Drops those who have been lost for too long, or were started anew: who listened to the process before is not connected to this one.
  /// - Returns: what sends to them, to be cancelled.
  @usableFromInline func forgetLost(_ subscribers: inout [Subscriber], _ now: ContinuousClock.Instant, successors: [Peer]) -> [TaskHandle] {
    var senders: [TaskHandle] = []
    subscribers.removeAll { subscriber in
      guard let lostAt = subscriber.lostAt else { return false }
      guard now - lostAt >= absence || successors.contains(where: { $0.name == subscriber.peer.name && !subscriber.is($0) }) else { return false }
      if let sender = subscriber.sender { senders.append(sender) }
      return true
    }
    return senders
  }

  /// Queues a value for all subscribers.
  @inlinable public func push(_ value: Value) {
    let key = key(value)
    let (started, forgotten) = subscribers.withLock { subscribers in
      let forgotten = subscribers.contains { $0.lostAt != nil } ? forgetLost(&subscribers, now(), successors: []) : []
      var started: [(Peer, TaskHandle)] = []
      for subscriber in subscribers {
        if let sender = enqueue(value, key, for: subscriber) { started.append((subscriber.peer, sender)) }
      }
      return (started, forgotten)
    }
    for sender in forgotten { sender.cancel() }
    for (peer, sender) in started { start(peer, sender) }
  }

  /// Queues a value for one subscriber; without effect when it is none.
  @inlinable public func push(_ value: Value, to peer: Peer) {
    let key = key(value)
    let sender = subscribers.withLock { subscribers in
      subscribers.first { $0.is(peer) }.flatMap { enqueue(value, key, for: $0) }
    }
    if let sender { start(peer, sender) }
  }

  /// How many values wait, by the subscriber's name, lost ones included; a batch under way is not counted.
  public var pendingCounts: [String: Int] {
    subscribers.withLock { subscribers in
      Dictionary(subscribers.map { ($0.peer.name, $0.pending.count) }, uniquingKeysWith: max)
    }
  }

  /// How many values were dropped because more than `limit` waited.
  public var droppedCount: Int { dropped.load(ordering: .relaxed) }

  /// Forgets all subscribers and ends what is under way.
  public func close() {
    let senders = subscribers.withLock { subscribers in
      defer { subscribers = [] }
      return subscribers.compactMap(\.sender)
    }
    for sender in senders { sender.cancel() }
  }

  /// - Returns: a sender to start, when the subscriber has none.
  @inlinable func enqueue(_ value: Value, _ key: Key, for subscriber: Subscriber) -> TaskHandle? {
    if let earlier = subscriber.pending.updateValue(value, forKey: key) {
      subscriber.pending[key] = merge(earlier, value)
    } else {
      subscriber.order.append(key)
      dropExcess(of: subscriber)
    }
    return makeSender(of: subscriber)
  }

  /// - Returns: a sender to start, when one is needed.
  @inlinable func makeSender(of subscriber: Subscriber) -> TaskHandle? {
    guard subscriber.sender == nil, subscriber.lostAt == nil, !subscriber.pending.isEmpty else { return nil }
    let sender = TaskHandle()
    subscriber.sender = sender
    return sender
  }

  @inlinable func dropExcess(of subscriber: Subscriber) {
    let limit = subscriber.lostAt == nil ? limit : min(limit, Self.absentLimit)
    while subscriber.pending.count > limit, let oldest = subscriber.order.popFirst() {
      subscriber.pending[oldest] = nil
      dropped.add(1, ordering: .relaxed)
    }
  }

  @usableFromInline func start(_ peer: Peer, _ sender: TaskHandle) {
    sender.set(Task { [self] in await run(peer, sender) })
  }

  /// Sends batch after batch until nothing waits, or the subscriber is lost or gone.
  private func run(_ subscriber: Peer, _ sender: TaskHandle) async {
    var pause = firstPause
    while let (peer, batch) = nextBatch(for: subscriber, by: sender) {
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

  private func nextBatch(for peer: Peer, by sender: TaskHandle) -> (Peer, [Value])? {
    subscribers.withLock { subscribers in
      guard let subscriber = subscribers.first(where: { $0.is(peer) }), subscriber.sender === sender else { return nil }
      guard subscriber.lostAt == nil else {
        subscriber.sender = nil
        return nil
      }
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
