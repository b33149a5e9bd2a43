// Lists that end at a limit of rows or of bytes.

import RecordStore
import Records

extension InMemoryTransaction {
  func recordByteCount(of recordName: String, in zone: Int64) throws -> Int {
    rows.records[zone]?[recordName]?.stored.record.encoded().count ?? 0
  }
}

extension Array where Element: Sendable {
  /// The first `limit` elements, up to the one by which their records pass a limit of bytes.
  func page(_ limit: Int, _ byteLimit: Int, _ record: (Element) -> StoredRecord) -> RowPage<Element> {
    var byteCount = 0
    var page = RowPage<Element>()
    for element in first(limit) {
      page.rows.append(element)
      if byteLimit == .max { continue }
      byteCount += record(element).record.encoded().count
      if byteCount > byteLimit { return page }
    }
    page.isAtEnd = page.rows.count < limit
    return page
  }
}

extension [StoredRecord] {
  func page(_ limit: Int, _ byteLimit: Int) -> RowPage<StoredRecord> { page(limit, byteLimit) { $0 } }
}
