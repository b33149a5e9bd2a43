// Leaves out the rows that a division has left of databases that another shard has, wherever rows are found without
// their database.

extension SQLiteSnapshot {
  /// Reads pages of rows until one page of the shard's own is full.
  /// - Parameters:
  ///   - place: the place before the first row.
  ///   - limit: of the page, and of what `read` returns.
  ///   - read: returns the rows after a place.
  final func own<Row, Place>(
    after place: Place, _ limit: Int, placeOf: (Row) -> Place, isOther: (Row) throws -> Bool,
    _ read: (Place) throws -> [Row]
  ) throws -> [Row] {
    if others.isEmpty { return try read(place) }
    var (found, last) = ([Row](), place)
    while found.count < limit {
      let rows = try read(last)
      try found += rows.filter { try !isOther($0) }
      guard rows.count == limit, let end = rows.last else { break }
      last = placeOf(end)
    }
    return Array(found.prefix(limit))
  }

  final func isOther(mirror: Int64) throws -> Bool {
    try self.mirror(key: mirror).map { others.contains($0.databaseKey) } ?? true
  }

  /// Reads no row unless there are some of other databases.
  final func isOther(zone: Int64) throws -> Bool {
    if others.isEmpty { return false }
    return try self.zone(key: zone).map { others.contains($0.databaseKey) } ?? true
  }
}
