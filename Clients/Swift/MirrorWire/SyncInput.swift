// What a store's mirroring is told, and what it decides: the alphabet of `SyncMachine`.

/// What happens to a store.
public enum SyncInput: Hashable, Sendable {
  case started(SyncFacts)
  case stopped
  /// The app saved something that is to be sent.
  case saved
  /// Somebody else may have changed something; also: pings are connected again.
  case pinged
  /// Somebody waits until all is sent and imported, and the server can tell others of it; false: nobody any more.
  case syncWanted(Bool)
  case online(Bool)
  case paused(Bool)
  /// There is a user again.
  case signedIn
  /// The app wants everything imported anew, in a second copy.
  case resetWanted
  /// The wait with this number is over.
  case timer(Int)
  /// What was under way ended.
  case answered(SyncAnswer)
}

/// What the file says when mirroring begins.
public struct SyncFacts: Hashable, Sendable {
  /// The server took this model and identifier before.
  public var isSetUp: Bool
  public var hasPending: Bool
  /// Something was sent, and its answer never became part of the file (K3).
  public var hasUnknownFate: Bool
  /// Resets since the last complete import.
  public var resetCount: Int
  /// There is a notifier; else imports wait at the server.
  public var hasPings: Bool

  public init(isSetUp: Bool, hasPending: Bool, hasUnknownFate: Bool, resetCount: Int = 0, hasPings: Bool = true) {
    self.isSetUp = isSetUp
    self.hasPending = hasPending
    self.hasUnknownFate = hasUnknownFate
    self.resetCount = resetCount
    self.hasPings = hasPings
  }
}

/// How something that was under way ended. What a success tells is in the file already (K2).
public enum SyncAnswer: Hashable, Sendable {
  case isSetUp
  case exported(hasMore: Bool)
  /// The refused saves are set aside, or the batch is made smaller (K14).
  case setAside(hasMore: Bool)
  case imported(hasMore: Bool, isCaughtUp: Bool)
  case reset
  /// The saves that the server may have lost wait again.
  case restored
  /// There was nothing to do, or a waiting import was ended.
  case nothing
  case failed(SyncFailure)
}

public enum SyncFailure: Error, Hashable, Sendable {
  case server(ServerError)
  /// No whole answer came; the server may have acted.
  case transport(String)
  /// The caller ended it.
  case cancelled
  /// The disk is full.
  case full
  /// The file or an answer is not what it should be.
  case damaged(String)
}

/// What to do now.
public enum SyncOutput: Hashable, Sendable {
  case setUp
  /// Sends the next batch, or the one whose fate is unknown again.
  case export
  /// Asks for the next page and applies it.
  /// - Parameter waits: the server holds the request while there is nothing.
  case importPage(waits: Bool)
  /// Ends the import that waits at the server.
  case endWait
  /// Sets the saves that the server refused aside.
  case setAside(ServerError)
  /// Begins a second copy that is imported from the beginning (K13).
  case reset
  /// Puts the saves of the last time back into the outbox.
  case restore
  case abandonReset
  case openPings
  /// Gives `timer` with this number later. A wait replaces the one before.
  case wait(Duration, Int)
  case emit(SyncEvent)
}

/// The beginning and the end of a setup, an export, or a run of pages.
public enum SyncEvent: Hashable, Sendable {
  public enum Kind: Int, Hashable, Sendable { case setUp, `import`, export }
  case began(Kind)
  case ended(Kind, SyncFailure?)
}

/// Why a store does nothing, or that it works.
public enum SyncIdle: String, Hashable, Sendable, CaseIterable {
  case nothingPending, working, offline, signedOut, throttled, paused, modelUnknown, leaseLost, diskFull
  /// Resets did not end (134410), or the server refuses what can't be mended here.
  case failed
}
