// What a naive replica keeps, and the rules that it can break.

import FoundationEssentials
import MirrorWire
import ReplicaStore

/// A rule of replicas. A test breaks one, and must see it.
package enum Rule: String, CaseIterable, Sendable {
  /// A save answers once it is durable (K1).
  case commitsSaves
  /// What a page tells is in the file before the next request leaves (K2).
  case appliesPages
  /// Pending properties and pairs are the user's (K4).
  case keepsPending
  /// An imported deletion is applied, whatever was edited (K5).
  case appliesDeletions
  /// What is deleted here is not brought back by an import (K6).
  case keepsDeletions
  /// Pointers are kept as they come, even if the target is missing (K7).
  case keepsPointers
  /// Both ends of a one-to-one relationship and both former partners are written (K8).
  case writesPartners
  /// A page and its token are one commit (K10).
  case commitsTokens
  /// What was sent is sent again until it is answered (K3).
  case sendsAgain
  /// The objects of a zone that ended are sent again (P8).
  case sendsZonesAgain
  /// What is sent again takes no newer edit back (P8).
  case takesNothingBack

  /// True if only ends of zones show that it is broken.
  var isAboutZones: Bool { self == .sendsZonesAgain || self == .takesNothingBack }
}

/// What the file of a replica has: it survives the replica.
package struct NaiveFile: Sendable {
  var graph = NaiveGraph()
  var outbox: [(number: Int64, transaction: Transaction)] = []
  var exported: [(number: Int64, transaction: Transaction)] = []
  var sent: ClosedRange<Int64>?
  var pending: [Property: Int64] = [:]
  var deleted: [String: Int64] = [:]
  var inserted: [String: Int64] = [:]
  var rejected: [Rejected] = []
  /// Identifiers.
  var undecided: Set<String> = []
  var toReread: [AnyObjectID] = []
  var shares: [ZoneID: (share: Data?, permission: ZonePermission)] = [:]
  var events: [MirrorEvent] = []
  var position: MirrorPosition
  var shadow: NaiveGraph?
  /// A page that waits, although its token is in the file: a rule is broken.
  var latePage: ImportPage?
  var lastNumber: Int64 = 0

  package init(storeIdentifier: String, modelHash: String) {
    position = MirrorPosition(storeIdentifier: storeIdentifier, modelHash: modelHash, configuration: nil)
  }
}
