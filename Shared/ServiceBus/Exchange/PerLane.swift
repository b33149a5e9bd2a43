// What an exchange keeps for each lane apart from the others.

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

/// What one lane has of requests from others.
struct IncomingLane {
  /// Requests whose key is held by another, by key.
  var mailboxes: [String: FIFO<IncomingID>] = [:]
  /// Requests that could start but for `runningCount`.
  var startable = FIFO<IncomingID>()
  var runningCount = 0
  /// Those that wait or run.
  var count = 0
  var heldByteCount = 0
}
