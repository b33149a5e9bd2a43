// The format change that added providers of identities, the people they identified, and invitations.

extension DirectoryFormat {
  /// A provider without a container is for all. `identity` names issuers, not providers: a provider that is removed and
  /// registered again identifies the same people.
  static let identityTables = """
    CREATE TABLE identityProvider (
      id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE,
      container INTEGER REFERENCES container (id) ON DELETE CASCADE, entry BLOB NOT NULL, issuer TEXT NOT NULL,
      signUp TEXT NOT NULL, created INTEGER NOT NULL);
    CREATE INDEX identityProviderContainer ON identityProvider (container);
    CREATE TABLE identity (
      issuer TEXT NOT NULL, subject TEXT NOT NULL, user INTEGER NOT NULL REFERENCES user (id) ON DELETE CASCADE,
      added INTEGER NOT NULL, PRIMARY KEY (issuer, subject)) WITHOUT ROWID;
    CREATE INDEX identityUser ON identity (user);
    CREATE TABLE invitation (email TEXT COLLATE NOCASE PRIMARY KEY, created INTEGER NOT NULL) WITHOUT ROWID;
    """
}
