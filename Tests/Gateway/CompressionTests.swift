import CDeflate
import HTTPServer
import InMemoryServiceBus
import Records
import ServiceBus
import ServiceKit
import Testing

@testable import Gateway

@Suite struct ContentCodingTests {
  @Test(
    arguments: [
      ([], false), ([""], false), (["gzip"], true), (["GZIP"], true), (["x-gzip"], true), (["br, gzip"], true),
      (["br"], false), (["*"], true),
      (["gzip;q=0"], false), (["gzip; q=0.000, *"], false), (["*;q=0"], false), (["gzip;q=0.001"], true),
      (["gzip ; Q=0.5"], true), (["gzip;q=1.000"], true),
      (["identity"], false), (["identity;q=0"], false), (["identity;q=0, gzip"], true),
      (["identity;q=0.5, gzip;q=0.4"], false), (["identity;q=0.5, gzip;q=0.5"], true),
      (["identity;q=0.9, *;q=0.8"], false), (["br", "gzip"], true), (["gzip;q=0", "x-gzip"], true),
      (["gzip;q=2"], false), (["gzip;q=1.5"], false), (["gzip;q="], false), (["gzip;q=x"], false),
      (["gzip;q=0,5"], false), (["gzip;level=9"], false),
      (["gzip;q=0.0001"], false), (["gzip;q=1;q=0"], false), (["gzipped"], false), ([",, ,gzip"], true),
      (["gzip,deflate\u{0}"], true),
    ] as [([String], Bool)])
  func `weights choose between gzip and the plain answer`(values: [String], isCompressed: Bool) {
    #expect(ContentCoding.prefersGzip([("host", "gzip")] + values.map { ("accept-encoding", $0) }) == isCompressed)
  }

  @Test func `JSON above a kilobyte is compressed, and nothing else`() {
    func response(_ type: String?, _ body: HTTPResponse.Body) -> HTTPResponse {
      HTTPResponse(status: 200, headers: type.map { [("Content-Type", $0)] } ?? [], body: body)
    }
    let long = [UInt8](repeating: 0x20, count: 1025)
    #expect(response("application/json", .bytes(long)).isCompressible)
    #expect(!response("application/json", .bytes(Array(long.dropLast()))).isCompressible)
    for type in ["text/html; charset=utf-8", "application/octet-stream", "image/jpeg", "text/event-stream", nil] {
      #expect(!response(type, .bytes(long)).isCompressible, "\(type ?? "")")
    }
    #expect(!response("application/json", .content(FoundContent([], 0), offset: 0, byteCount: 5000)).isCompressible)
    #expect(!response("application/json", .stream(AsyncStream { $0.finish() })).isCompressible)
  }
}

@Suite struct CompressionTests {
  private static let page = Array(
    (#"{"changes":["# + (0..<500).map { #"{"objectID":"\#($0)"}"# }.joined(separator: ",") + "]}").utf8)
  private static let gzip = [("accept-encoding", "gzip")]

  private func world(_ body: [UInt8] = page, type: String? = nil) async throws -> GatewayWorld {
    try await GatewayWorld { _, _, _ in Answer(DatabaseRequest.Reply(status: 200, contentType: type), body: body) }
  }

  /// Decompresses with libdeflate, which checks length and checksum.
  private func expanded(_ bytes: [UInt8], to byteCount: Int) -> [UInt8]? {
    let decompressor = libdeflate_alloc_decompressor()
    defer { libdeflate_free_decompressor(decompressor) }
    var result = [UInt8](repeating: 0, count: byteCount)
    let outcome = result.withUnsafeMutableBytes { room in
      bytes.withUnsafeBytes {
        libdeflate_gzip_decompress(decompressor, $0.baseAddress, $0.count, room.baseAddress, room.count, nil)
      }
    }
    return outcome == LIBDEFLATE_SUCCESS ? result : nil
  }

  @Test func `a client that accepts gzip gets the same bytes in fewer`() async throws {
    let world = try await world()
    let path = "\(GatewayWorld.stores)/S/changes"
    let plain = await world.alice(.get, path)
    #expect(plain.bytes == Self.page)
    #expect(plain.header("Content-Encoding") == nil && plain.header("Vary") == "Accept-Encoding")
    let compressed = await world.alice(.get, path, headers: Self.gzip)
    #expect(
      compressed.status == 200 && compressed.header("Content-Encoding") == "gzip"
        && compressed.header("Vary") == "Accept-Encoding")
    #expect(compressed.header("Content-Type") == "application/json")
    #expect(compressed.bytes.count < Self.page.count / 4)
    #expect(expanded(compressed.bytes, to: Self.page.count) == Self.page)
    #expect(compressed.party == plain.party && compressed.party != nil)
    let record = await world.alice(.post, "\(GatewayWorld.records)/records/query", headers: Self.gzip)
    #expect(expanded(record.bytes, to: Self.page.count) == Self.page)
    let document = await world.respond(.get, "/openapi.json", headers: Self.gzip)
    #expect(expanded(document.bytes, to: Gateway.openAPI.count) == Gateway.openAPI)
  }

  @Test func `short answers, pages for people and content that can't be shortened stay as they are`() async throws {
    let short = try await world(Array("{}".utf8))
    let answer = await short.alice(.get, "\(GatewayWorld.stores)/S/changes", headers: Self.gzip)
    #expect(answer.text == "{}" && answer.header("Vary") == nil && answer.header("Content-Encoding") == nil)
    let page = await short.respond(.get, "/signin", headers: Self.gzip)
    #expect(page.bytes.count > 1024 && page.header("Content-Encoding") == nil)
    var noise: UInt64 = 1
    let bytes = (0..<4096).map { _ -> UInt8 in
      noise = noise &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return UInt8(truncatingIfNeeded: noise >> 33)
    }
    let noisy = await (try world(bytes)).alice(.get, "\(GatewayWorld.stores)/S/changes", headers: Self.gzip)
    #expect(
      noisy.bytes == bytes && noisy.header("Content-Encoding") == nil && noisy.header("Vary") == "Accept-Encoding")
    let lines = await (try world(type: "application/x-ndjson")).alice(
      .get, "\(GatewayWorld.stores)/S/changes", headers: Self.gzip)
    #expect(lines.bytes == Self.page && lines.header("Vary") == nil)
  }

  @Test func `a party has one lane, all have two, and an answer without one goes out plain`() async throws {
    let metrics = Metrics()
    let compression = AnswerCompression(GatewayMetrics(metrics))
    let first = try #require(compression.take("alice"))
    #expect(compression.take("alice") == nil)
    let second = try #require(compression.take("bob"))
    #expect(compression.take("cid") == nil)
    var response = HTTPResponse(status: 200, headers: [("Content-Type", "application/json")], body: .bytes(Self.page))
    await compression.compress(&response, party: "cid")
    #expect(response.bytes == Self.page && response.header("Content-Encoding") == nil)
    compression.give(first, back: "alice")
    await compression.compress(&response, party: "cid")
    #expect(response.header("Content-Encoding") == "gzip" && expanded(response.bytes, to: Self.page.count) == Self.page)
    compression.give(second, back: "bob")
    #expect(compression.take("bob") != nil && compression.take("cid") != nil)
  }
}
