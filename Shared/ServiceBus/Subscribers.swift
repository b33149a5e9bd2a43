// Streams that deliver every new value to several readers: peers, cluster maps.

/// Streams that yield under their owner's lock, so that values arrive in order.
///
/// They have no `onTermination`: it would take the owner's lock inside a task's cancellation, which holds a lock of
/// that task, while a yield takes the two locks in the opposite order. Instead, a stream without a reader is removed at
/// the next yield.
struct Subscribers<Value: Sendable>: Sendable {
  private var streams: [AsyncStream<Value>.Continuation] = []

  /// The number of streams, ended ones included until the next yield.
  var count: Int { streams.count }

  /// - Parameter stream: a stream that has got the present value already.
  mutating func add(_ stream: AsyncStream<Value>.Continuation) { streams.append(stream) }

  mutating func yield(_ value: Value) {
    streams.removeAll { if case .terminated = $0.yield(value) { true } else { false } }
  }

  mutating func finish() {
    for stream in streams { stream.finish() }
    streams = []
  }
}
