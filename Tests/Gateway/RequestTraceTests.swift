import Foundation
import HTTPServer
import JSON
import ServiceBus
import ServiceKit
import Synchronization
import Testing

@testable import Gateway

struct RequestTraceTests {
  @Test func `a request has its client's name in the answer, in errors and on the bus, and repeats nothing by it`()
    async throws
  {
    let world = try await GatewayWorld()
    let path = "\(GatewayWorld.records)/records/modify"
    for _ in 0..<2 {
      let saved = await world.alice(.post, path, headers: [("x-apple-request-uuid", "R-1")])
      #expect(saved.header("X-Apple-Request-UUID") == "R-1")
    }
    let requests = world.requests
    #expect(requests.map(\.request.traceID) == ["R-1", "R-1"])
    #expect(Set(requests.map(\.request.requestID)).count == 2, "only X-Request-ID says that a request is a repetition")
    let refused = await world.alice(
      .get, path, headers: [("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")])
    #expect(try refused.json["uuid"]?.string == "0af7651916cd43dd8448eb211c80319c")
  }

  @Test func `a request that asks to be held is not counted among those that are quick`() async throws {
    let world = try await GatewayWorld()
    _ = await world.alice(.get, "\(GatewayWorld.stores)/S/status", query: [("wait", "1"), ("after", "1")])
    var counts = String(decoding: await world.metrics.text(), as: UTF8.self)
    #expect(counts.contains("aquifer_http_held_request_duration_seconds_count{"))
    #expect(!counts.contains("aquifer_http_request_duration_seconds_count{"))
    // Nobody is held for these.
    _ = await world.alice(.get, "\(GatewayWorld.stores)/S/changes", query: [("wait", "0")])
    _ = await world.alice(.get, "\(GatewayWorld.stores)/S/history", query: [("wait", "1")])
    counts = String(decoding: await world.metrics.text(), as: UTF8.self)
    #expect(counts.contains("aquifer_http_request_duration_seconds_count{"))
  }
}
