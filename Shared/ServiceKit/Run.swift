// The outermost layer of a process: turns signals into a drain, and the outcome into an exit code.

internal import CLinux
internal import Glibc
internal import Synchronization

extension ServiceProcess {
  /// The time that a stop may take before the process ends anyway.
  static let stopLimit = Duration.seconds(10)

  /// Runs until SIGTERM, SIGINT or the service's own wish, and then drains. A second stop ends the process at once
  /// (`RepeatedStop`).
  ///
  /// The process ends by `_exit`, and nothing waits in a buffer then. `exit` would let libraries free what they hold
  /// while threads still run: libcrypto frees the state of each thread, which a thread that ends just then frees, too.
  public func run() async -> Never {
    ProcessStatus.raiseFileLimit()
    Self.endAtOnceInCrashes()
    Self.keepFreedMemory()
    signal(SIGPIPE, SIG_IGN)
    let signals = TerminationSignals.stream()
    let stopRequest = Task { () -> StopSender? in
      for await sender in signals { return sender }
      return nil
    }
    let starting = Task { try await start(arguments: Array(CommandLine.arguments.dropFirst())) }
    // No work is in progress during the start, so a signal ends the process at once.
    guard await Self.first({ _ = await starting.result }, or: { _ = await stopRequest.value }) else { _exit(0) }
    do {
      let running = try await starting.value
      let ending = running.context.ending
      _ = await Self.first({ _ = await stopRequest.value }, or: { await ending.wait() })
      let isStopped = await Self.first(
        { await running.stop(within: Self.stopLimit - .seconds(1)) },
        or: {
          let limit = Task { try await Task.sleep(for: Self.stopLimit) }
          let timing = running.context.timing
          let start = timing.now()
          let second = Task {
            var stop = RepeatedStop(after: await stopRequest.value, at: start)
            for await sender in signals where stop.isImpatient(sender, at: timing.now()) { break }
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
  /// The end of a pipe that the signal handler writes to. A signal handler may do little else.
  private static let descriptor = Atomic<Int32>(-1)

  /// Starts to catch the signals, and tells their senders. Called once in a process.
  static func stream() -> AsyncStream<StopSender> {
    var ends: [Int32] = [-1, -1]
    let isOpen = pipe(&ends) == 0
    for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    _ = fcntl(ends[1], F_SETFL, O_NONBLOCK)
    descriptor.store(ends[1], ordering: .sequentiallyConsistent)
    let (stream, continuation) = AsyncStream.makeStream(of: StopSender.self)
    var thread = pthread_t()
    let parcel = Unmanaged.passRetained(Parcel(ends[0], continuation))
    let code = pthread_create(&thread, nil, waitForSignals, parcel.toOpaque())
    precondition(isOpen && code == 0, "no pipe or thread for signals: \(errno)")
    pthread_detach(thread)
    for number in [SIGTERM, SIGINT] {
      var action = sigaction()
      action.__sigaction_handler.sa_sigaction = noteSignal
      action.sa_flags = SA_SIGINFO | SA_RESTART
      sigaction(number, &action, nil)
    }
    return stream
  }

  fileprivate static func note(_ sender: StopSender) {
    let saved = errno
    var byte = sender.rawValue
    // Dropped because a full pipe holds more signals than any stop needs.
    _ = write(descriptor.load(ordering: .sequentiallyConsistent), &byte, 1)
    errno = saved
  }

  fileprivate final class Parcel: Sendable {
    let fd: Int32
    let continuation: AsyncStream<StopSender>.Continuation

    init(_ fd: Int32, _ continuation: AsyncStream<StopSender>.Continuation) {
      self.fd = fd
      self.continuation = continuation
    }
  }
}

private func noteSignal(
  _ number: Int32, _ facts: UnsafeMutablePointer<siginfo_t>?, _ context: UnsafeMutableRawPointer?
) {
  TerminationSignals.note(facts?.pointee._sifields._kill.si_pid == getppid() ? .parent : .other)
}

private func waitForSignals(_ context: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
  guard let context else { return nil }
  let parcel = Unmanaged<TerminationSignals.Parcel>.fromOpaque(context).takeRetainedValue()
  var byte: UInt8 = 0
  while true {
    switch read(parcel.fd, &byte, 1) {
    case 1: parcel.continuation.yield(StopSender(rawValue: byte) ?? .other)
    case -1 where errno == EINTR: continue
    default: return nil
    }
  }
}
