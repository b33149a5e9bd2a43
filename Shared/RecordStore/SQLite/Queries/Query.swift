// The statements that stores and snapshots run. Each subject has one enum of them, and a connection prepares each once.

import SQLite

/// The subjects of statements.
enum QuerySubject: Int, CaseIterable {
  case shard, database, zone, sweep, record, past, reference, placement, asset, subscription, index, redirect
  case mirror, history, settled, event, quarantine, conflict, recovery, share, member, outcome, cut

  /// The most statements of one subject.
  static let statementLimit = 32
}

/// The statements about one subject. In errors a statement is named after its subject and case, as in `zone.byName`.
protocol Query: RawRepresentable<Int>, CaseIterable, Sendable {
  static var subject: QuerySubject { get }
  /// SQL with numbered parameters (`?1`). One text for both engines, except where their dialects part.
  func text(_ dialect: Dialect) -> String
  /// True for a write to a row that look-ups are fetched of, if its caller forgets the fetched answer about that row.
  /// Other writes make all answers about their table stale (`FetchedRows`).
  var tellsItsRow: Bool { get }
  /// PostgreSQL's statement for many rows of an insertion, whose parameters are arrays. Rows that wait for each other
  /// can be written behind rows of other tables, so only insertions that depend on none have one.
  var rowsText: String? { get }
  /// The types of the parameters, a letter for each as in `rows`, if many look-ups of the statement can be one in
  /// PostgreSQL. It has at most one row.
  var lookupTypes: String? { get }
  /// The bytes after which an answer to many look-ups ends, with the row that passes them; nil for rows without large
  /// values. Each row of a limited answer also has the sum up to it, before its number.
  var lookupByteLimit: Int? { get }
  /// The bytes of a row that count. The length of a large value is known without the value.
  var lookupByteCount: String { get }
}

extension Query {
  var tellsItsRow: Bool { false }
  var rowsText: String? { nil }
  var lookupTypes: String? { nil }
  var lookupByteLimit: Int? { nil }
  var lookupByteCount: String { "octet_length(data)" }

  /// The rows of arrays, which are the parameters from the first one on.
  /// - Parameter types: a letter for each: `i` bigint, `b` bytea, `t` text.
  static func rows(_ types: String) -> String { "SELECT * FROM \(unnest(types))" }

  private static func unnest(_ types: String) -> String {
    let names: [Character: String] = ["i": "bigint", "b": "bytea", "t": "text"]
    let arrays = types.enumerated().map { "?\($0.offset + 1)::\(names[$0.element] ?? "")[]" }
    return "unnest(\(arrays.joined(separator: ", ")))"
  }

  /// PostgreSQL's statement for many look-ups; nil if there is none. The limit makes it look each row up by the index
  /// that the statement itself uses, whatever the server knows of the table.
  var lookupsText: String? {
    lookupTypes.map { types in
      let names = types.indices.map { "v\(types.distance(from: types.startIndex, to: $0) + 1)" }
      let rows = """
        FROM \(Self.unnest(types)) WITH ORDINALITY AS sought(\(names.joined(separator: ", ")), number) \
        CROSS JOIN LATERAL (\(text(.postgreSQL).replacing("?", with: "sought.v")) LIMIT 1) AS found
        """
      guard let limit = lookupByteLimit else { return "SELECT found.*, number \(rows)" }
      return """
        SELECT * FROM (SELECT found.*, \
        sum(\(lookupByteCount)) OVER (ORDER BY number ROWS UNBOUNDED PRECEDING) AS size, number \(rows)) AS sums \
        WHERE size - \(lookupByteCount) <= \(limit)
        """
    }
  }

  /// The rows of a statement that come before a limit of bytes, and the one that passes it. PostgreSQL sends all rows
  /// of an answer before the first one is read; SQLite reads row by row. The length of a large value is known without
  /// the value.
  /// - Parameters:
  ///   - columns: the statement's, with `data` among them.
  ///   - order: the statement's.
  ///   - parameter: the place of the limit.
  static func within(
    _ dialect: Dialect, _ text: String, columns: String, order: String, byteLimit parameter: Int
  ) -> String {
    if dialect == .sqlite { return text }
    return """
      SELECT \(columns) FROM (SELECT found.*, \
      sum(octet_length(data)) OVER (ORDER BY \(order) ROWS UNBOUNDED PRECEDING) AS size FROM (\(text)) AS found) \
      AS sums WHERE size - octet_length(data) <= ?\(parameter) ORDER BY \(order)
      """
  }

  /// The statement's index in a connection's list of prepared statements.
  var place: Int { Self.subject.rawValue * QuerySubject.statementLimit + rawValue }

  func sql(_ dialect: Dialect) -> SQL { SQL("\(Self.subject).\(self)", text(dialect)) }
}

extension Connection {
  /// The statement of a query, outside a session.
  func statement(_ query: some Query) throws(SQLiteError) -> Statement { try statement(query.sql(.sqlite)) }
}
