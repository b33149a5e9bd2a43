// Turns failures of the directory into the errors that callers see; no other place does.

import Records

extension RecordError {
  /// The error for a failure of the directory that is no refusal of its own.
  init(ofDirectory error: any Error) {
    self =
      (error as? any DirectoryEngineError)?.recordError
      ?? RecordError(.internalError, "The directory failed; nothing changed")
  }
}
