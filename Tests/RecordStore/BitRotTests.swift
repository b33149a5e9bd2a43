import Foundation
import RecordStore
import Records
import Sanitizers
import Testing

/// Bytes that flip in the file while it is closed.
struct BitRotTests {
  @Test
  func `a byte that flipped anywhere in the file is reported or harmless, and what is read is never another value`()
    async throws
  {
    let rig = try DiskFaultTests.Rig(checkpointPages: 1000)
    let shard = try await rig.open()
    let place = try await Place(in: shard)
    var expected: [String: StoredRecord] = [:]
    for number in 0..<25 {
      let stored = try await shard.write {
        try $0.save(
          Sample.note("note \(number)", title: String(repeating: "\(number) ", count: 1 + number * 40)), in: place)
      }
      expected[stored.record.recordName] = stored
    }
    await shard.close()
    let path = rig.folder.path + "/shard-0.sqlite"
    var whole = rig.disk.contentAfterPowerCut(seed: nil)
    // Emptied when the shard was closed, without a sync: with the log the file would be written again.
    whole[path + "-wal"] = []
    let size = try #require(whole[path]?.count)
    var random = SeededGenerator(seed: 20_261_122)
    var (refused, reported, harmless) = (0, 0, 0)
    for round in Sanitizer.few(12, of: 0..<40) {
      var contents = whole
      let offset = Int.random(in: 0..<size, using: &random)
      contents[path]?[offset] ^= UInt8.random(in: 1...255, using: &random)
      try rig.disk.restart(with: contents)
      let shard: any ShardStore
      do {
        shard = try await rig.open()
      } catch {
        #expect(error is StoreError, "round \(round): \(error)")
        refused += 1
        continue
      }
      var isSeen = false
      for (name, record) in expected {
        do {
          let found = try await shard.read { try $0.record(named: name, in: place.zone) }
          if found == nil { isSeen = true } else { #expect(found == record, "round \(round), byte \(offset)") }
        } catch {
          isSeen = true
        }
      }
      do {
        let isReported = try await !shard.verify(readsAssets: false).problems.isEmpty
        if isReported { reported += 1 } else { harmless += 1 }
        #expect(isReported || !isSeen, "byte \(offset): only reads notice")
      } catch {
        reported += 1
      }
      await shard.close()
    }
    print(
      """
      bytes flipped in the file: \(refused) refused when opened, \(reported) reported by verification, \(harmless) in \
      what nobody reads
      """
    )
    #expect(refused + reported > 3)
  }
}
