// How much mirroring says of itself, and the lines about what it did.

import MirrorWire
package import ReplicaStore

/// How much a log tells. A level has the lines of those before it, too.
public enum LogLevel: Int, Sendable, CaseIterable, Comparable {
  /// What failed, and why: an app may collect these lines from everybody.
  case failures = 1
  /// Each set-up, import and export, with its counts.
  case events
  /// Each request: its method, its path within the store, its `X-Request-ID` and its status.
  case requests

  public static func < (a: LogLevel, b: LogLevel) -> Bool { a.rawValue < b.rawValue }
}

extension MirrorEvent {
  /// - Parameter scope: of the store.
  /// - Returns: what a log tells of the event, without a value or a name of an object; nil: it goes on.
  package func line(of scope: String) -> (level: LogLevel, text: String)? {
    guard endDate != nil else { return nil }
    let name = "\(scope) \(kind)"
    guard let first = errors.first else {
      return succeeded
        ? (.events, "\(name): \(savedCount) saved, \(deletedCount) deleted") : (.failures, "\(name) failed")
    }
    // A reason of the server's may quote a value; one of the device's own does not.
    let reason =
      first.error.isOfServer ? "\(first.error.status) \(first.error.serverErrorCode)" : first.error.reason
    let rest = errors.count > 1 ? ", and \(errors.count - 1) more" : ""
    return (.failures, "\(name) \(succeeded ? "left out" : "failed"): \(reason)\(rest)")
  }
}
