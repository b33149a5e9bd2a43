// How hints and maps reach subscribers: acknowledged, and merged while they wait, because PUB/SUB loses what a slow reader misses.

import Synchronization

/// Pushes values to subscribers, keeping at most one value a key for each.
///
/// Per subscriber one batch is under way at a time; what changes meanwhile merges. A batch that fails is put back, merged under what
/// came later, and sent again for as long as the subscriber is connected. What a lost subscriber had not acknowledged is dropped: a
/// process that connects (again) starts empty. Memory is bounded by the number of keys.
public final class ConflatedPush<Key: Hashable & Sendable, Value: Sendable>: Sendable {
  /// Sends one batch and returns when it is acknowledged.
  public typealias Send = @Sendable (_ peer: Peer, _ values: [Value]) async throws -> Void

  private struct Subscriber {
    var peer: Peer
    var pending: [Key: Value] = [:]
    /// Keys of `pending`, the longest waiting first.
    var order = FIFO<Key>()
    /// The task that sends to it; nil while nothing waits.
    var sender: TaskHandle?
  }

  /// A process and its start: one that was restarted is another subscriber.
  private struct Identity: Hashable {
    let name: String
    let incarnation: UInt64
    init(_ peer: Peer) {
      name = peer.name
      incarnation = peer.incarnation
    }
  }

  private let subscribers = Mutex<[Identity: Subscriber]>([:])
  private let send: Send
  private let key: @Sendable (Value) -> Key
  private let merge: @Sendable (Value, Value) -> Value
  private let batchCount: Int
  private let firstPause: Duration
  private let longestPause: Duration

  /// - Parameters:
  ///   - batchCount: values in one batch at most.
  ///   - firstPause: after a failure; doubles up to `longestPause`.
  ///   - merge: what a subscriber needs to know of an earlier and a later value of one key.
  public init(
    batchCount: Int = 1000, firstPause: Duration = .milliseconds(20), longestPause: Duration = .seconds(1), send: @escaping Send,
    key: @escaping @Sendable (Value) -> Key, merge: @escaping @Sendable (_ earlier: Value, _ later: Value) -> Value
  ) {
    self.batchCount = batchCount
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
      let present = Set(peers.map(Identity.init))
      let lost = subscribers.filter { !present.contains($0.key) }
      for identity in lost.keys { subscribers[identity] = nil }
      var added: [Peer] = []
      for peer in peers {
        if subscribers[Identity(peer)] == nil {
          subscribers[Identity(peer)] = Subscriber(peer: peer)
          added.append(peer)
        } else {
          subscribers[Identity(peer)]?.peer = peer
        }
      }
      return (added, lost.values.compactMap(\.sender))
    }
    for sender in lost { sender.cancel() }
    return added
  }

  /// Queues a value for all subscribers.
  public func push(_ value: Value) {
    let key = key(value)
    let started = subscribers.withLock { subscribers in
      subscribers.keys.compactMap { identity in enqueue(value, key, for: identity, in: &subscribers) }
    }
    for (identity, sender) in started { start(identity, sender) }
  }

  /// Queues a value for one subscriber; without effect when it is none.
  public func push(_ value: Value, to peer: Peer) {
    let key = key(value)
    let started = subscribers.withLock { enqueue(value, key, for: Identity(peer), in: &$0) }
    if let (identity, sender) = started { start(identity, sender) }
  }

  /// How many values wait, by the subscriber's name; a batch under way is not counted.
  public var pendingCounts: [String: Int] {
    subscribers.withLock { subscribers in
      Dictionary(subscribers.map { ($0.key.name, $0.value.pending.count) }, uniquingKeysWith: max)
    }
  }

  /// Forgets all subscribers and ends what is under way.
  public func close() { subscribers([]) }

  /// - Returns: a sender to start, when the subscriber has none.
  private func enqueue(_ value: Value, _ key: Key, for identity: Identity, in subscribers: inout [Identity: Subscriber]) -> (Identity, TaskHandle)? {
    guard subscribers[identity] != nil else { return nil }
    if let earlier = subscribers[identity]?.pending[key] {
      subscribers[identity]?.pending[key] = merge(earlier, value)
    } else {
      subscribers[identity]?.pending[key] = value
      subscribers[identity]?.order.append(key)
    }
    guard subscribers[identity]?.sender == nil else { return nil }
    let sender = TaskHandle()
    subscribers[identity]?.sender = sender
    return (identity, sender)
  }

  private func start(_ identity: Identity, _ sender: TaskHandle) {
    sender.set(Task { [self] in await run(identity) })
  }

  /// Sends batch after batch until nothing waits or the subscriber is gone.
  private func run(_ identity: Identity) async {
    var pause = firstPause
    while let (peer, batch) = nextBatch(for: identity) {
      do {
        try await send(peer, batch)
        pause = firstPause
      } catch {
        // Not logged here: the bus counts failed calls, and what failed is sent again.
        putBack(batch, for: identity)
        do {
          try await Task.sleep(for: pause)
        } catch {
          return
        }
        pause = min(pause * 2, longestPause)
      }
    }
  }

  private func nextBatch(for identity: Identity) -> (Peer, [Value])? {
    subscribers.withLock { subscribers in
      guard var subscriber = subscribers.removeValue(forKey: identity) else { return nil }
      defer { subscribers[identity] = subscriber }
      var batch: [Value] = []
      while batch.count < batchCount, let key = subscriber.order.popFirst() {
        if let value = subscriber.pending.removeValue(forKey: key) { batch.append(value) }
      }
      if batch.isEmpty { subscriber.sender = nil }
      return batch.isEmpty ? nil : (subscriber.peer, batch)
    }
  }

  private func putBack(_ batch: [Value], for identity: Identity) {
    subscribers.withLock { subscribers in
      guard subscribers[identity] != nil else { return }
      for value in batch.reversed() {
        let key = key(value)
        if let later = subscribers[identity]?.pending[key] {
          subscribers[identity]?.pending[key] = merge(value, later)
        } else {
          subscribers[identity]?.pending[key] = value
          subscribers[identity]?.order.prepend(key)
        }
      }
    }
  }
}
