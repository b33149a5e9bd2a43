// What a run saw: acknowledged saves, what readers were told page by page, and what there was at the end. The checker knows nothing else.

import Installations

/// One change of a save. Names are unique in their database; of each but counters one client alone writes.
struct Change: Hashable, Sendable {
  enum Kind: Hashable, Sendable {
    /// The name has this value from here on.
    case put(Int64)
    case delete
    /// Adds one to a counter that several clients write.
    case add
  }

  let name: String
  let kind: Kind
}

/// A save that was acknowledged.
struct Save: Hashable, Sendable {
  let client: String
  /// Ascending within the client; also its transaction's identifier is made of it.
  let number: Int
  let database: String
  var changes: [Change]
  /// The change tags that the acknowledgement gave, as numbers; empty on the object plane.
  var tags: [Int64] = []
  /// Nanoseconds of the monotonic clock: from the first attempt to the acknowledgement.
  var started: UInt64 = 0
  var ended: UInt64 = 0
  /// How often it was sent.
  var attemptCount = 1
}

/// One record or object that a feed told of.
struct Item: Hashable, Sendable {
  let name: String
  /// nil: deleted.
  let value: Int64?
  /// Of the record plane's feed.
  var tag: Int64?
}

/// What a reader that goes from token to token was told, in order.
struct Feed: Hashable, Sendable {
  let reader: String
  let database: String
  var items: [Item] = []
}

/// Transactions of a store as its history lists them.
struct TransactionLog: Hashable, Sendable {
  let client: String
  var numbers: [Int]
}

struct History: Sendable {
  var saves: [Save] = []
  /// What was refused for good, or went wrong beside saves: each is a fault of the installation.
  var refusals: [String] = []
  var feeds: [Feed] = []
  /// By database: everything that somebody new is told.
  var final: [String: [String: Int64]] = [:]
  var logs: [TransactionLog] = []
}
