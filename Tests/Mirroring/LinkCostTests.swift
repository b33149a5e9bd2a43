// Objects with very many links and pointers: the cost of finding a pair or a member among them is counted.

import History
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

/// A zone in which attachments, and as many links, point to one post.
private struct LargePost: RecordSource {
  let attachmentCount: Int
  var linkCount = 0

  func record(named recordName: String) throws -> SourceRecord? {
    let isPost = recordName == "p"
    let fields: Fields = isPost ? [:] : ["CD_post": .string("p")]
    return SourceRecord(
      record: MirroringWorld.record(isPost ? "CD_Post" : "CD_Attachment", recordName, fields), isDeleted: false)
  }

  func pointers(to target: String) throws -> [RecordPointer] {
    guard target == "p" else { return [] }
    return (0..<attachmentCount).map { RecordPointer(field: "CD_post", source: "a\($0)") }
      + (0..<linkCount).map { RecordPointer(field: ReservedName.linkRecordNames, source: "L\($0)") }
  }

  func exporter() -> Exporter {
    Exporter(
      model: Sample.index, links: Sample.links, source: self, serializer: Serializer(contents: TestAssets()),
      stamp: Stamp(timestamp: 1, userRecordName: "u"), makeRecordName: { "L" })
  }
}

@Suite struct `Members of large sets` {
  private let emptied = update("Post", "p", [:], ["attachments": .toMany([])])

  @Test func `a set that is emptied again and again costs its members once, and once more to find them gone`() throws {
    var exporter = LargePost(attachmentCount: 2000).exporter()
    try exporter.apply(transaction(Array(repeating: emptied, count: 400)))
    let cost = exporter.overlay.pointerCost
    #expect(cost == 2 * 2000)
    #expect(exporter.plan().writes.count == 2000)
  }

  @Test func `a member that is put into the set again is found again, from either side`() throws {
    var exporter = LargePost(attachmentCount: 100).exporter()
    func members() throws -> [String]? {
      try exporter.sets(of: "p", entity: Sample.entity("Post")).first { $0.name == "attachments" }?.objectIDs
    }
    try exporter.apply(transaction([emptied, emptied]))
    #expect(try members() == [])
    let pointer = update("Attachment", "a7", [:], ["post": .toOne("p")])
    let member = update("Post", "p", [:], ["attachments": .toManyDelta(add: ["a9"], remove: [])])
    try exporter.apply(transaction([pointer, member]))
    #expect(try members() == ["a7", "a9"])
    try exporter.apply(transaction([emptied, emptied]))
    #expect(try members() == [])
    try exporter.apply(transaction([pointer]))
    #expect(try members() == ["a7"])
    let names = exporter.plan().writes.map(\.item.recordName)
    #expect(names.count == 99 && !names.contains("a7"))
  }

  @Test func `a pointer by one field is looked for among the records that point by it alone`() throws {
    var exporter = LargePost(attachmentCount: 0, linkCount: 1000).exporter()
    try exporter.apply(transaction([update("Post", "p", [:], ["cover": .toOne(nil)])]))
    let cost = exporter.overlay.pointerCost
    #expect(cost == 0)
  }
}
