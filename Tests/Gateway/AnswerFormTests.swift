// A gateway reads workers' answers in parts, and the JSON of workers of earlier releases, as the same.

import HTTPServer
import JSON
import Records
import ServiceBus
import Synchronization
import Testing

@testable import Gateway

@Suite struct AnswerFormTests {
  private static let path = "/database/1/\(GatewayWorld.container)/development/shared"
  private static let missing = RecordError(.zoneNotFound, "There is no zone")

  /// Answers with a zone and an error; `_ann`'s worker in the form that it was asked for, `_bea`'s always in JSON.
  private static let worker: GatewayWorld.Worker = { _, request, _ in
    let owner = request.database.owner
    let zone = #"{"zoneID":{"zoneName":"Trips","ownerRecordName":"\#(owner)"}}"#
    let error = #"{"serverErrorCode":"ZONE_NOT_FOUND","reason":"There is no zone"}"#
    let token = SyncToken(.database, incarnation: 7, sequence: 9).text
    guard request.takesParts, owner == "_ann" else {
      let body = #"{"zones":[\#(zone),\#(error)],"syncToken":"\#(token)","moreComing":true}"#
      return Answer(DatabaseRequest.Reply(status: 200), body: Array(body.utf8))
    }
    let parts = AnswerParts(
      [AnswerParts.Part(json: Array(zone.utf8)), AnswerParts.Part(json: Array(error.utf8), error: missing)],
      syncToken: token, moreComing: true)
    return Answer(
      DatabaseRequest.Reply(status: 200, contentType: AnswerForm.contentType), body: try AnswerForm.encoded(parts))
  }

  @Test(arguments: ["zones/list", "zones/lookup", "changes/database"])
  func `parts of a worker of this release and of one before it are joined alike`(call: String) async throws {
    let world = try await GatewayWorld(workers: ["worker-1", "worker-2"], worker: Self.worker)
    world.record.withLock { record in
      record.sharedZones = ["_ann", "_bea"].map {
        .init(owner: $0, zones: [.init(zoneName: "Trips", isActive: true, sequence: 1)])
      }
    }
    let zones = ["_ann", "_bea"].flatMap { owner in
      ["Trips", "Gone"].map { #"{"zoneID":{"zoneName":"\#($0)","ownerRecordName":"\#(owner)"}}"# }
    }
    let body = call == "zones/lookup" ? #"{"zones":[\#(zones.joined(separator: ","))]}"# : "{}"
    let answer = try await world.alice(.post, "\(Self.path)/\(call)", body: body).json
    #expect(
      answer["zones"]?.elements.map { $0["zoneID"]?["ownerRecordName"]?.string ?? $0["reason"]?.string }
        == ["_ann", "There is no zone", "_bea", "There is no zone"])
    if call == "changes/database" {
      #expect(answer["moreComing"]?.bool == true)
      let next = await world.alice(
        .post, "\(Self.path)/changes/database", body: #"{"syncToken":"\#(answer["syncToken"]?.string ?? "")"}"#)
      #expect(next.status == 200)
      let asked = world.requests.suffix(2).map { (try? JSONValue(parsing: $0.body))?["syncToken"]?.string }
      #expect(asked == Array(repeating: SyncToken(.database, incarnation: 7, sequence: 9).text, count: 2))
    }
    #expect(world.requests.map(\.request.takesParts).allSatisfy { $0 })
  }

  @Test func `an answer in parts that can't be read counts as none`() async throws {
    let world = try await GatewayWorld(worker: { _, request, _ in
      let isBroken = request.database.owner == "_ann"
      return Answer(
        DatabaseRequest.Reply(status: 200, contentType: isBroken ? AnswerForm.contentType : nil),
        body: Array(#"{"zones":[{"zone":"B"}]}"#.utf8))
    })
    world.record.withLock { record in
      record.sharedZones = ["_ann", "_bea"].map {
        .init(owner: $0, zones: [.init(zoneName: "Trips", isActive: true, sequence: 1)])
      }
    }
    let zones = try await world.alice(.post, "\(Self.path)/zones/list").json["zones"]?.elements ?? []
    #expect(zones.map { $0["serverErrorCode"]?.string ?? $0["zone"]?.string } == ["INTERNAL_ERROR", "B"])
  }

  @Test func `events in parts make the stream that events in JSON make`() async throws {
    func event(_ end: String?) -> String {
      let end = end.map { #""\#($0)""# } ?? "null"
      return #"{"identifier":"a","endDate":\#(end),"succeeded":\#(end != "null"),"error":null,"counts":{"saved":0}}"#
    }
    let (begun, ended) = (event(nil), event("2026-11-20T07:33:25.000Z"))
    var streams: [[UInt8]] = []
    for isEarlier in [true, false] {
      let world = try await GatewayWorld(worker: { _, request, _ in
        #expect(request.takesParts && request.query["wait"] == "60")
        if isEarlier {
          let body = #"{"events":[\#(ended)],"lastEvent":"4","moreComing":false}"#
          return Answer(DatabaseRequest.Reply(status: 200), body: Array(body.utf8))
        }
        let page = StoreEventPage(
          [StoreEventPage.Event(identifier: "a", begun: Array(begun.utf8), ended: Array(ended.utf8))],
          lastEvent: "4", moreComing: false)
        return Answer(
          DatabaseRequest.Reply(status: 200, contentType: AnswerForm.contentType), body: try AnswerForm.encoded(page))
      })
      let response = await world.alice(
        .get, "\(GatewayWorld.stores)/S/events", headers: [("accept", "text/event-stream")])
      guard case .stream(let stream) = response.body else {
        Issue.record("no stream: \(response.status)")
        return
      }
      var iterator = stream.makeAsyncIterator()
      streams.append(try #require(await iterator.next(isolation: nil)))
    }
    #expect(streams[0] == streams[1])
    #expect(
      String(decoding: streams[1], as: UTF8.self) == ": connected\n\ndata: \(begun)\n\nid: 4\ndata: \(ended)\n\n")
  }
}
