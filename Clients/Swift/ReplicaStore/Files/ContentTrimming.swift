// Removes contents that the server has, so that those on the device do not fill it.

import FoundationEssentials
import SQLite

struct ContentTrimming {
  private let writer: Writer
  private var connection: Connection { writer.connection }

  init(_ writer: Writer) { self.writer = writer }

  /// Removes contents that were not read for the longest time until so many bytes are left. They come again when they
  /// are read.
  /// - Parameter checksum: of the content that arrived just now, which stays.
  func trim(to byteCount: Int64, keeping checksum: String) throws {
    for used in writer.contents.takeUsed() { try connection.statement(Self.use).binding(writer.now, used).run() }
    var excess = (try connection.statement(Self.total).first { $0.int64(0) } ?? 0) - byteCount
    let candidates = try connection.statement(Self.removable).binding(checksum).all { ($0.text(0), $0.int64(1)) }
    for (checksum, count) in candidates where excess > 0 {
      try connection.statement(Self.gone).binding(checksum).run()
      // Dropped because a file that can't be removed does no harm.
      try? FileManager.default.removeItem(atPath: writer.contents.path(of: checksum))
      excess -= count
    }
  }

  private static let use = SQL("use content", "UPDATE content SET usedAt = ? WHERE checksum = ?")
  private static let total = SQL("content bytes", "SELECT coalesce(sum(byteCount), 0) FROM content WHERE isHere = 1")
  private static let removable = SQL(
    "removable contents",
    "SELECT checksum, byteCount FROM content WHERE isHere = 1 AND isAtServer = 1 AND receipt IS NULL AND "
      // The server's copies went with a zone whose objects are not all in the outbox yet.
      + "checksum <> ? AND NOT EXISTS (SELECT 1 FROM endedZone) ORDER BY usedAt, checksum"
  )
  private static let gone = SQL(
    "content is gone", "UPDATE content SET isHere = 0, downloadURL = NULL, expiry = NULL WHERE checksum = ?")
}
