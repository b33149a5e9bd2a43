// The commands that decide who leads, of the share services of a database.

import PostgreSQL

/// On `tenure` and `pulse`.
enum TenureCommand: String {
  case look = "SELECT epoch, commits FROM tenure"
  case lock = "SELECT epoch, commits FROM tenure FOR UPDATE"
  case raise = "UPDATE tenure SET epoch = greatest(epoch + 1, $1) RETURNING epoch, commits"
  case count = "UPDATE tenure SET commits = $1"
  case lastKey = "SELECT lastval()"
  case takePulse = "UPDATE pulse SET epoch = $1, beat = beat + 1"
  case beat = "UPDATE pulse SET beat = beat + 1 WHERE epoch = $1"
  case epoch = "SELECT epoch FROM pulse"
  case pulse = "SELECT epoch, beat FROM pulse"
  case isThere = "SELECT to_regclass('tenure') IS NOT NULL"
  case isEmpty = "SELECT NOT EXISTS (SELECT 1 FROM value)"
  case signingKey = "SELECT content FROM value WHERE name = 'signingKey'"
  case make = "INSERT INTO tenure(format, epoch, commits) VALUES (0, 0, 0)"
  case makePulse = "INSERT INTO pulse(epoch, beat) VALUES (0, 0)"
  case format = "SELECT format FROM tenure FOR UPDATE"
  case setFormat = "UPDATE tenure SET format = $1"

  var command: Command { Command("tenure.\(self)", rawValue) }
}
