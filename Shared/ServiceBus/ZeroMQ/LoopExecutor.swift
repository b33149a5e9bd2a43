// Where short handlers run: on the bus's own thread, so that neither their start nor their end wakes another one.

/// Runs tasks' steps on the thread that owns the sockets, between two looks at them.
///
/// A step that takes long holds up every call of the process, one that blocks all of them: only what is known to be short belongs here.
final class LoopExecutor: TaskExecutor {
  private let queue: CommandQueue

  init(_ queue: CommandQueue) { self.queue = queue }

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    // A task must come to its end also when the bus has come to its own.
    if !queue.post(.run(job)) { globalConcurrentExecutor.enqueue(ExecutorJob(job)) }
  }

  /// Runs a step, on the bus's thread.
  func run(_ job: UnownedJob) { job.runSynchronously(on: asUnownedTaskExecutor()) }
}
