// The answers that processes read, in MessagePack: nothing of them is lost, and nothing else is taken for one.

import MessagePack
import Records
import Testing

@testable import ServiceBus

@Suite struct AnswerPartsTests {
  private let parts = AnswerParts(
    [
      AnswerParts.Part(json: Array(#"{"zoneID":{"zoneName":"ü"}}"#.utf8)),
      AnswerParts.Part(
        json: Array(#"{"serverErrorCode":"ZONE_NOT_FOUND"}"#.utf8),
        error: RecordError(.zoneNotFound, "ø", cocoaErrorCode: .mirroring, httpStatus: 404)),
      AnswerParts.Part(json: []),
    ], syncToken: "AA==", moreComing: true)
  private let page = StoreEventPage(
    [
      StoreEventPage.Event(identifier: "a", begun: [1, 2], ended: [3]),
      StoreEventPage.Event(identifier: "b", begun: [], ended: nil),
    ], lastEvent: "7", moreComing: true)

  @Test func `answers for processes are read as they were written`() throws {
    let read = try AnswerForm.decoded(AnswerParts.self, from: AnswerForm.encoded(parts))
    #expect(read.parts.map(\.json) == parts.parts.map(\.json) && read.parts.map(\.error) == parts.parts.map(\.error))
    #expect(read.parts[1].error == RecordError(.zoneNotFound, "ø", cocoaErrorCode: .mirroring, httpStatus: 404))
    #expect(read.syncToken == "AA==" && read.moreComing)
    #expect(try AnswerForm.decoded(StoreEventPage.self, from: AnswerForm.encoded(page)) == page)
  }

  @Test func `an answer for a process that is cut short or of another kind is refused`() throws {
    for bytes in try [AnswerForm.encoded(parts), AnswerForm.encoded(page)] {
      for count in 0..<bytes.count {
        #expect(throws: RecordError.self) {
          try AnswerForm.decoded(AnswerParts.self, from: Array(bytes[..<count]))
        }
        #expect(throws: RecordError.self) {
          try AnswerForm.decoded(StoreEventPage.self, from: Array(bytes[..<count]))
        }
      }
    }
    #expect(throws: RecordError.self) { try AnswerForm.decoded(AnswerParts.self, from: AnswerForm.encoded(page)) }
    let json = Array(#"{"events":[]}"#.utf8)
    #expect(throws: RecordError.self) { try AnswerForm.decoded(StoreEventPage.self, from: json) }
  }

  @Test func `fields of a newer release in an answer for a process are skipped`() throws {
    var writer = MessagePackWriter()
    writer.mapHeader(3)
    writer.string("of a newer release")
    writer.null()
    writer.string("moreComing")
    writer.bool(false)
    writer.string("parts")
    writer.arrayHeader(1)
    writer.mapHeader(2)
    writer.string("json")
    writer.bytes([7])
    writer.string("of a newer release")
    writer.arrayHeader(0)
    let read = try AnswerForm.decoded(AnswerParts.self, from: writer.bytes)
    #expect(read.parts.map(\.json) == [[7]] && read.parts[0].error == nil && read.syncToken == nil && !read.moreComing)
  }

  @Test func `a request says that it takes parts, and an earlier release's says nothing of it`() throws {
    let database = DatabaseID(
      container: try #require(ContainerID(rawValue: "iCloud.org.example")), environment: .production, owner: "_a")
    for traceID in [nil, "R-1"] {
      let plain = DatabaseRequest(
        .record(.listZones), query: [:], database: database, scope: .shared, caller: Caller(userRecordName: "_b"),
        requestID: "1", baseURL: "", traceID: traceID)
      #expect(try MessagePackValue(parsing: plain.encoded())["takesParts"] == nil)
      #expect(try !DatabaseRequest.decoded(from: plain.encoded()).takesParts)
      let asking = plain.inParts.asking(["a": "b"])
      #expect(asking.takesParts && asking.query == ["a": "b"])
      for bytes in try [asking.encoded(), MessagePackEncoder().encode(asking)] {
        #expect(try DatabaseRequest.decoded(from: bytes).takesParts)
        #expect(try MessagePackDecoder().decode(DatabaseRequest.self, from: bytes).takesParts)
      }
    }
  }
}
