// Continuation markers of queries: where the next page begins, in the query's own order, so that changes between pages shift nothing.

import Crypto
import JSON
public import Records

/// The last record of a page, or the last that was looked at.
public struct QueryMarker: Hashable, Sendable {
  public let zoneName: String
  public let recordName: String
  /// One an order of the query (`RecordQuery.sortKeys`); bounded, whatever the values are.
  public let sortKeys: [[UInt8]]

  public init(zoneName: String, recordName: String, sortKeys: [[UInt8]]) {
    self.zoneName = zoneName
    self.recordName = recordName
    self.sortKeys = sortKeys
  }

  private static let checksumByteCount = 16

  /// Opaque to clients: base64 of JSON and a checksum over it and the query.
  public func text(for query: RecordQuery) -> String {
    var writer = JSONWriter()
    writer.beginArray()
    writer.string(zoneName)
    writer.string(recordName)
    for key in sortKeys { writer.string(Base64.encode(key)) }
    writer.endArray()
    return Base64.encode(writer.bytes + Self.checksum(writer.bytes, query))
  }

  /// - Throws: `BAD_REQUEST` for a marker that was cut or altered, or comes from another query.
  public init(_ text: String, for query: RecordQuery) throws(RecordError) {
    guard let bytes = Base64.decode(text), bytes.count > Self.checksumByteCount else { throw SyncToken.Refusal.invalidFormat.recordError }
    let json = Array(bytes.dropLast(Self.checksumByteCount))
    guard Self.checksum(json, query).elementsEqual(bytes.suffix(Self.checksumByteCount)), let parts = Self.elements(json),
      parts.count == query.orders.count + 2, let zoneName = parts[0].string, let recordName = parts[1].string
    else { throw SyncToken.Refusal.invalidFormat.recordError }
    self.init(zoneName: zoneName, recordName: recordName, sortKeys: parts.dropFirst(2).map { $0.base64 ?? [] })
  }

  private static func elements(_ json: [UInt8]) -> [JSONValue]? {
    // Dropped because what is not JSON is refused like every other marker that was not made here.
    (try? JSONValue(parsing: json))?.elements
  }

  private static func checksum(_ json: [UInt8], _ query: RecordQuery) -> [UInt8] {
    Array(SHA256.hash(json + Array(String(describing: query).utf8)).prefix(checksumByteCount))
  }
}
