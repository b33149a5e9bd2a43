// Contents beside a store: what is to be sent, what is to be fetched, and what can go.

package import FoundationEssentials
package import MirrorWire
import SQLite

extension Replica {
  package func contentsToUpload(for batch: ExportBatch, validAt date: Date) async throws(StoreError) -> [Content] {
    do {
      return try await read { [contents] snapshot in
        try batch.checksums.compactMap { checksum in
          let row = try snapshot.connection.statement(Self.unsent).binding(checksum, date.milliseconds).first {
            $0.int64(0)
          }
          return row.map { Content(ContentName(checksum: checksum, byteCount: $0), contents, nil, nil) }
        }
      }
    } catch { throw storeError(error) }
  }

  package func keepReceipt(_ receipt: AssetReference, for checksum: String, until expiry: Date) async throws(StoreError)
  {
    try await write { writer, _ in
      try writer.connection.statement(Self.keepReceipt).binding(try receipt.json(), expiry.milliseconds, checksum).run()
    }
  }

  package func contentsToDownload(byteLimit: Int64, limit: Int) async throws(StoreError) -> [Content] {
    do {
      return try await read { [contents] snapshot in
        try snapshot.connection.statement(Self.missing).binding(byteLimit, limit).all { row in
          Content(
            ContentName(checksum: row.text(0), byteCount: row.int64(1)), contents, row.optionalText(2),
            row.optionalInt64(3))
        }
      }
    } catch { throw storeError(error) }
  }

  package func content(_ checksum: String) async throws(StoreError) -> (content: Content, owner: AnyObjectID)? {
    do {
      return try await read { [contents] snapshot in
        try snapshot.connection.statement(Self.one).binding(checksum).first { row in
          let content = Content(
            ContentName(checksum: checksum, byteCount: row.int64(0)), contents, row.optionalText(1),
            row.optionalInt64(2))
          let owner =
            try row.optionalInt64(3).flatMap { try snapshot.object($0)?.id }
            ?? AnyObjectID(entityName: "", recordName: "")
          return (content, owner)
        }
      }
    } catch { throw storeError(error) }
  }

  package func keepAddress(_ downloadURL: String, for checksum: String, until expiry: Date) async throws(StoreError) {
    try await write { writer, _ in
      try writer.connection.statement(Self.keepAddress).binding(downloadURL, expiry.milliseconds, checksum).run()
    }
  }

  package func partialPath(of checksum: String) -> String { contents.partialPath(of: checksum) }

  package func acceptContent(_ checksum: String) async throws(StoreError) -> Bool {
    try await write { writer, _ in
      let partial = writer.contents.partialPath(of: checksum)
      try writer.contents.make()
      guard try ContentFile.measure(partial).checksum == checksum else {
        try? FileManager.default.removeItem(atPath: partial)
        return false
      }
      try ContentFile.move(partial, to: writer.contents.path(of: checksum))
      try writer.connection.statement(Self.arrived).binding(writer.now, checksum).run()
      return true
    }
  }

  package func trimContents(to byteCount: Int64) async throws(StoreError) {
    try await write { writer, _ in
      for checksum in writer.contents.takeUsed() {
        try writer.connection.statement(Self.use).binding(writer.now, checksum).run()
      }
      var excess = (try writer.connection.statement(Self.total).first { $0.int64(0) } ?? 0) - byteCount
      let candidates = try writer.connection.statement(Self.removable).all { ($0.text(0), $0.int64(1)) }
      for (checksum, count) in candidates where excess > 0 {
        try writer.connection.statement(Self.gone).binding(checksum).run()
        try? FileManager.default.removeItem(atPath: writer.contents.path(of: checksum))
        excess -= count
      }
    }
  }

  private static let unsent = SQL(
    "content to send",
    "SELECT byteCount FROM content WHERE checksum = ? AND (receipt IS NULL OR receiptExpiry <= ?)")
  private static let keepReceipt = SQL(
    "keep receipt", "UPDATE content SET receipt = ?, receiptExpiry = ? WHERE checksum = ?")
  private static let missing = SQL(
    "missing contents",
    "SELECT checksum, byteCount, downloadURL, expiry FROM content WHERE isHere = 0 AND isAtServer = 1 AND byteCount "
      + "<= ? ORDER BY byteCount, checksum LIMIT ?"
  )
  private static let one = SQL(
    "one content", "SELECT byteCount, downloadURL, expiry, owner FROM content WHERE checksum = ?")
  private static let keepAddress = SQL(
    "keep address", "UPDATE content SET downloadURL = ?, expiry = ? WHERE checksum = ?")
  private static let arrived = SQL("content is here", "UPDATE content SET isHere = 1, usedAt = ? WHERE checksum = ?")
  private static let use = SQL("use content", "UPDATE content SET usedAt = ? WHERE checksum = ?")
  private static let total = SQL("content bytes", "SELECT coalesce(sum(byteCount), 0) FROM content WHERE isHere = 1")
  private static let removable = SQL(
    "removable contents",
    "SELECT checksum, byteCount FROM content WHERE isHere = 1 AND isAtServer = 1 AND receipt IS NULL ORDER BY "
      + "usedAt, checksum"
  )
  private static let gone = SQL("content is gone", "UPDATE content SET isHere = 0 WHERE checksum = ?")
}

extension Content {
  init(_ name: ContentName, _ contents: ContentFolder, _ downloadURL: String?, _ expiry: Int64?) {
    self.init(
      checksum: name.checksum, byteCount: name.byteCount, path: contents.localPath(of: name), downloadURL: downloadURL,
      expiry: expiry.map { Date(milliseconds: $0) })
  }
}
