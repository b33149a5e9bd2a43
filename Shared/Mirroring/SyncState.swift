// How far an object, and a store, has come on its way to the server, and why it goes no further (V3).

/// An object's progress towards the server.
public enum SyncState: String, Hashable, Sendable, CaseIterable {
  /// The server has every saved change of the object.
  case clean
  /// A saved change of the object waits for its export.
  case dirty
  /// A saved change of the object is being exported.
  case inFlight
  /// Changes of the object are held back.
  case quarantined
  /// Two values of the object wait for somebody's decision.
  case conflict
}

/// The facts about an object in one store, from which its state and the reasons follow.
public struct SyncFacts: Hashable, Sendable {
  /// The zone's content under the object's name.
  public enum Stored: Hashable, Sendable {
    case nothing, record, tombstone
  }

  /// A reason for the state.
  public struct Reason: Hashable, Sendable {
    /// A fixed word, such as `quarantined`; never translated.
    public let code: String
    /// One sentence; never a user's value.
    public let text: String
  }

  public var stored: Stored
  /// Numbers of the saved transactions that name the object and are not exported, ascending.
  public var pendingTransactions: [Int64]
  /// The problem that the latest export found with the object.
  public var problem: MirroringProblem?
  /// A change of the object is held back and will be tried again.
  public var isHeld: Bool
  /// Numbers of the conflicts that wait for a decision, ascending.
  public var conflicts: [Int64]
  public var store: StoreFacts

  public init(
    stored: Stored, pendingTransactions: [Int64] = [], problem: MirroringProblem? = nil, isHeld: Bool = false,
    conflicts: [Int64] = [], store: StoreFacts
  ) {
    self.stored = stored
    self.pendingTransactions = pendingTransactions
    self.problem = problem
    self.isHeld = isHeld
    self.conflicts = conflicts
    self.store = store
  }

  /// Neither the zone nor the store knows the object.
  public var isUnknown: Bool {
    stored == .nothing && pendingTransactions.isEmpty && problem == nil && !isHeld && conflicts.isEmpty
  }

  public var state: SyncState {
    if isHeld { return .quarantined }
    if !conflicts.isEmpty { return .conflict }
    if !pendingTransactions.isEmpty { return store.isExporting ? .inFlight : .dirty }
    return .clean
  }

  /// All reasons for the state, the most important one first.
  public var reasons: [Reason] {
    var reasons: [Reason] = []
    if let problem {
      reasons.append(
        Reason(code: isHeld ? "quarantined" : "leftOut", text: "The latest export left it out: \(problem.reason)"))
    }
    if !conflicts.isEmpty {
      reasons.append(Reason(code: "conflict", text: "\(Self.count(conflicts.count, "conflict")) of it to decide"))
    }
    if let first = pendingTransactions.first {
      let number = Self.count(pendingTransactions.count, "saved transaction")
      reasons.append(
        Reason(code: "notExported", text: "\(number) with changes of it, from number \(first) on, not exported"))
      reasons += store.obstacles
    }
    guard reasons.isEmpty else { return reasons }
    switch stored {
    case .record: return [Reason(code: "exported", text: "The zone has all changes that this store saved of it")]
    case .tombstone: return [Reason(code: "deleted", text: "It was deleted, and the zone has the deletion")]
    case .nothing: return [Reason(code: "unknown", text: "Neither the store nor the zone knows it")]
    }
  }

  private static func count(_ count: Int, _ noun: String) -> String { "\(count) \(noun)\(count == 1 ? "" : "s")" }
}

/// The facts about a store's exports.
public struct StoreFacts: Hashable, Sendable {
  /// The number of transactions that are not exported.
  public var pendingCount: Int64
  /// The number of objects that exports left out.
  public var quarantinedCount: Int
  public var isExporting: Bool
  /// Exports of the store fail and are repeated.
  public var isFailing: Bool
  public var isModelKnown: Bool
  /// Milliseconds since 1970: the earliest time of the next export; nil if it need not wait.
  public var throttledUntil: Int64?

  public init(
    pendingCount: Int64, quarantinedCount: Int = 0, isExporting: Bool = false, isFailing: Bool = false,
    isModelKnown: Bool = true, throttledUntil: Int64? = nil
  ) {
    self.pendingCount = pendingCount
    self.quarantinedCount = quarantinedCount
    self.isExporting = isExporting
    self.isFailing = isFailing
    self.isModelKnown = isModelKnown
    self.throttledUntil = throttledUntil
  }

  /// The present activity of the store's exports, or the thing they wait for.
  public enum Activity: String, Hashable, Sendable, CaseIterable {
    case nothingPending, quarantined, modelUnknown, throttled, failing, exporting
  }

  public var activity: Activity {
    if pendingCount == 0 { return quarantinedCount > 0 ? .quarantined : .nothingPending }
    if !isModelKnown { return .modelUnknown }
    if throttledUntil != nil { return .throttled }
    if isFailing { return .failing }
    return .exporting
  }

  var obstacles: [SyncFacts.Reason] {
    switch activity {
    case .modelUnknown:
      [
        .init(
          code: "modelUnknown",
          text: "The environment does not know the store's model: push it, then set the store up again")
      ]
    case .throttled: [.init(code: "throttled", text: "Exports of the store pause before they are tried again")]
    case .failing:
      [
        .init(
          code: "failing", text: "Exports of the store fail, and the server tries them again; the latest event says why"
        )
      ]
    case .exporting where isExporting: [.init(code: "exporting", text: "An export of the store is under way")]
    case .exporting: [.init(code: "waiting", text: "An export of the store is about to begin")]
    case .nothingPending, .quarantined: []
    }
  }
}
