// The format change that added the staff: roles, sessions of the console, and the audit of operator calls.

extension DirectoryFormat {
  /// A role without a container is an operator's. A session without a user was opened with the operator token, whose
  /// hash it has: it ends when the token changes. `act` has no foreign keys, because it outlives users and containers.
  static let staffTables = """
    CREATE TABLE staffRole (
      user INTEGER NOT NULL REFERENCES user (id) ON DELETE CASCADE, container INTEGER REFERENCES container (id) ON \
    DELETE CASCADE,
      granted INTEGER NOT NULL);
    CREATE UNIQUE INDEX staffRoleUser ON staffRole (user, ifnull(container, 0));
    CREATE INDEX staffRoleContainer ON staffRole (container);
    CREATE TABLE consoleSession (
      hash BLOB PRIMARY KEY, user INTEGER REFERENCES user (id) ON DELETE CASCADE, operatorToken BLOB, created INTEGER \
    NOT NULL,
      expires INTEGER NOT NULL) WITHOUT ROWID;
    CREATE INDEX consoleSessionUser ON consoleSession (user);
    CREATE INDEX consoleSessionExpires ON consoleSession (expires);
    CREATE TABLE act (
      number INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, name TEXT NOT NULL, role TEXT NOT NULL, container \
    TEXT,
      method TEXT NOT NULL, path TEXT NOT NULL, query TEXT NOT NULL, status INTEGER);
    CREATE INDEX actContainer ON act (container, number);
    """
}
