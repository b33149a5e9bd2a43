// Turns failures of the directory into the errors that callers see; no other place does.

import Records
import SQLite

extension RecordError {
  /// The error for a failure of the directory that is no refusal of its own.
  init(ofDirectory error: any Error) {
    switch error {
    case let error as SQLiteError where error.isFull: self = .noSpace
    // The next call opens the file again.
    case let error as SQLiteError where error.isSyncError || error.isClosed:
      self.init(
        .tryAgainLater, "The directory's disk failed; check whether the change was made before you repeat it",
        retryAfter: 1)
    default: self.init(.internalError, "The directory failed; nothing changed")
    }
  }
}
