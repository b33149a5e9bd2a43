// Contents beside a store: what is to be sent, what is to be fetched, and what can go.

package import FoundationEssentials
package import MirrorWire
import SQLite

extension Replica {
  package func contentsToUpload(for batch: ExportBatch, validAt date: Date) async throws(StoreError) -> [Content] {
    do {
      return try await read { [contents] snapshot in
        try batch.checksums.compactMap { checksum in
          let row = try snapshot.connection.statement(Self.toSend).binding(checksum, date.milliseconds).first {
            (byteCount: $0.int64(0), hasReceipt: $0.bool(1))
          }
          // Of a content that was forgotten nobody knows where it is.
          guard let row else {
            return Content(checksum: checksum, byteCount: 0, path: nil, downloadURL: nil, expiry: nil)
          }
          let name = ContentName(checksum: checksum, byteCount: row.byteCount)
          return row.hasReceipt ? nil : Content(name, contents, nil, nil)
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
    if try await figures().missingContents == 0 { return [] }
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

  package func holders(of checksum: String, limit: Int) async throws(StoreError) -> [AnyObjectID] {
    do {
      return try await read { snapshot in try Self.holders(of: checksum, limit: limit, snapshot) }
    } catch { throw storeError(error) }
  }

  private static func holders(of checksum: String, limit: Int, _ snapshot: Snapshot) throws -> [AnyObjectID] {
    guard let byteCount = try snapshot.connection.statement(one).binding(checksum).first({ $0.int64(0) }) else {
      return []
    }
    let text = ContentName(checksum: checksum, byteCount: byteCount).text
    return try snapshot.schema.all.filter { !$0.isAbstract }.flatMap { entity in
      try holders(entity).map { sql in
        try snapshot.connection.prepare(sql).binding(entity.key, text, limit).all { row in
          AnyObjectID(entityName: entity.name, recordName: RecordName.read(row, 0))
        }
      } ?? []
    }
  }

  /// nil: the entity has no contents.
  private static func holders(_ entity: EntityPlan) -> SQL? {
    let columns = entity.columns.filter { $0.isExternal && $0.isStored }
    if columns.isEmpty { return nil }
    let hasText = columns.map { "e.\($0.quoted) = ?2" }.joined(separator: " OR ")
    return SQL(
      "holders of a content",
      "SELECT o.name FROM \(entity.table) e JOIN object o ON o._pk = e._pk WHERE o.state = 1 AND o.entity = ?1 AND "
        + "(\(hasText)) ORDER BY o.zone IS NULL, o._pk LIMIT ?3")
  }

  package func keepAddress(
    _ downloadURL: String, of owner: AnyObjectID, for checksum: String, until expiry: Date
  ) async throws(StoreError) {
    try await write { writer, _ in
      let key = try writer.snapshot.find(owner.recordName)?.key
      try writer.connection.statement(Self.keepAddress).binding(downloadURL, expiry.milliseconds, key, checksum).run()
    }
  }

  package func forgetAddress(of checksum: String) async throws(StoreError) {
    try await write { writer, _ in
      let isHeld = try !Self.holders(of: checksum, limit: 1, writer.snapshot).isEmpty
      try writer.connection.statement(isHeld ? Self.clearAddress : Self.drop).binding(checksum).run()
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
      if let limit = writer.configuration.contentByteLimit {
        try ContentTrimming(writer).trim(to: limit, keeping: checksum)
      }
      return true
    }
  }

  private static let toSend = SQL(
    "content to send",
    "SELECT byteCount, receipt IS NOT NULL AND receiptExpiry > ?2 FROM content WHERE checksum = ?1")
  private static let keepReceipt = SQL(
    "keep receipt", "UPDATE content SET receipt = ?, receiptExpiry = ? WHERE checksum = ?")
  private static let missing = SQL(
    "missing contents",
    "SELECT checksum, byteCount, downloadURL, expiry FROM content WHERE isHere = 0 AND isAtServer = 1 AND "
      + "downloadURL IS NOT NULL AND byteCount <= ? ORDER BY byteCount, checksum LIMIT ?"
  )
  private static let one = SQL(
    "one content", "SELECT byteCount, downloadURL, expiry, owner FROM content WHERE checksum = ?")
  private static let keepAddress = SQL(
    "keep address", "UPDATE content SET downloadURL = ?, expiry = ?, owner = ? WHERE checksum = ?")
  private static let clearAddress = SQL(
    "clear address", "UPDATE content SET downloadURL = NULL, expiry = NULL WHERE checksum = ? AND isHere = 0")
  private static let drop = SQL("drop content", "DELETE FROM content WHERE checksum = ? AND isHere = 0")
  static let arrived = SQL("content is here", "UPDATE content SET isHere = 1, usedAt = ? WHERE checksum = ?")
}

extension Content {
  init(_ name: ContentName, _ contents: ContentFolder, _ downloadURL: String?, _ expiry: Int64?) {
    self.init(
      checksum: name.checksum, byteCount: name.byteCount, path: contents.localPath(of: name), downloadURL: downloadURL,
      expiry: expiry.map { Date(milliseconds: $0) })
  }
}
