// The format changes that added push services, the devices that they wake, and the ends of registrations.

extension DirectoryFormat {
  /// In this format a registration that ended stayed without its address.
  static let pushTables = """
    CREATE TABLE pushService (
      id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE,
      container INTEGER REFERENCES container (id) ON DELETE CASCADE, entry BLOB NOT NULL, created INTEGER NOT NULL);
    CREATE INDEX pushServiceContainer ON pushService (container);
    CREATE TABLE pushRegistration (
      id INTEGER PRIMARY KEY, revision INTEGER NOT NULL UNIQUE,
      user INTEGER NOT NULL REFERENCES user (id) ON DELETE CASCADE,
      container INTEGER NOT NULL REFERENCES container (id) ON DELETE CASCADE, environment TEXT NOT NULL,
      target BLOB NOT NULL, clientID TEXT NOT NULL, grantText TEXT NOT NULL, hearsEveryZone INTEGER NOT NULL,
      address BLOB, renewed INTEGER NOT NULL, UNIQUE (user, container, environment, target));
    CREATE INDEX pushRegistrationContainer ON pushRegistration (container);
    CREATE INDEX pushRegistrationEnded ON pushRegistration (renewed) WHERE address IS NULL;
    """

  /// Notifiers hear of an end by its row, for a while. No row of `pushRegistration` is without an address any more.
  static let registrationEndTable = """
    CREATE TABLE pushRegistrationEnd (
      id INTEGER PRIMARY KEY, revision INTEGER NOT NULL UNIQUE, ended INTEGER NOT NULL);
    CREATE INDEX pushRegistrationEndTime ON pushRegistrationEnd (ended);
    INSERT INTO pushRegistrationEnd SELECT id, revision, renewed FROM pushRegistration WHERE address IS NULL;
    DROP INDEX pushRegistrationEnded;
    DELETE FROM pushRegistration WHERE address IS NULL;
    CREATE INDEX pushRegistrationGrant ON pushRegistration (grantText);
    """
}
