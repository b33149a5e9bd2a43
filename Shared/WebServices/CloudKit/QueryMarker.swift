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

  /// What makes and reads texts of markers: for the caller in one database, and nobody else.
  public struct Maker: Sendable {
    private let seal: Seal
    private let reader: String

    /// - Parameters:
    ///   - key: the installation's signing key.
    ///   - userRecordName: nil: an app without a user.
    public init(key: [UInt8], database: DatabaseID, userRecordName: String?) {
      seal = Seal(key: key, purpose: "aquifer query marker")
      reader = "\(database.container.rawValue)\n\(database.environment.rawValue)\n\(database.owner)\n\(userRecordName ?? "")\n"
    }

    fileprivate func seal(_ json: [UInt8], _ query: RecordQuery) -> [UInt8] { seal.seal(json, in: context(query)) }
    fileprivate func open(_ sealed: [UInt8], _ query: RecordQuery) -> [UInt8]? { seal.open(sealed, in: context(query)) }
    private func context(_ query: RecordQuery) -> [UInt8] { Array((reader + String(describing: query)).utf8) }
  }

  /// Of which the sealed text's length is a multiple, so that it says little of the names in it.
  private static let paddedByteCount = 64

  /// Base64 of JSON that only the server can read, and only for the same query of the same caller: the marker may name a record that the caller
  /// may not read.
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

  /// - Throws: `BAD_REQUEST` for a marker that was cut or altered, or comes from another query or caller.
  public init(_ text: String, for query: RecordQuery, by maker: Maker) throws(RecordError) {
    guard let bytes = Base64.decode(text), let json = maker.open(bytes, query), let parts = Self.elements(json), parts.count == query.orders.count + 2,
      let zoneName = parts[0].string, let recordName = parts[1].string
    else { throw SyncToken.Refusal.invalidFormat.recordError }
    self.init(zoneName: zoneName, recordName: recordName, sortKeys: parts.dropFirst(2).map { $0.base64 ?? [] })
  }

  private static func elements(_ json: [UInt8]) -> [JSONValue]? {
    // Dropped because what is not JSON is refused like every other marker that was not made here.
    (try? JSONValue(parsing: json))?.elements
  }
}
