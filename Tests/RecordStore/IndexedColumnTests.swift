import PostgreSQL
import Testing

@testable import RecordStore

/// PostgreSQL keeps a new version of a row in its page, without entries in any index, if no index names a column that
/// the update changes, not even in its condition.
struct IndexedColumnTests {
  @Test(arguments: [
    ("database", ["seq", "bytes", "generation", "placed", "shared", "events", "conflicts"]),
    ("mirror", ["last", "exported", "slice", "imported", "purged"]), ("tenure", ["commits"]),
  ])
  func `no index names a column that commits write`(table: String, columns: [String]) async throws {
    let places = try Places()
    await (try await places.store(isInDatabase: true).open(shard: 0)).close()
    let session = try Session(places.database.session(ofShard: 0))
    let found = try session.rows(
      Command("columns", "SELECT column_name::text FROM information_schema.columns WHERE table_schema = $1"),
      [.text(places.database.schema(ofShard: 0))]
    ).map { try $0.text(0) }
    #expect(Set(columns).isSubset(of: found))
    let definitions = try session.rows(
      Command("indexes", "SELECT indexdef FROM pg_indexes WHERE schemaname = $1 AND tablename = $2"),
      [.text(places.database.schema(ofShard: 0)), .text(table)]
    ).map { try $0.text(0) }
    for definition in definitions {
      let words = Set(definition.split { !$0.isLetter && $0 != "_" }.map(String.init))
      #expect(words.isDisjoint(with: columns), "\(definition)")
    }
  }
}
