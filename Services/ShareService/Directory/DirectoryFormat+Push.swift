// The format change that added push services and the devices that they wake.

extension DirectoryFormat {
  /// A registration that ended stays without its address for a while, so that notifiers hear of its end.
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
}
