// What a person or an app is told about a store's mirroring.

public import FoundationEssentials
package import MirrorWire
public import ReplicaStore

/// What a store has to send and to fetch, and why it does nothing.
public struct SyncStatus: Sendable, Equatable {
  /// Why a store sends and fetches nothing now.
  public enum Idle: String, Sendable, CaseIterable {
    case nothingPending
    /// It is not idle.
    case working
    case offline, signedOut
    /// The store has the objects of another account.
    case accountChanged
    /// The server asked for a pause, until `throttledUntil`.
    case throttled
    /// `setPaused(true)`, or mirroring was not started.
    case paused
    /// All is sent but what waits among the rejections.
    case rejected
    /// The environment lacks something of the model, which `schemaGap` names.
    case modelUnknown
    /// Another process mirrors the same store.
    case leaseLost
    case diskFull
    /// Resets did not end (134410), or the server refuses what can't be mended here.
    case failed
  }

  /// Steps of the server's sequence.
  public struct Progress: Sendable, Equatable {
    public let done: Int64
    public let total: Int64
  }

  public internal(set) var pendingTransactions = 0
  public internal(set) var pendingObjects = 0
  public internal(set) var pendingByteCount = 0
  public internal(set) var rejectedCount = 0
  /// Conflicts of the database that wait for a person's decision at the server, as the last import told: two people
  /// edited an attribute whose policy is `manual`.
  public internal(set) var conflictCount = 0
  /// Contents that are still to be fetched when they are read.
  public internal(set) var missingContents = 0
  /// nil: no run of pages is under way.
  public internal(set) var importProgress: Progress?
  public internal(set) var isInitialImportDone = false
  /// Nothing is pending, and the last page was the last one.
  public internal(set) var isCaughtUp = false
  public internal(set) var idle = Idle.paused
  public internal(set) var throttledUntil: Date?
  /// Of `modelUnknown`: what an operator's `aquifer model push` adds, as `CD_Type.field`.
  public internal(set) var schemaGap: [String] = []
  /// What went wrong last; nil after a success.
  public internal(set) var lastError: StoreError?
}

extension SyncStatus {
  package mutating func take(_ figures: MirrorFigures) {
    pendingTransactions = figures.pendingTransactions
    pendingObjects = figures.pendingObjects
    pendingByteCount = figures.pendingByteCount
    rejectedCount = figures.rejectedCount
    missingContents = figures.missingContents
  }

  package mutating func take(_ idle: SyncIdle, _ failure: SyncFailure?) {
    self.idle = Idle(rawValue: idle.rawValue) ?? .working
    if self.idle == .nothingPending, rejectedCount > 0 { self.idle = .rejected }
    if self.idle == .signedOut, failure?.isOfAccountChange == true { self.idle = .accountChanged }
    lastError = failure.map { StoreError($0) }
    guard case .server(let error)? = failure else { return schemaGap = [] }
    schemaGap = error.missingFields
  }

  /// What waiting does not mend; nil while it may.
  var refusal: StoreError? {
    switch idle {
    case .signedOut: .signedOut
    case .accountChanged: .accountChanged
    case .modelUnknown: .modelUnknown(missing: schemaGap)
    default: nil
    }
  }
}

extension StoreError {
  package init(_ failure: SyncFailure) {
    self =
      switch failure {
      case .transport, .cancelled: .offline
      case .full: .full
      case .damaged(let reason): .damaged(reason)
      case .server(let error) where error.remedy == .reachServer: .offline
      case .server(let error) where error.remedy == .signIn: .signedOut
      case .server(let error) where error.remedy == .waitForModel: .modelUnknown(missing: error.missingFields)
      case .server where failure.isOfAccountChange: .accountChanged
      case .server(let error):
        .server(
          ckErrorCode: error.ckErrorCode ?? 0, cocoaErrorCode: error.cocoaErrorCode, reason: error.reason,
          requestID: error.requestID ?? "")
      }
  }
}

extension ServerError {
  /// The fields of `schemaGap`, as `CD_Type.field`.
  fileprivate var missingFields: [String] {
    schemaGap?.map { $0.recordType + ($0.field.map { ".\($0)" } ?? "") } ?? []
  }
}

extension SyncFailure {
  fileprivate var isOfAccountChange: Bool {
    if case .server(let error) = self { error.cocoaErrorCode == ServerError.accountChanged } else { false }
  }

  init(_ error: StoreError) {
    self =
      switch error {
      case .full: .full
      default: .damaged("\(error)")
      }
  }
}
