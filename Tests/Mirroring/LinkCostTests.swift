// Objects with very many links: the cost of finding a pair among them is counted.

import MirroringWorld
import Records
import Testing

@testable import Mirroring

/// A zone in which one tag is linked with many photos.
private struct CrowdedZone: RecordSource {
  let linkCount: Int

  func record(named recordName: String) throws -> SourceRecord? { nil }

  func pointers(to target: String) throws -> [RecordPointer] {
    let photo = target.hasPrefix("p") ? Int(target.dropFirst()) : nil
    let numbers = target == "tag" ? Array(0..<linkCount) : photo.map { [$0] } ?? []
    return numbers.map { RecordPointer(field: ReservedName.linkRecordNames, source: "L\($0)") }
  }
}

@Suite struct `Links of crowded objects` {
  @Test(arguments: [100, 10_000, 100_000]) func `four hundred pairs of one tag cost its links once`(count: Int) throws {
    var overlay = ExportOverlay(source: CrowdedZone(linkCount: count))
    for number in 0..<400 {
      let found =
        try number % 2 == 0 ? overlay.linkCandidates("tag", "p\(number)") : overlay.linkCandidates("p\(number)", "tag")
      #expect(found == (number < count ? ["L\(number)"] : []))
    }
    #expect(overlay.linkCost <= count + 4 * 400, "\(overlay.linkCost)")
  }

  @Test func `links that are made in the same run are found, each once, few or many`() throws {
    for count in [3, 1000] {
      var overlay = ExportOverlay(source: CrowdedZone(linkCount: count))
      #expect(try overlay.linkCandidates("tag", "p2") == ["L2"])
      for number in 0..<500 {
        for end in ["tag", "n\(number)"] {
          overlay.notePointer(from: "N\(number)", field: ReservedName.linkRecordNames, to: end)
        }
      }
      overlay.notePointer(from: "N7", field: ReservedName.linkRecordNames, to: "tag")
      for number in 0..<500 { #expect(try overlay.linkCandidates("tag", "n\(number)") == ["N\(number)"]) }
      #expect(try overlay.linkCandidates("tag", "tag").count == count + 500)
      #expect(try overlay.linkCandidates("tag", "p1") == ["L1"] && overlay.linkCandidates("nobody", "tag") == [])
      // Each lookup at a tag with few links reads those few.
      #expect(overlay.linkCost <= 8 * (count + 500) + 4 * 500, "\(overlay.linkCost)")
    }
  }
}
