// The format change that added the audit of sign-ins, and the origin of sessions.

extension DirectoryFormat {
  /// `signIn` has no foreign keys, because it outlives users and containers. Its user is a record name.
  static let signInTables = """
    CREATE TABLE signIn (
      number INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, way TEXT NOT NULL, provider TEXT, user TEXT,
      container TEXT, environment TEXT, address TEXT NOT NULL, client TEXT, session TEXT, refusal TEXT);
    CREATE INDEX signInAt ON signIn (at);
    CREATE INDEX signInUser ON signIn (user, number);
    CREATE INDEX signInContainer ON signIn (container, number);
    ALTER TABLE session ADD COLUMN way TEXT;
    ALTER TABLE session ADD COLUMN provider TEXT;
    ALTER TABLE session ADD COLUMN client TEXT;
    """
}
