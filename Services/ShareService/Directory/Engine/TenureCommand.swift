// The commands that decide who leads, of the share services of a database.

import PostgreSQL

/// On `tenure` and `pulse`.
enum TenureCommand: String {
  case hold = "SELECT pg_try_advisory_lock(hashtext('aquifer'), hashtext($1))"
  case look = "SELECT epoch, commits FROM tenure"
  case lock = "SELECT epoch, commits FROM tenure FOR UPDATE"
  case raise = "UPDATE tenure SET epoch = greatest(epoch + 1, $1) RETURNING epoch, commits"
  case count = "UPDATE tenure SET commits = $1"
  case lastKey = "SELECT lastval()"
  case takePulse = "UPDATE pulse SET epoch = $1, beat = beat + 1"
  case beat = "UPDATE pulse SET beat = beat + 1 WHERE epoch = $1"
  case epoch = "SELECT epoch FROM pulse"
  case pulse = "SELECT epoch, beat FROM pulse"
  case isHeld = "SELECT EXISTS (SELECT 1 FROM {lock})"
  /// Ends the session that has the lock, and waits for that. A role may end its own sessions.
  case end = "SELECT pg_terminate_backend(pid, 1000) FROM {lock}"
  case isSynchronous = """
    SELECT current_setting('synchronous_commit') IN ('on', 'remote_apply')
      AND current_setting('synchronous_standby_names') <> ''
    """
  case isThere = "SELECT to_regclass('tenure') IS NOT NULL"
  case isEmpty = "SELECT NOT EXISTS (SELECT 1 FROM value)"
  case make = "INSERT INTO tenure(format, epoch, commits) VALUES (0, 0, 0)"
  case makePulse = "INSERT INTO pulse(epoch, beat) VALUES (0, 0)"
  case format = "SELECT format FROM tenure FOR UPDATE"
  case setFormat = "UPDATE tenure SET format = $1"

  var command: Command { Command("tenure.\(self)", rawValue.replacing("{lock}", with: Self.heldLock)) }

  /// The lock of a schema, if a session has it; with the number of a process, only if it is that one's.
  private static let heldLock = """
    pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 2
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND classid = hashtext('aquifer')::oid AND objid = hashtext($1)::oid AND ($2 = 0 OR pid = $2)
    """
}
