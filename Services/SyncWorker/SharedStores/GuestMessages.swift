// The messages between a shared store's home and its guests, beside the calls that clients make too.

import History
import Mirroring
import Records

/// `GET stores/{id}/locate`: asks where objects are among the zones that are shared with the store's user.
struct LocateObjects: Codable, Sendable {
  let objectIDs: [String]

  /// Objects of one request.
  static let limit = 2000
}

struct LocatedObjects: Codable, Sendable {
  struct Zone: Codable, Sendable, Hashable {
    let zoneName: String
    /// The user may write every record there.
    let mayWrite: Bool
    /// The user had access and has none now.
    let isLost: Bool
  }

  struct Object: Codable, Sendable, Hashable {
    let objectID: String
    /// Index into `zones`.
    let zone: Int
    /// Only a tombstone is left.
    let isTombstone: Bool
    let mayWrite: Bool
    /// The object was moved out of the zone to a place that the user cannot see.
    let hasLeft: Bool
  }

  var zones: [Zone] = []
  /// The objects that are or were in a shared zone.
  var objects: [Object] = []
}

/// `POST stores/{id}/forward`: transactions that the home has accepted, or their parts that concern this owner.
struct ForwardTransactions: Codable, Sendable {
  /// `HistoryTransaction.encoded()`. An edit's base is a sequence of this owner's database; negative: the guest fills
  /// it in.
  let transactions: [[UInt8]]
}

/// The result of exporting the forwarded transactions.
struct ForwardOutcome: Codable, Sendable {
  struct Problem: Codable, Sendable, Hashable {
    let recordName: String
    let entity: String
    let code: String
    let cocoaErrorCode: Int?
    let reason: String

    init(_ problem: MirroringProblem) {
      recordName = problem.recordName
      entity = problem.entity
      code = problem.code.rawValue
      cocoaErrorCode = problem.cocoaErrorCode?.rawValue
      reason = problem.reason
    }

    var problem: MirroringProblem {
      let code = ServerErrorCode(rawValue: code) ?? .internalError
      let cause: QuarantineCause =
        switch code {
        case .accessDenied: .permission
        case .zoneNotFound: .zoneEnded
        default: .other
        }
      return MirroringProblem(
        recordName: recordName, entity: entity, code: code,
        cocoaErrorCode: cocoaErrorCode.flatMap(CocoaErrorCode.init(rawValue:)), reason: reason, cause: cause)
    }
  }

  var savedCount = 0
  var deletedCount = 0
  var problems: [Problem] = []
  /// A sync token of the owner's database that covers what was written.
  var syncToken: String?
  /// The guest keeps changes for the home's journal.
  var hasKept: Bool?
}

/// `GET stores/{id}/changes` of a home: an owner's part of an import.
struct GuestPage: Codable, Sendable {
  /// As JSON, divided by commas; only the client reads them.
  var changes: [UInt8] = []
  var changeCount = 0
  /// The changes that end an object, a link or a zone.
  var deletedCount = 0
  var quarantined: [ForwardOutcome.Problem] = []
  let importToken: String
  let moreComing: Bool
  /// False while a reset goes on after this page.
  let isResetDone: Bool
  /// The run's progress and its goal, in steps of the owner's database.
  let done: Int64
  let total: Int64
  /// The guest keeps changes for the home's journal.
  let hasKept: Bool
}

/// `GET stores/{id}/status` of a home.
struct GuestStatus: Codable, Sendable {
  let downloads: Int
  let quarantined: Int
  let notImported: Int
  let isCaughtUp: Bool
}

/// `POST stores/{id}/quarantine/retry` of a home.
struct RetriedCount: Codable, Sendable {
  let retried: Int
}

/// `GET stores/{id}/held`: the changes that the guest keeps for the home's journal.
struct HeldChangesPage: Codable, Sendable {
  struct Row: Codable, Sendable {
    let key: Int64
    let name: String
    let attempts: Int
    /// When the object was first held back, in milliseconds since 1970; nil from an earlier release. Keys are given out
    /// again.
    let firstAt: Int64?
    /// `QuarantineCause`.
    let cause: Int
    /// The zone that holds or held the object; empty when unknown.
    let zoneName: String
    /// `HistoryTransaction.encoded()` of one object; nil when it can't be read.
    let payload: [UInt8]?
  }

  var rows: [Row] = []
  /// The rows examined, and the key of the last of them.
  var rowCount = 0
  var last: Int64 = 0
  var moreComing = false
}

/// `POST stores/{id}/held/acknowledge`: the rows that the guest may let go of.
struct AcknowledgeHeld: Codable, Sendable {
  struct Row: Codable, Sendable {
    let key: Int64
    let name: String
    let attempts: Int
    /// As the page had it.
    let firstAt: Int64?
  }

  let rows: [Row]
}

/// `POST stores/{id}/restore`: restores an object that the store's user had lost.
struct RestoreLost: Codable, Sendable {
  let zoneName: String
  /// `HistoryTransaction.encoded()`.
  let payload: [UInt8]
}

/// `GET stores/{id}/zones`: the zones that are shared with the store's user.
struct GuestZoneList: Codable, Sendable {
  struct Zone: Codable, Sendable, Hashable {
    let zoneName: String
    let shareNames: [String]
    let recordCount: Int
  }

  /// Ascending by name.
  let zones: [Zone]
  /// Zones to which the user has lost access, with their ended shares: a repeated request to leave gets its first
  /// answer.
  var lost: [Zone]?
}
