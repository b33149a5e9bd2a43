// Clients that each send the next request after the last one's answer, with a rate at its due time.

import Glibc

/// The measurements of one run.
struct Measurement: Sendable {
  /// Latencies of answers within the measured time. Unit: microseconds.
  var latencies: [UInt32] = []
  /// Answers before the measured time.
  var warmUpCount = 0
  var errorCount = 0
  /// The first answer with an error, or the first failure.
  var firstError: String?
  /// The measured duration, which may differ from the requested one.
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
  mutating func add(since start: UInt64, until now: UInt64 = Connections.now()) {
    latencies.append(UInt32(clamping: (now - start) / 1000))
  }
}

/// The end of a run.
struct RunLength: Sendable {
  /// A run without any answer in this time goes on to its first one, at most `firstAnswerLimit` longer.
  var seconds: Double
  /// Answers of each loop, errors included; with this limit there is no warm-up.
  var answerLimit: Int?
}

/// The times at which clients send.
enum Pace: Hashable, Sendable {
  /// As soon as the previous request is answered.
  case closed
  /// Requests a second of all clients together, each client at fixed times. A request that comes due while the previous
  /// one is under way is sent right after it. Its latency counts from the due time, because its client had to wait.
  case rate(Int)

  /// Nanoseconds between two requests of one of `clientCount` clients; 0: no pause.
  func spacing(clientCount: Int) -> UInt64 {
    if case .rate(let rate) = self { UInt64(clientCount) * 1_000_000_000 / UInt64(rate) } else { 0 }
  }
}

/// Drives its clients for a while, on one thread.
struct ClosedLoop: ~Copyable {
  private var connections = Connections()
  private var makers: [RequestMaker]
  private var measurement = Measurement()
  private let length: RunLength
  private let spacing: UInt64
  /// The time from which each client's request counts.
  private var due: [UInt64]
  /// Clients whose next request is not due yet.
  private var resting: [Int] = []

  private static let warmUp: UInt64 = 500_000_000
  /// A run with nothing but errors ends early.
  private static let errorLimit = 2000
  /// Time after the planned end in which a busy machine may give its first answer. Unit: nanoseconds.
  private static let firstAnswerLimit: UInt64 = 30_000_000_000

  /// - Parameter spacing: the least time between two requests of one client. Unit: nanoseconds.
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
    let planned = measureFrom + UInt64(length.seconds * 1e9)
    var end = planned
    let answerLimit = length.answerLimit ?? .max
    for index in makers.indices {
      // Staggered, so that the clients don't all send at once.
      due[index] = start + spacing * UInt64(index) / UInt64(makers.count)
      resting.append(index)
    }
    while isGoingOn(planned: planned), measurement.latencies.count + measurement.errorCount < answerLimit {
      if measurement.errorCount > Self.errorLimit, measurement.latencies.isEmpty { break }
      sendWhatIsDue()
      let latest = Connections.now() < planned ? planned : planned + Self.firstAnswerLimit
      for (index, event) in connections.events(until: resting.reduce(latest) { min($0, due[$1]) }) {
        switch event {
        case .answered(isSuccess: true):
          let now = Connections.now()
          if now < measureFrom {
            measurement.warmUpCount += 1
          } else if now < planned || measurement.latencies.isEmpty {
            measurement.add(since: since(index), until: now)
            end = max(end, now)
          }
        case .answered: measurement.note(connections.reader(of: index).beginning)
        case .received: break
        case .failed(let reason):
          measurement.note(reason)
          // Continues with the next request, unless the connection failed.
          if reason.hasPrefix("connect") || measurement.errorCount > Self.errorLimit { continue }
        }
        rest(index)
      }
    }
    let stopped = min(Connections.now(), end)
    measurement.seconds = stopped > measureFrom ? Double(stopped - measureFrom) / 1e9 : 0
    return measurement
  }

  /// False after the planned end, unless nothing has come until then: the first answer or error ends such a run.
  private func isGoingOn(planned: UInt64) -> Bool {
    let now = Connections.now()
    return now < planned
      || measurement.latencies.isEmpty && measurement.errorCount == 0 && now < planned + Self.firstAnswerLimit
  }

  /// The time at which an answered request was due, or sent.
  private func since(_ index: Int) -> UInt64 { spacing == 0 ? connections.started(index) : due[index] }

  /// Sends the client's next request at once, or when it is due.
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

/// Runs closed loops on threads of their own and adds up their measurements.
func runClosedLoops(
  _ target: Target, _ makers: [RequestMaker], threadCount: Int, length: RunLength, pace: Pace = .closed
) async -> Measurement {
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

/// Runs blocking work on a thread of its own.
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
