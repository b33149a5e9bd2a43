// The format change that added passwords, sessions and used signatures.

import SQLite

extension DirectoryFormat {
  /// Takes time in proportion to the server keys: each gets a user of its own, which it acts as.
  ///
  /// A token is refused from `sessionToken.expires` on; for a rotated token this is the end of the grace period.
  /// `usedSignature` holds digests of a key and a signature until the signature's date is too old anyway.
  static let accountTables = """
    ALTER TABLE user ADD COLUMN passwordHash TEXT;
    ALTER TABLE user ADD COLUMN isDiscoverable INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE apiToken ADD COLUMN callbackURL TEXT;
    ALTER TABLE serverKey ADD COLUMN user INTEGER REFERENCES user (id);
    INSERT INTO user (recordName, name, created) SELECT '_' || lower(hex(randomblob(16))), 'key-' || substr(keyID, 1, \
    16), created FROM serverKey;
    UPDATE serverKey SET user = (SELECT id FROM user WHERE user.name = 'key-' || substr(keyID, 1, 16));
    CREATE TABLE session (
      id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, user INTEGER NOT NULL REFERENCES user (id) ON DELETE CASCADE,
      container INTEGER NOT NULL REFERENCES container (id) ON DELETE CASCADE, environment TEXT NOT NULL,
      lifetime INTEGER NOT NULL, created INTEGER NOT NULL, expires INTEGER NOT NULL);
    CREATE INDEX sessionUser ON session (user, id);
    CREATE INDEX sessionExpires ON session (expires);
    CREATE INDEX sessionContainer ON session (container);
    CREATE TABLE sessionToken (
      hash BLOB PRIMARY KEY, session INTEGER NOT NULL REFERENCES session (id) ON DELETE CASCADE,
      created INTEGER NOT NULL, expires INTEGER NOT NULL, isRotated INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;
    CREATE INDEX sessionTokenSession ON sessionToken (session);
    CREATE INDEX sessionTokenExpires ON sessionToken (expires);
    CREATE TABLE usedSignature (digest BLOB PRIMARY KEY, request TEXT NOT NULL, expires INTEGER NOT NULL) WITHOUT ROWID;
    CREATE INDEX usedSignatureExpires ON usedSignature (expires);
    """
}
