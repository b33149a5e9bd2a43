// The outermost layer of a process: turns signals into a drain, and the outcome into an exit code.

internal import CLinux
internal import Glibc
internal import Synchronization

extension ServiceProcess {
  /// The time that a stop may take before the process ends anyway.
  static let stopLimit = Duration.seconds(10)
  /// A signal so soon after the first one is of the same stop: an init system and `aquifer dev` may both tell a
  /// process.
  private static let repetitionLimit = Duration.seconds(1)

  /// Runs until SIGTERM, SIGINT or the service's own wish, and then drains. A second signal, a second or more after the
  /// first, ends the process at once.
  ///
  /// The process ends by `_exit`, and nothing waits in a buffer then. `exit` would let libraries free what they hold
  /// while threads still run: libcrypto frees the state of each thread, which a thread that ends just then frees, too.
  public func run() async -> Never {
    ProcessStatus.raiseFileLimit()
    Self.endAtOnceInCrashes()
    Self.keepFreedMemory()
    signal(SIGPIPE, SIG_IGN)
    let signals = TerminationSignals.stream()
    let stopRequest = Task { for await _ in signals { break } }
    let starting = Task { try await start(arguments: Array(CommandLine.arguments.dropFirst())) }
    // No work is in progress during the start, so a signal ends the process at once.
    guard await Self.first({ _ = await starting.result }, or: { await stopRequest.value }) else { _exit(0) }
    do {
      let running = try await starting.value
      let ending = running.context.ending
      _ = await Self.first({ await stopRequest.value }, or: { await ending.wait() })
      let isStopped = await Self.first(
        { await running.stop(within: Self.stopLimit - .seconds(1)) },
        or: {
          let limit = Task { try await Task.sleep(for: Self.stopLimit) }
          let timing = running.context.timing
          let repetitionEnd = timing.now().advanced(by: Self.repetitionLimit)
          let second = Task {
            for await _ in signals where timing.now() >= repetitionEnd { break }
            limit.cancel()
          }
          _ = await limit.result
          second.cancel()
        })
      if let reason = ending.reason { fail(reason) }
      _exit(isStopped ? 0 : ExitError.Code.tryAgain.rawValue)
    } catch let request as Options.Request {
      let text = Array((request == .help ? help.text : "\(help.command) \(Release.version)\n").utf8)
      write(STDOUT_FILENO, text, text.count)
      _exit(0)
    } catch let error as ExitError {
      fail(error)
    } catch {
      fail(ExitError(.bug, "\(error)"))
    }
  }

  /// Takes the handlers of Swift's runtime away, which write all threads down first: until then nobody else gets the
  /// process's work, and on a busy machine that takes minutes. SWIFT_BACKTRACE asks for it all the same.
  private static func endAtOnceInCrashes() {
    guard getenv("SWIFT_BACKTRACE") == nil else { return }
    for number in [SIGQUIT, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGTRAP] { signal(number, SIG_DFL) }
  }

  /// Keeps up to two megabytes of freed memory in each of the allocator's arenas. Otherwise the memory of an answer of
  /// some hundred kilobytes goes back to the kernel, and comes again, cleared, with the next one. The allocator's own
  /// variables, where they are set, come first.
  private static func keepFreedMemory() {
    let variables = ["MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"]
    guard variables.allSatisfy({ getenv($0) == nil }) else { return }
    mallopt(M_TRIM_THRESHOLD, keptByteCount)
    mallopt(M_MMAP_THRESHOLD, keptByteCount)
  }

  private static var keptByteCount: Int32 { 2 << 20 }

  private func fail(_ error: ExitError) -> Never {
    let hint = error.code == .usage ? " Try --help." : ""
    let line = Array("\(help.command): \(error.description)\(hint)\n".utf8)
    write(STDERR_FILENO, line, line.count)
    _exit(error.code.rawValue)
  }

  /// - Returns: whether `work` ended before `limit`.
  private static func first(
    _ work: @escaping @Sendable () async -> Void, or limit: @escaping @Sendable () async -> Void
  ) async -> Bool {
    let (stream, continuation) = AsyncStream.makeStream(of: Bool.self)
    // No task group, because that would wait for the loser. The process ends without it.
    let tasks = [
      Task {
        await work()
        continuation.yield(true)
      },
      Task {
        await limit()
        continuation.yield(false)
      },
    ]
    defer { for task in tasks { task.cancel() } }
    for await isDone in stream { return isDone }
    return false
  }
}

enum TerminationSignals {
  /// The descriptor that the signal handler writes to. A signal handler may do little else.
  private static let descriptor = Atomic<Int32>(-1)

  /// Starts to catch the signals. Called once in a process.
  static func stream() -> AsyncStream<Void> {
    let fd = eventfd(0, Int32(EFD_CLOEXEC | EFD_SEMAPHORE))
    descriptor.store(fd, ordering: .sequentiallyConsistent)
    let (stream, continuation) = AsyncStream.makeStream(of: Void.self)
    var thread = pthread_t()
    let parcel = Unmanaged.passRetained(Parcel(fd, continuation))
    let code = pthread_create(&thread, nil, waitForSignals, parcel.toOpaque())
    precondition(fd >= 0 && code == 0, "no descriptor or thread for signals: \(errno)")
    pthread_detach(thread)
    for number in [SIGTERM, SIGINT] { signal(number, noteSignal) }
    return stream
  }

  fileprivate static func note() {
    let saved = errno
    eventfd_write(descriptor.load(ordering: .sequentiallyConsistent), 1)
    errno = saved
  }

  fileprivate final class Parcel: Sendable {
    let fd: Int32
    let continuation: AsyncStream<Void>.Continuation

    init(_ fd: Int32, _ continuation: AsyncStream<Void>.Continuation) {
      self.fd = fd
      self.continuation = continuation
    }
  }
}

private func noteSignal(_ number: Int32) { TerminationSignals.note() }

private func waitForSignals(_ context: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
  guard let context else { return nil }
  let parcel = Unmanaged<TerminationSignals.Parcel>.fromOpaque(context).takeRetainedValue()
  var count: eventfd_t = 0
  while true {
    if eventfd_read(parcel.fd, &count) == 0 { parcel.continuation.yield() } else if errno != EINTR { return nil }
  }
}
