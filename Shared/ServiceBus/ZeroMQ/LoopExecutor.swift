// Runs short handlers on the bus's own thread, so that neither their start nor their end wakes another one.

/// Runs steps of tasks on the thread that owns the sockets, between two rounds of reading them.
///
/// A long step delays every call of the process, and a blocking one stops them all: only code that is known to be short
/// may run here.
final class LoopExecutor: TaskExecutor {
  private let queue: CommandQueue

  init(_ queue: CommandQueue) { self.queue = queue }

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    // A task must be able to end even after the bus is closed.
    if !queue.post(.run(job)) { globalConcurrentExecutor.enqueue(ExecutorJob(job)) }
  }

  /// Runs a step, on the bus's thread.
  func run(_ job: UnownedJob) { job.runSynchronously(on: asUnownedTaskExecutor()) }
}
