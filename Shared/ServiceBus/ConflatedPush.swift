// Pushes hints and maps to subscribers: acknowledged, and merged while they wait, because PUB/SUB loses values of slow
// readers.

public import Queues
public import Synchronization

/// Pushes values to subscribers and keeps at most one waiting value per key for each of them.
///
/// One batch per subscriber is under way at a time, and values that arrive meanwhile merge. A failed batch is put back
/// beneath later values and sent again while the subscriber is connected; one that is too large goes in halves. A lost
/// subscriber's values wait for `absence`, because a process that stood still for a moment still has its own listeners;
/// they are dropped then, or when a process of that name starts anew. The number of keys bounds the memory, or else
/// `limit`: where every value has a key of its own nothing merges, and the oldest values are dropped and counted.
public final class ConflatedPush<Key: Hashable & Sendable, Value: Sendable>: Sendable {
  /// Sends one batch; it returns when the subscriber has acknowledged it.
  public typealias Send = @Sendable (_ peer: Peer, _ values: [Value]) async throws -> Void

  /// A process and the values that wait for it; a restarted process is another subscriber. The lock protects it.
  @usableFromInline final class Subscriber {
    @usableFromInline var peer: Peer
    @usableFromInline var pending: [Hashed<Key>: Value] = [:]
    /// Keys of `pending`, in the order in which they began to wait.
    @usableFromInline var order = FIFO<Hashed<Key>>()
    /// The task that sends to the subscriber; nil while nothing waits, or after a batch failed because the subscriber
    /// was lost.
    @usableFromInline var sender: TaskHandle?
    /// The time when the subscriber was lost; nil while it is connected.
    @usableFromInline var lostAt: ContinuousClock.Instant?

    init(_ peer: Peer) { self.peer = peer }

    @usableFromInline func `is`(_ other: Peer) -> Bool {
      peer.incarnation == other.incarnation && peer.name == other.name
    }
  }

  /// A handful of subscribers, lost ones included, so that a linear search is enough.
  @usableFromInline let subscribers = Mutex<[Subscriber]>([])
  @usableFromInline let send: Send
  @usableFromInline let key: @Sendable (Value) -> Key
  @usableFromInline let merge: @Sendable (Value, Value) -> Value
  @usableFromInline let limit: Int
  @usableFromInline let dropped = Atomic<Int>(0)
  /// Set once the process is about to end: batches follow each other without a pause then.
  @usableFromInline let isDraining = Atomic<Bool>(false)
  @usableFromInline let batchCount: Int
  @usableFromInline let spacing: Duration
  private let absence: Duration
  @usableFromInline let now: @Sendable () -> ContinuousClock.Instant
  @usableFromInline let firstPause: Duration
  @usableFromInline let longestPause: Duration
  @usableFromInline let sleep: @Sendable (Duration) async throws -> Void

  private static var drainPause: Duration { .milliseconds(2) }

  /// The number of keys that may wait for a lost subscriber; the oldest are dropped beyond it.
  @usableFromInline static var absentLimit: Int { 100_000 }

  /// - Parameters:
  ///   - limit: the number of keys that may wait for one subscriber; > 0. nil: any number.
  ///   - batchCount: the number of values in one batch at most.
  ///   - spacing: the time between an acknowledgement and the next batch. A first change leaves at once; changes close
  ///     behind it travel together.
  ///   - absence: the time for which a lost subscriber's values wait for its return, at most `absentLimit` keys of
  ///     them.
  ///   - firstPause: the pause after a failure; it doubles up to `longestPause`.
  ///   - merge: combines an earlier and a later value of one key.
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

  /// Sets the processes to push to.
  /// - Returns: the processes that joined or came back.
  @discardableResult
  public func subscribers(_ peers: [Peer]) -> [Peer] {
    let now = now()
    let (added, forgotten, started) = subscribers.withLock { subscribers in
      for subscriber in subscribers where subscriber.lostAt == nil && !peers.contains(where: { subscriber.is($0) }) {
        subscriber.lostAt = now
      }
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

  /// Drops subscribers that were lost for too long, or whose process started anew: its listeners are not connected to
  /// the new one.
  /// - Returns: their senders, for the caller to cancel.
  @usableFromInline func forgetLost(
    _ subscribers: inout [Subscriber], _ now: ContinuousClock.Instant, successors: [Peer]
  ) -> [TaskHandle] {
    var senders: [TaskHandle] = []
    subscribers.removeAll { subscriber in
      guard let lostAt = subscriber.lostAt else { return false }
      guard
        now - lostAt >= absence || successors.contains(where: { $0.name == subscriber.peer.name && !subscriber.is($0) })
      else { return false }
      if let sender = subscriber.sender { senders.append(sender) }
      return true
    }
    return senders
  }

  /// Queues a value for all subscribers.
  @inlinable public func push(_ value: Value) {
    let key = Hashed(key(value))
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

  /// Queues a value for one subscriber; has no effect for other processes.
  @inlinable public func push(_ value: Value, to peer: Peer) {
    let key = Hashed(key(value))
    let sender = subscribers.withLock { subscribers in
      subscribers.first { $0.is(peer) }.flatMap { enqueue(value, key, for: $0) }
    }
    if let sender { start(peer, sender) }
  }

  /// The number of waiting values by the subscriber's name, for lost subscribers too; without the batch under way.
  public var pendingCounts: [String: Int] {
    subscribers.withLock { subscribers in
      Dictionary(subscribers.map { ($0.peer.name, $0.pending.count) }, uniquingKeysWith: max)
    }
  }

  /// The number of values dropped because more than `limit` waited, or because they are too large for a message.
  public var droppedCount: Int { dropped.load(ordering: .relaxed) }

  /// Sends what waits, from now on without spacing. Returns once every connected subscriber has acknowledged all that
  /// was pushed, or the time is over. Called before the process leaves the bus.
  public func drain(within limit: Duration) async {
    isDraining.store(true, ordering: .relaxed)
    let end = now() + limit
    while !isIdle, now() < end {
      // Dropped because a cancelled task need not wait.
      guard (try? await sleep(Self.drainPause)) != nil else { return }
    }
  }

  /// Nothing waits for a connected subscriber, and no batch is under way to one.
  private var isIdle: Bool {
    subscribers.withLock { $0.allSatisfy { $0.lostAt != nil || $0.sender == nil && $0.pending.isEmpty } }
  }

  /// Removes all subscribers and cancels their senders.
  public func close() {
    let senders = subscribers.withLock { subscribers in
      defer { subscribers = [] }
      return subscribers.compactMap(\.sender)
    }
    for sender in senders { sender.cancel() }
  }

  /// - Returns: a sender to start, if the subscriber has none.
  @inlinable func enqueue(_ value: Value, _ key: Hashed<Key>, for subscriber: Subscriber) -> TaskHandle? {
    if let earlier = subscriber.pending.updateValue(value, forKey: key) {
      subscriber.pending[key] = merge(earlier, value)
    } else {
      subscriber.order.append(key)
      dropExcess(of: subscriber)
    }
    return makeSender(of: subscriber)
  }

  /// - Returns: a sender to start, if one is needed.
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

  @inlinable func start(_ peer: Peer, _ sender: TaskHandle) {
    sender.set(Task { [self] in await run(peer, sender) })
  }

  /// Sends batches until nothing waits, or until the subscriber is lost or removed.
  @inlinable func run(_ subscriber: Peer, _ sender: TaskHandle) async {
    var pause = firstPause
    var count = batchCount
    while let (peer, batch) = nextBatch(of: count, for: subscriber, by: sender) {
      var rest = spacing
      do {
        try await send(peer, batch)
        if isDraining.load(ordering: .relaxed) { rest = .zero }
        pause = firstPause
        count = min(count * 2, batchCount)
      } catch let error as BusError where error.code == .tooLarge {
        // The same batch would fail for ever. A value that fails by itself is dropped.
        count = batch.count / 2
        if count > 0 { putBack(batch, for: subscriber) } else { dropped.add(1, ordering: .relaxed) }
        count = max(count, 1)
      } catch {
        // Not logged here: the bus counts failed calls, and the batch is sent again.
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

  @inlinable func nextBatch(of count: Int, for peer: Peer, by sender: TaskHandle) -> (Peer, [Value])? {
    subscribers.withLock { subscribers in
      guard let subscriber = subscribers.first(where: { $0.is(peer) }), subscriber.sender === sender else { return nil }
      guard subscriber.lostAt == nil else {
        subscriber.sender = nil
        return nil
      }
      var batch: [Value] = []
      while batch.count < count, let key = subscriber.order.popFirst() {
        if let value = subscriber.pending.removeValue(forKey: key) { batch.append(value) }
      }
      if batch.isEmpty { subscriber.sender = nil }
      return batch.isEmpty ? nil : (subscriber.peer, batch)
    }
  }

  @inlinable func putBack(_ batch: [Value], for peer: Peer) {
    subscribers.withLock { subscribers in
      guard let subscriber = subscribers.first(where: { $0.is(peer) }) else { return }
      for value in batch.reversed() {
        let key = Hashed(key(value))
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
