// The statements about outcomes of earlier requests.

/// On `outcome`.
enum OutcomeQuery: Int, Query {
  static var subject: QuerySubject { .outcome }

  case byKey, last, newest, old, insert, forget

  var lookupTypes: String? { self == .byKey ? "b" : nil }

  func text(_ dialect: Dialect) -> String {
    switch self {
    case .byKey: "SELECT payload FROM outcome WHERE key = ?1"
    case .last: "SELECT max(id) FROM outcome WHERE id >= ?1 AND id < ?2"
    case .newest: "SELECT max(id) FROM outcome"
    case .old: "SELECT max(id) FROM (SELECT id FROM outcome WHERE id < ?1 ORDER BY id LIMIT ?2) AS old"
    case .insert: "INSERT INTO outcome(id, key, payload) VALUES (?1, ?2, ?3)"
    case .forget: "DELETE FROM outcome WHERE id <= ?1"
    }
  }

  var tellsItsRow: Bool { self == .insert }

  var rowsText: String? { self == .insert ? "INSERT INTO outcome(id, key, payload) " + Self.rows("ibb") : nil }
}
