// The stored form of changes that wait.

import History
import Records
import Testing

struct HeldTransactionsTests {
  private static func part(_ author: String?, _ edit: HistoryTransaction.Edit?, _ type: HistoryChange.ChangeType)
    -> HistoryTransaction
  {
    var part = HistoryTransaction(
      transactionID: "", timestamp: 7, author: author,
      changes: [HistoryChange(changeType: type, entity: "Tag", objectID: "A1")])
    part.edit = edit
    return part
  }

  @Test func `several parts come back with their authors and edits`() throws {
    let parts = [
      Self.part("reupload", nil, .insert), Self.part(nil, HistoryTransaction.Edit(base: 3, time: 4), .update),
      Self.part(nil, HistoryTransaction.Edit(base: 9, time: 5), .delete),
    ]
    let held = HeldTransactions(parts)
    #expect(try HeldTransactions(decoding: held.encoded()) == held)
    #expect(held.changes.map(\.changeType) == [.insert, .update, .delete] && held.timestamp == 7)
  }

  @Test func `random parts come back equal, and equal ones have equal bytes`() throws {
    var generator = SplitMix(state: 41)
    for count in 2..<60 {
      let held = HeldTransactions((0..<count).map { _ in HistoryTransaction.random(&generator) })
      let again = try HeldTransactions(decoding: held.encoded())
      #expect(again == held && again.encoded() == held.encoded())
    }
  }

  /// Shards that earlier releases wrote have these bytes, and so do most of today's rows.
  @Test func `a single part is stored as a transaction, and what an earlier release stored is read without an author`()
    throws
  {
    var part = Self.part(nil, nil, .insert)
    for edit in [nil, HistoryTransaction.Edit(base: 3, time: 4)] {
      part.edit = edit
      #expect(HeldTransactions([part]).encoded() == part.encoded())
      let held = try HeldTransactions(decoding: part.encoded())
      #expect(held.parts == [part] && held.parts[0].author == nil)
    }
  }

  /// Shards have these bytes, so they never change.
  @Test func `the format has not changed`() throws {
    let held = HeldTransactions([Self.part("reupload", nil, .insert), Self.part(nil, nil, .update)])
    let blobs = held.parts.map { $0.encoded() }
    let golden: [UInt8] = [0x93, 3] + blobs.flatMap { [0xc4, UInt8($0.count)] + $0 }
    #expect(held.encoded() == golden)
  }

  @Test func `a later format is named, and damaged bytes are refused`() {
    #expect(throws: StoredFormatError.unknownFormat(4)) { _ = try HeldTransactions(decoding: [0x92, 4, 0xc0]) }
    let part = Self.part(nil, nil, .insert).encoded()
    let one: [UInt8] = [0x92, 3, 0xc4, UInt8(part.count)] + part
    for blob: [UInt8] in [[], [0x91, 3], [0x92, 3, 0xc0], one, one + [0], [0x93, 3, 0xc4, 0, 0xc4, 0]] {
      #expect(throws: StoredFormatError.self) { _ = try HeldTransactions(decoding: blob) }
    }
  }
}
