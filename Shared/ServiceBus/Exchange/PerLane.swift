// The parts of an exchange that each lane has for itself.

import Queues

struct PerLane<Value> {
  private var usual: Value
  private var nested: Value

  init(_ make: @autoclosure () -> Value) {
    usual = make()
    nested = make()
  }

  subscript(lane: Lane) -> Value {
    get {
      switch lane {
      case .usual: usual
      case .nested: nested
      }
    }
    _modify {
      switch lane {
      case .usual: yield &usual
      case .nested: yield &nested
      }
    }
  }

  var all: [Value] { [usual, nested] }
}

/// A peer's window of one lane.
struct Window {
  var underWay = 0
  var backlog = TurnQueue<Outgoing>()
  var load: Int { underWay + backlog.count }
}

/// The requests with one key.
struct Mailbox {
  private var isHeld = false
  /// Requests that wait for the one that holds the key.
  var waiting = FIFO<IncomingID>()

  /// - Returns: true when the request holds the key from now on; it waits otherwise.
  mutating func enter(_ id: IncomingID) -> Bool {
    if isHeld { waiting.append(id) }
    defer { isHeld = true }
    return !isHeld
  }
}

/// The requests of other processes in one lane.
struct IncomingLane {
  /// Requests that wait for another request's key, by key.
  var mailboxes: [String: Mailbox] = [:]
  /// Requests that start as soon as `runningCount` allows.
  var startable = FIFO<IncomingID>()
  var runningCount = 0
  /// The number of requests that wait or run.
  var count = 0
  var heldByteCount = 0
}
