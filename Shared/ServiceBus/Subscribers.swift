// The streams of those who are told of every new value: peers, cluster maps.

/// Streams that yield under their owner's lock, so that values arrive in their order.
///
/// They have no `onTermination`: it would have to take that lock within a task's cancellation, which holds a lock of the task's own, and
/// whoever yields wants that one, to resume the task, while he holds the owner's. Each would wait for the other. So streams that nobody
/// reads any more are found when they are yielded to.
struct Subscribers<Value: Sendable>: Sendable {
  private var streams: [AsyncStream<Value>.Continuation] = []

  /// How many are kept, those included that ended and were not found yet.
  var count: Int { streams.count }

  /// - Parameter stream: which has had the present value.
  mutating func add(_ stream: AsyncStream<Value>.Continuation) { streams.append(stream) }

  mutating func yield(_ value: Value) {
    streams.removeAll { if case .terminated = $0.yield(value) { true } else { false } }
  }

  /// Ends all streams.
  mutating func finish() {
    for stream in streams { stream.finish() }
    streams = []
  }
}
