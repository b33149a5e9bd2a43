// The statements about references between records.

/// On `reference`.
enum ReferenceQuery: Int, Query {
  static var subject: QuerySubject { .reference }

  case toTarget, sources, sourceCount, children
  case insert, delete

  func text(_ dialect: Dialect) -> String {
    switch self {
    case .toTarget:
      """
      SELECT f.field, r.name FROM reference f JOIN record r ON r.id = f.source WHERE f.zone = ?1 AND f.target = ?2 \
      LIMIT ?3
      """
    case .sources:
      """
      SELECT DISTINCT r.name FROM reference f \(dialect.orderedJoin) record r ON r.id = f.source
        WHERE f.zone = ?1 AND f.target = ?2 AND f.field BETWEEN ?3 AND ?4 LIMIT ?5
      """
    case .sourceCount:
      "SELECT count(DISTINCT source) FROM reference WHERE zone = ?1 AND target = ?2 AND field BETWEEN ?3 AND ?4"
    case .children:
      """
      SELECT r.name FROM reference f \(dialect.orderedJoin) record r ON r.id = f.source \
      WHERE f.zone = ?1 AND f.target = ?2 AND f.field = ?3 LIMIT ?4
      """

    case .insert: "INSERT INTO reference(zone, target, field, source) VALUES (?1, ?2, ?3, ?4)"
    case .delete: "DELETE FROM reference WHERE zone = ?1 AND target = ?2 AND field = ?3 AND source = ?4"
    }
  }

  var rowsText: String? {
    self == .insert ? "INSERT INTO reference(zone, target, field, source) " + Self.rows("ibii") : nil
  }
}
