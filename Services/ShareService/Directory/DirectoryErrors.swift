// The one place where the directory's failures become errors that callers see.

import Records
import SQLite

extension RecordError {
  /// What an error means that the directory threw and that is not its own refusal.
  init(ofDirectory error: any Error) {
    switch error {
    case let error as SQLiteError where error.isFull: self = .noSpace
    // The file is opened again by whoever asks next.
    case let error as SQLiteError where error.isSyncError || error.isClosed:
      self.init(.tryAgainLater, "The directory's disk failed; look whether it was done before repeating it", retryAfter: 1)
    default: self.init(.internalError, "The directory failed; nothing was changed")
    }
  }
}
