// The closed loop: a few clients that each send their next request when the last is answered.

import Glibc

/// What one run measured.
struct Measurement: Sendable {
  /// Of answers within the measured time, microseconds.
  var latencies: [UInt32] = []
  /// Answers before that.
  var warmUpCount = 0
  var errorCount = 0
  /// The first answer that was an error, or what broke.
  var firstError: String?
  /// Measured, not asked for.
  var seconds = 0.0

  mutating func merge(_ other: Measurement) {
    latencies += other.latencies
    warmUpCount += other.warmUpCount
    errorCount += other.errorCount
    firstError = firstError ?? other.firstError
    seconds = max(seconds, other.seconds)
  }

  mutating func note(_ error: String) {
    errorCount += 1
    firstError = firstError ?? error
  }

  /// Adds the time since `start`.
  mutating func add(since start: UInt64, until now: UInt64 = Connections.now()) { latencies.append(UInt32(clamping: (now - start) / 1000)) }
}

/// When a run is over.
struct RunLength: Sendable {
  var seconds: Double
  /// Of each loop, errors included; then nothing is warmed up.
  var answerLimit: Int?
}

/// Drives its clients for a while. Lives on one thread.
struct ClosedLoop: ~Copyable {
  private var connections = Connections()
  private var makers: [RequestMaker]
  private var measurement = Measurement()
  private let length: RunLength

  private static let warmUp: UInt64 = 500_000_000
  /// A run with nothing but errors ends early.
  private static let errorLimit = 2000

  init(_ target: Target, _ makers: [RequestMaker], _ length: RunLength) {
    self.makers = makers
    self.length = length
    for _ in makers { _ = connections.add(target) }
  }

  mutating func run() -> Measurement {
    let start = Connections.now()
    let measureFrom = length.answerLimit == nil ? start + min(Self.warmUp, UInt64(length.seconds * 0.25e9)) : start
    let end = measureFrom + UInt64(length.seconds * 1e9)
    let answerLimit = length.answerLimit ?? .max
    for index in makers.indices { sendNext(index) }
    while Connections.now() < end, measurement.latencies.count + measurement.errorCount < answerLimit {
      if measurement.errorCount > Self.errorLimit, measurement.latencies.isEmpty { break }
      for (index, event) in connections.events(until: end) {
        switch event {
        case .answered(isSuccess: true):
          let now = Connections.now()
          if now < measureFrom { measurement.warmUpCount += 1 } else if now < end { measurement.add(since: connections.started(index), until: now) }
        case .answered: measurement.note(connections.reader(of: index).beginning)
        case .received: break
        case .failed(let reason):
          measurement.note(reason)
          // Tries again with the next request, unless it can't even connect.
          if reason.hasPrefix("connect") || measurement.errorCount > Self.errorLimit { continue }
        }
        sendNext(index)
      }
    }
    let stopped = min(Connections.now(), end)
    measurement.seconds = stopped > measureFrom ? Double(stopped - measureFrom) / 1e9 : 0
    return measurement
  }

  private mutating func sendNext(_ index: Int) {
    makers[index].advance()
    connections.send(index, makers[index].request)
  }
}

/// Runs closed loops on threads of their own and adds up what they measured.
func runClosedLoops(_ target: Target, _ makers: [RequestMaker], threadCount: Int, length: RunLength) async -> Measurement {
  await withTaskGroup { group in
    for thread in 0..<min(threadCount, makers.count) {
      let share = makers.indices.filter { $0 % threadCount == thread }.map { makers[$0] }
      group.addTask {
        await onOwnThread {
          var loop = ClosedLoop(target, share, length)
          return loop.run()
        }
      }
    }
    var sum = Measurement()
    for await measurement in group { sum.merge(measurement) }
    return sum
  }
}

/// Runs something that blocks where it holds up nobody.
func onOwnThread<Value: Sendable>(_ body: @escaping @Sendable () -> Value) async -> Value {
  await withCheckedContinuation { continuation in
    let job = ThreadJob { continuation.resume(returning: body()) }
    var thread = pthread_t()
    let created = pthread_create(
      &thread, nil,
      { context in
        guard let context else { return nil }
        Unmanaged<ThreadJob>.fromOpaque(context).takeRetainedValue().run()
        return nil
      }, Unmanaged.passRetained(job).toOpaque())
    precondition(created == 0, "no thread is left for the load generator (error \(created))")
    pthread_detach(thread)
  }
}

private final class ThreadJob: Sendable {
  let run: @Sendable () -> Void
  init(_ run: @escaping @Sendable () -> Void) { self.run = run }
}
