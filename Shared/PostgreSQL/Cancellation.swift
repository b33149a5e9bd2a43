// Ends a session's command early, at another thread's request.

import CPostgreSQL

/// Cancels the commands of one session. Any thread may use it at any time, also after the session is closed.
///
/// Unchecked because libpq allows it: the handle never changes and is only read.
public final class Cancellation: @unchecked Sendable {
  private let handle: OpaquePointer

  init(_ handle: OpaquePointer) { self.handle = handle }

  deinit { PQfreeCancel(handle) }

  /// Asks the server to cancel the session's current command, which then throws `cancelled`. A request that comes late
  /// meets the session's next command, or none. Connects to the server, and waits until the request is sent.
  /// - Returns: false when the server can't be reached.
  @discardableResult public func cancel() -> Bool {
    withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { reason in
      PQcancel(handle, reason.baseAddress, Int32(reason.count)) == 1
    }
  }
}
