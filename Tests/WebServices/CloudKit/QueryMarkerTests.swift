// Tests of the markers by which a query goes on.

import Crypto
import Indexing
import JSON
import ObjectModel
import Records
import Testing

@testable import WebServices

extension `Queries` {
  private func maker(_ user: String? = "_alice", key: [UInt8] = [7], owner: String = "_alice") throws
    -> QueryMarker.Maker
  {
    let database = DatabaseID(
      container: try #require(ContainerID(rawValue: "iCloud.a")), environment: .development, owner: owner)
    return QueryMarker.Maker(key: key, database: database, userRecordName: user)
  }

  @Test func `a marker can't be read, nor made, nor used by another, whatever is changed of it`() throws {
    let query = try Self.query(orders: #"[{"fieldName":"string"}]"#)
    let marker = QueryMarker(
      zoneName: "Trips", recordName: "somebody's secret name", sortKeys: [Array("secret value".utf8)])
    let maker = try maker()
    let text = marker.text(for: query, by: maker)
    let bytes = try #require(Base64.decode(text))
    for secret in ["secret", "Trips", Base64.encode(Array("secret value".utf8))] {
      #expect(bytes.firstRange(of: Array(secret.utf8)) == nil)
    }
    for index in bytes.indices {
      var altered = bytes
      altered[index] ^= 1
      #expect(throws: RecordError.self) { try QueryMarker(Base64.encode(altered), for: query, by: maker) }
    }
    for other in [
      try self.maker("_bob"), try self.maker(nil), try self.maker(key: [8]), try self.maker(owner: "_public"),
    ] {
      #expect(throws: RecordError.self) { try QueryMarker(text, for: query, by: other) }
    }
    let longer = QueryMarker(zoneName: "Trips", recordName: "somebody's secret name!", sortKeys: marker.sortKeys)
    #expect(longer.text(for: query, by: maker).utf8.count == text.utf8.count, "its length says little of the name's")
  }

  @Test func `a marker comes back as it was, for its own query alone`() throws {
    let maker = try maker()
    let query = try Self.query(
      orders:
        #"""
        [{"fieldName":"int64"},{"fieldName":"string"},{"fieldName":"reference"},{"fieldName":"double"},\#
        {"fieldName":"none"}]
        """#
    )
    let marker = QueryMarker(zoneName: "Trips", recordName: "m", sortKeys: query.sortKeys(of: Self.record))
    let text = marker.text(for: query, by: maker)
    #expect(try QueryMarker(text, for: query, by: maker) == marker)
    var long = Self.record
    long.fields["string"] = Field(.string(String(repeating: "é", count: 100_000)))
    #expect(
      QueryMarker(zoneName: "Trips", recordName: "m", sortKeys: query.sortKeys(of: long)).text(for: query, by: maker)
        .utf8.count < 1000)
    let refusal = RecordError(.badRequest, "Invalid continuation format")
    #expect(throws: refusal) { try QueryMarker(text, for: RecordQuery(recordType: "Note"), by: maker) }
    #expect(throws: refusal) { try QueryMarker(String(text.dropLast(4)), for: query, by: maker) }
    #expect(throws: refusal) { try QueryMarker("", for: query, by: maker) }
    #expect(throws: refusal) { try QueryMarker("not base64!", for: query, by: maker) }
  }
}
