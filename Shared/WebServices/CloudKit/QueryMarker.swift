// Continuation markers of queries: where the next page begins, in the query's own order, so that changes between pages shift nothing.

import Crypto
import JSON
public import Records

/// The last record of a page.
public struct QueryMarker: Hashable, Sendable {
  public let zoneName: String
  public let recordName: String
  /// One an order of the query (`RecordQuery.sortValues`).
  public let sortValues: [FieldValue?]

  public init(zoneName: String, recordName: String, sortValues: [FieldValue?]) {
    self.zoneName = zoneName
    self.recordName = recordName
    self.sortValues = sortValues
  }

  private static let checksumByteCount = 16

  /// Opaque to clients: base64 of JSON and a checksum over it and the query.
  public func text(for query: RecordQuery) -> String {
    var writer = JSONWriter()
    writer.beginArray()
    writer.string(zoneName)
    writer.string(recordName)
    for value in sortValues { Self.write(value, to: &writer) }
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
    self.init(zoneName: zoneName, recordName: recordName, sortValues: parts.dropFirst(2).map(Self.read))
  }

  private static func elements(_ json: [UInt8]) -> [JSONValue]? {
    // Dropped because what is not JSON is refused like every other marker that was not made here.
    (try? JSONValue(parsing: json))?.elements
  }

  private static func checksum(_ json: [UInt8], _ query: RecordQuery) -> [UInt8] {
    Array(SHA256.hash(json + Array(String(describing: query).utf8)).prefix(checksumByteCount))
  }

  /// Values without an order count by their type alone.
  private static func write(_ value: FieldValue?, to writer: inout JSONWriter) {
    guard let value else { return writer.null() }
    writer.beginArray()
    writer.integer(Int64(value.type.rawValue))
    switch value {
    case .int64(let number), .timestamp(let number): writer.integer(number)
    case .double(let number) where number.isFinite: writer.double(number)
    case .string(let text): writer.string(text)
    case .reference(let reference): writer.string(reference.recordName)
    default: break
    }
    writer.endArray()
  }

  private static func read(_ json: JSONValue) -> FieldValue? {
    let parts = json.elements
    guard let raw = parts.first?.int64, let type = UInt8(exactly: raw).flatMap(FieldType.init(rawValue:)) else { return nil }
    let value = parts.dropFirst().first
    switch type {
    case .int64: return value?.int64.map { .int64($0) }
    case .timestamp: return value?.int64.map { .timestamp($0) }
    case .double: return value?.double.map { .double($0) }
    case .string: return value?.string.map { .string($0) }
    case .reference: return value?.string.map { .reference(Reference(recordName: $0, action: .none)) }
    case .bytes: return .bytes([])
    case .location: return .location(Location(latitude: 0, longitude: 0))
    case .asset: return .asset(Asset(hash: [], byteCount: 0))
    default: return type.element.map { .list(element: $0, []) }
    }
  }
}
