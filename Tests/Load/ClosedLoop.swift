// A few clients that each send their next request when the last is answered, and at a rate not before its time.

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

/// When each client sends.
enum Pace: Hashable, Sendable {
  /// As soon as the request before is answered.
  case closed
  /// So many requests a second of all clients together, each client's at times that are set before. A request whose time comes while the one before
  /// is under way is sent right behind it, and its latency counts from when it was due: who was held up has waited all the same.
  case rate(Int)

  /// Nanoseconds between two requests of one of `clientCount` clients; 0: none.
  func spacing(clientCount: Int) -> UInt64 {
    if case .rate(let rate) = self { UInt64(clientCount) * 1_000_000_000 / UInt64(rate) } else { 0 }
  }
}

/// Drives its clients for a while. Lives on one thread.
struct ClosedLoop: ~Copyable {
  private var connections = Connections()
  private var makers: [RequestMaker]
  private var measurement = Measurement()
  private let length: RunLength
  private let spacing: UInt64
  /// Since when each client's request counts.
  private var due: [UInt64]
  /// Whose time has not come.
  private var resting: [Int] = []

  private static let warmUp: UInt64 = 500_000_000
  /// A run with nothing but errors ends early.
  private static let errorLimit = 2000

  /// - Parameter spacing: nanoseconds between two requests of one client, at least.
  init(_ target: Target, _ makers: [RequestMaker], _ length: RunLength, spacing: UInt64 = 0) {
    self.makers = makers
    self.length = length
    self.spacing = spacing
    due = makers.map { _ in 0 }
    for _ in makers { _ = connections.add(target) }
  }

  mutating func run() -> Measurement {
    let start = Connections.now()
    let measureFrom = length.answerLimit == nil ? start + min(Self.warmUp, UInt64(length.seconds * 0.25e9)) : start
    let end = measureFrom + UInt64(length.seconds * 1e9)
    let answerLimit = length.answerLimit ?? .max
    for index in makers.indices {
      // One after the other, so that they don't all send at once.
      due[index] = start + spacing * UInt64(index) / UInt64(makers.count)
      resting.append(index)
    }
    while Connections.now() < end, measurement.latencies.count + measurement.errorCount < answerLimit {
      if measurement.errorCount > Self.errorLimit, measurement.latencies.isEmpty { break }
      sendWhatIsDue()
      for (index, event) in connections.events(until: resting.reduce(end) { min($0, due[$1]) }) {
        switch event {
        case .answered(isSuccess: true):
          let now = Connections.now()
          if now < measureFrom { measurement.warmUpCount += 1 } else if now < end { measurement.add(since: since(index), until: now) }
        case .answered: measurement.note(connections.reader(of: index).beginning)
        case .received: break
        case .failed(let reason):
          measurement.note(reason)
          // Tries again with the next request, unless it can't even connect.
          if reason.hasPrefix("connect") || measurement.errorCount > Self.errorLimit { continue }
        }
        rest(index)
      }
    }
    let stopped = min(Connections.now(), end)
    measurement.seconds = stopped > measureFrom ? Double(stopped - measureFrom) / 1e9 : 0
    return measurement
  }

  /// When a request that is answered was due, or sent.
  private func since(_ index: Int) -> UInt64 { spacing == 0 ? connections.started(index) : due[index] }

  /// The client's next request; it is due at once, or when its time has come.
  private mutating func rest(_ index: Int) {
    if spacing == 0 { return send(index) }
    due[index] += spacing
    if due[index] <= Connections.now() { send(index) } else { resting.append(index) }
  }

  private mutating func sendWhatIsDue() {
    if resting.isEmpty { return }
    let now = Connections.now()
    let ready = resting.filter { due[$0] <= now }
    resting.removeAll { due[$0] <= now }
    for index in ready { send(index) }
  }

  private mutating func send(_ index: Int) {
    makers[index].advance()
    connections.send(index, makers[index].request)
  }
}

/// Runs closed loops on threads of their own and adds up what they measured.
func runClosedLoops(_ target: Target, _ makers: [RequestMaker], threadCount: Int, length: RunLength, pace: Pace = .closed) async -> Measurement {
  let spacing = pace.spacing(clientCount: makers.count)
  return await withTaskGroup { group in
    for thread in 0..<min(threadCount, makers.count) {
      let share = makers.indices.filter { $0 % threadCount == thread }.map { makers[$0] }
      group.addTask {
        await onOwnThread {
          var loop = ClosedLoop(target, share, length, spacing: spacing)
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
