// States and inputs of the machine by name, for its table.

import MirrorWire

/// The inputs of the table, in its order.
let namedInputs: [(name: String, input: SyncInput)] = [
  ("started", .started(.known)), ("stopped", .stopped), ("saved", .saved), ("pinged", .pinged),
  ("sync wanted", .syncWanted(true)), ("online", .online(true)), ("offline", .online(false)), ("paused", .paused(true)),
  ("unpaused", .paused(false)), ("signedIn", .signedIn), ("reset wanted", .resetWanted),
  ("timer", .timer(1)), ("stale timer", .timer(99)),
  ("isSetUp", .answered(.isSetUp)), ("exported", .answered(.exported(hasMore: false))),
  ("exported, more", .answered(.exported(hasMore: true))), ("set aside", .answered(.setAside(hasMore: false))),
  ("imported", .answered(.imported(hasMore: false, isCaughtUp: true))),
  ("imported, more", .answered(.imported(hasMore: true, isCaughtUp: false))), ("reset", .answered(.reset)),
  ("restored", .answered(.restored)),
  ("nothing", .answered(.nothing)), ("lost", .answered(.failed(.transport("lost")))),
  ("full", .answered(.failed(.full))), ("damaged", .answered(.failed(.damaged("page")))),
  ("cancelled", .answered(.failed(.cancelled))), ("400", .refusal(400, "BAD_REQUEST")),
  ("404", .refusal(404, "NOT_FOUND")), ("410", .refusal(410, "BAD_REQUEST")),
  ("410 restored", .refusal(410, "BAD_REQUEST", recovery: 294)),
  ("421", .refusal(421, "AUTHENTICATION_REQUIRED")), ("429", .refusal(429, "THROTTLED", retryAfter: 7)),
  ("503", .refusal(503, "TRY_AGAIN_LATER")),
  ("gap", .refusal(409, "CONFLICT", gap: [.init(recordType: "CD_A", field: nil)])),
  ("lease", .refusal(409, "CONFLICT", cocoa: 134_410, retryAfter: 9)),
  ("account", .refusal(409, "CONFLICT", cocoa: 134_405)), ("proxy", .refusal(403, "")),
]

/// The states of the table: the inputs that lead there.
let namedStates: [(name: String, path: [SyncInput])] = [
  ("new", []),
  ("setting up", [.started(.fresh)]),
  ("importing", [.started(.known)]),
  ("at rest", [.started(.known), .answered(.imported(hasMore: false, isCaughtUp: true))]),
  ("exporting", [.started(.pending)]),
  ("waiting at the server", [.started(.withoutPings), .answered(.imported(hasMore: false, isCaughtUp: true))]),
  ("setting aside", [.started(.pending), .refusal(400, "BAD_REQUEST")]),
  ("resetting", [.started(.known), .refusal(410, "BAD_REQUEST")]),
  ("restoring", [.started(.known), .refusal(410, "BAD_REQUEST", recovery: 294), .answered(.restored)]),
  ("throttled", [.started(.known), .refusal(429, "THROTTLED", retryAfter: 7)]),
  ("unreachable", [.started(.pending), .answered(.failed(.transport("lost")))]),
  ("told to be offline", [.started(.known), .online(false), .answered(.failed(.transport("lost")))]),
  ("paused", [.started(.known), .answered(.imported(hasMore: false, isCaughtUp: true)), .paused(true)]),
  ("signed out", [.started(.known), .refusal(421, "AUTHENTICATION_REQUIRED")]),
  ("unknown model", [.started(.fresh), .refusal(409, "CONFLICT", gap: [])]),
  ("without the lease", [.started(.known), .refusal(409, "CONFLICT", cocoa: 134_410, retryAfter: 9)]),
  ("full", [.started(.known), .answered(.failed(.full))]),
  ("given up", [.started(.resetTwice), .refusal(410, "BAD_REQUEST")]),
]

extension SyncFacts {
  static let fresh = SyncFacts(isSetUp: false, hasPending: false, hasUnknownFate: false)
  static let known = SyncFacts(isSetUp: true, hasPending: false, hasUnknownFate: false)
  static let pending = SyncFacts(isSetUp: true, hasPending: true, hasUnknownFate: true)
  static let withoutPings = SyncFacts(isSetUp: true, hasPending: false, hasUnknownFate: false, hasPings: false)
  static let resetTwice = SyncFacts(isSetUp: true, hasPending: false, hasUnknownFate: false, resetCount: 2)
}

extension SyncInput {
  static func refusal(
    _ status: Int, _ code: String, cocoa: Int? = nil, retryAfter: Double? = nil, recovery: Int? = nil,
    gap: [ServerError.MissingField]? = nil
  ) -> Self {
    .answered(
      .failed(
        .server(
          ServerError(
            status: status, serverErrorCode: code, cocoaErrorCode: cocoa, retryAfter: retryAfter, recovery: recovery,
            schemaGap: gap))))
  }
}

extension SyncOutput {
  /// A word for the table.
  var word: String {
    switch self {
    case .setUp: "setUp"
    case .export: "export"
    case .importPage(let waits): waits ? "wait at server" : "import"
    case .endWait: "endWait"
    case .setAside: "setAside"
    case .reset: "reset"
    case .restore: "restore"
    case .abandonReset: "abandonReset"
    case .openPings: "openPings"
    case .wait(let duration, _):
      [7, 9].contains(duration / .seconds(1)) ? "wait \(Int(duration / .seconds(1)))" : "wait"
    case .emit(.began(let kind)): "+\(kind)"
    case .emit(.ended(let kind, let failure)): failure == nil ? "-\(kind)" : "!\(kind)"
    }
  }
}
