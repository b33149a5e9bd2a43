// What a shared store's home and its guests say to each other beside the calls that clients make, too.

import History
import Mirroring
import Records

/// `GET stores/{id}/locate`: where objects are among what is shared with the store's user.
struct LocateObjects: Codable, Sendable {
  let objectIDs: [String]

  /// Of one question.
  static let limit = 2000
}

struct LocatedObjects: Codable, Sendable {
  struct Zone: Codable, Sendable, Hashable {
    let zoneName: String
    /// Whether the user may write whatever he likes there.
    let mayWrite: Bool
    /// He had access, and has none.
    let isLost: Bool
  }

  struct Object: Codable, Sendable, Hashable {
    let objectID: String
    /// Its place among `zones`.
    let zone: Int
    /// All that is left of it is a tombstone.
    let isTombstone: Bool
    let mayWrite: Bool
    /// It was moved out of the zone to where the user sees nothing of it.
    let hasLeft: Bool
  }

  var zones: [Zone] = []
  /// Those that are, or were, somewhere.
  var objects: [Object] = []
}

/// `POST stores/{id}/forward`: transactions that the home has accepted, or their parts that concern this owner.
struct ForwardTransactions: Codable, Sendable {
  /// `HistoryTransaction.encoded()`; an edit's base is of this owner's database, and negative where the guest is to say what the store knew.
  let transactions: [[UInt8]]
}

/// What became of them.
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
        recordName: recordName, entity: entity, code: code, cocoaErrorCode: cocoaErrorCode.flatMap(CocoaErrorCode.init(rawValue:)), reason: reason, cause: cause)
    }
  }

  var savedCount = 0
  var deletedCount = 0
  var problems: [Problem] = []
  /// A sync token of the owner's database that covers what was written.
  var syncToken: String?
  /// The guest keeps something for its home's journal.
  var hasKept: Bool?
}

/// `GET stores/{id}/held`: what the guest keeps for its home's journal.
struct HeldChangesPage: Codable, Sendable {
  struct Row: Codable, Sendable {
    let key: Int64
    let name: String
    let attempts: Int
    /// `QuarantineCause`.
    let cause: Int
    /// Where the object is, or was; empty: nobody knows.
    let zoneName: String
    /// `HistoryTransaction.encoded()`, of one object; nil: it can't be read.
    let payload: [UInt8]?
  }

  var rows: [Row] = []
  /// Rows that were looked at, and the key of the last.
  var rowCount = 0
  var last: Int64 = 0
  var moreComing = false
}

/// `POST stores/{id}/held/acknowledge`: the guest need not keep them any more.
struct AcknowledgeHeld: Codable, Sendable {
  struct Row: Codable, Sendable {
    let key: Int64
    let name: String
    let attempts: Int
  }

  let rows: [Row]
}

/// `POST stores/{id}/restore`: what the store's user had lost is to be there again.
struct RestoreLost: Codable, Sendable {
  let zoneName: String
  /// `HistoryTransaction.encoded()`.
  let payload: [UInt8]
}

/// `GET stores/{id}/zones`: what is shared with the store's user.
struct GuestZoneList: Codable, Sendable {
  struct Zone: Codable, Sendable, Hashable {
    let zoneName: String
    let shareNames: [String]
    let recordCount: Int
  }

  /// Ascending by name.
  let zones: [Zone]
  /// Those that were, with the shares that ended for him: whoever asks again to leave one is answered by what came of his first request.
  var lost: [Zone]?
}
