// Tests of the import tokens of shared stores.

import JSON
import ObjectModel
import RecordStore
import Records
import ServiceBus
import Sharing
import Synchronization
import Testing

@testable import SharedStores

struct SharedImportTokenTests {
  @Test func `tokens of many owners are read as they were written, and altered ones are refused`() throws {
    var token = SharedImportToken()
    for number in 0..<SharedImportToken.ownerLimit {
      token["_owner\(number)"] = SyncToken(
        .importBatch,
        [
          SyncToken.Position(incarnation: .max - UInt64(number), sequence: .max),
          SyncToken.Position(incarnation: 1, sequence: 0),
          SyncToken.Position(incarnation: 2, sequence: Int64(number) << 20),
        ])
    }
    #expect(try SharedImportToken(token.text) == token)
    #expect(token.text.utf8.count < 7000)
    let text = token.text
    #expect(throws: SyncToken.Refusal.invalidFormat) {
      try SharedImportToken("U" + "wEB" + String(text.dropFirst(4).reversed()))
    }
    #expect(throws: SyncToken.Refusal.unknownType) { try SharedImportToken("") }
    #expect(throws: SyncToken.Refusal.unknownType) {
      try SharedImportToken(SyncToken(.importBatch, incarnation: 1, sequence: 1).text)
    }
  }
}
