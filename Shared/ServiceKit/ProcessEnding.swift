// The end of a process that its service asks for.

internal import Synchronization

/// Lets a service end its process: drained as by a signal, but with the code and the sentence of an error.
public final class ProcessEnding: Sendable {
  private let first = Mutex<ExitError?>(nil)
  private let (asked, ask) = AsyncStream.makeStream(of: Void.self)

  public init() {}

  /// nil when the service has not asked for the end.
  public var reason: ExitError? { first.withLock(\.self) }

  /// Asks for the end. The first reason counts.
  public func end(_ reason: ExitError) {
    first.withLock { if $0 == nil { $0 = reason } }
    ask.finish()
  }

  /// Waits until the service asks for the end, or the task is cancelled. One task at a time waits.
  func wait() async { for await _ in asked {} }
}
