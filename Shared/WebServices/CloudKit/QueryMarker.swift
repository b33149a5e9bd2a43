// Continuation markers of queries: the next page's start in the query's own order, so that changes between pages move
// no record.

import Crypto
import JSON
public import Records

/// The last record of a page, or the last one that was looked at.
public struct QueryMarker: Hashable, Sendable {
  public let zoneName: String
  public let recordName: String
  /// One key per order of the query (`RecordQuery.sortKeys`), each of bounded length.
  public let sortKeys: [[UInt8]]

  public init(zoneName: String, recordName: String, sortKeys: [[UInt8]]) {
    self.zoneName = zoneName
    self.recordName = recordName
    self.sortKeys = sortKeys
  }

  /// Makes and reads the texts of markers, for one caller in one database.
  public struct Maker: Sendable {
    private let seal: Seal
    private let reader: String

    /// - Parameters:
    ///   - key: the installation's signing key.
    ///   - userRecordName: nil for an app without a user.
    public init(key: [UInt8], database: DatabaseID, userRecordName: String?) {
      seal = Seal(key: key, purpose: "aquifer query marker")
      reader =
        "\(database.container.rawValue)\n\(database.environment.rawValue)\n\(database.owner)\n\(userRecordName ?? "")\n"
    }

    fileprivate func seal(_ json: [UInt8], _ query: RecordQuery) -> [UInt8] { seal.seal(json, in: context(query)) }
    fileprivate func open(_ sealed: [UInt8], _ query: RecordQuery) -> [UInt8]? { seal.open(sealed, in: context(query)) }
    private func context(_ query: RecordQuery) -> [UInt8] { Array((reader + String(describing: query)).utf8) }
  }

  /// Sealed texts are padded to multiples of this length, so that they reveal little about the names in them.
  private static let paddedByteCount = 64

  /// Base64 of sealed JSON, which only the server can open, and only for the same query of the same caller: the marker
  /// may name a record that the caller may not read.
  public func text(for query: RecordQuery, by maker: Maker) -> String {
    var writer = JSONWriter()
    writer.beginArray()
    writer.string(zoneName)
    writer.string(recordName)
    for key in sortKeys { writer.string(Base64.encode(key)) }
    writer.endArray()
    let padding = (Self.paddedByteCount - writer.bytes.count % Self.paddedByteCount) % Self.paddedByteCount
    return Base64.encode(maker.seal(writer.bytes + [UInt8](repeating: UInt8(ascii: " "), count: padding), query))
  }

  /// - Throws: `BAD_REQUEST` for a marker that is damaged, or belongs to another query or caller.
  public init(_ text: String, for query: RecordQuery, by maker: Maker) throws(RecordError) {
    guard let bytes = Base64.decode(text), let json = maker.open(bytes, query), let parts = Self.elements(json),
      parts.count == query.orders.count + 2,
      let zoneName = parts[0].string, let recordName = parts[1].string
    else { throw SyncToken.Refusal.invalidFormat.recordError }
    self.init(zoneName: zoneName, recordName: recordName, sortKeys: parts.dropFirst(2).map { $0.base64 ?? [] })
  }

  private static func elements(_ json: [UInt8]) -> [JSONValue]? {
    // Dropped because bytes that are no JSON are refused like every other invalid marker.
    (try? JSONValue(parsing: json))?.elements
  }
}
