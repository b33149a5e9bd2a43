// What the user may do, as far as the server has told it.

import SQLite

struct CachedRights {
  private let connection: Connection

  init(_ connection: Connection) { self.connection = connection }

  /// What the server says of the object itself, else of its zone; what nobody has told is allowed.
  func of(_ object: Int64, zone: Int64?) throws -> (canUpdate: Bool, canDelete: Bool) {
    let own = try connection.statement(Self.ownPermission).binding(object).first { ($0.bool(0), $0.bool(1)) }
    if let own { return (own.0, own.1) }
    guard let zone, try permission(ofZone: zone) == ZonePermission.readOnly.rawValue else { return (true, true) }
    return (false, false)
  }

  func permission(ofZone zone: Int64) throws -> Int? {
    try connection.statement(Self.permissionOfZone).binding(zone).first { $0.int(0) }
  }

  private static let ownPermission = SQL("permission", "SELECT canUpdate, canDelete FROM permission WHERE object = ?")
  private static let permissionOfZone = SQL("zone permission", "SELECT permission FROM zone WHERE key = ?")
}
