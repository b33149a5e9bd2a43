// A run's observations: acknowledged saves, pages that readers got, and the final state. The checker knows nothing
// else.

import Installations

/// One change of a save. Names are unique in their database; each name except the counters has a single client as
/// writer.
struct Change: Hashable, Sendable {
  enum Kind: Hashable, Sendable {
    /// The name has this value from now on.
    case put(Int64)
    case delete
    /// Adds one to a counter that several clients write.
    case add
  }

  let name: String
  let kind: Kind
}

/// An acknowledged save.
struct Save: Hashable, Sendable {
  let client: String
  /// Ascending within the client; the transaction's identifier contains it.
  let number: Int
  let database: String
  var changes: [Change]
  /// The change tags of the acknowledgement, as numbers; empty on the object plane.
  var tags: [Int64] = []
  /// From the first attempt to the acknowledgement, in nanoseconds of the monotonic clock.
  var started: UInt64 = 0
  var ended: UInt64 = 0
  /// The number of attempts.
  var attemptCount = 1
}

/// A record or object in a feed.
struct Item: Hashable, Sendable {
  let name: String
  /// nil: deleted.
  let value: Int64?
  /// Only in the record plane's feed.
  var tag: Int64?
}

/// The items that a reader got by following tokens, in order.
struct Feed: Hashable, Sendable {
  let reader: String
  let database: String
  var items: [Item] = []
}

/// The transactions of a store as its history lists them.
struct TransactionLog: Hashable, Sendable {
  let client: String
  var numbers: [Int]
}

struct History: Sendable {
  var saves: [Save] = []
  /// Saves refused for good, and faults besides saves.
  var refusals: [String] = []
  var feeds: [Feed] = []
  /// By database: all values that a new reader gets.
  var final: [String: [String: Int64]] = [:]
  var logs: [TransactionLog] = []
}
