import Assets
import Authentication
import Foundation
import FoundationNetworking
import HTTPServer
import JSON
import Records
import ServiceKit
import Synchronization
import Testing
import WebServices

@testable import Gateway

/// A folder that is removed with the test.
private final class Spool: Sendable {
  let path = NSTemporaryDirectory() + "aquifer-uploads-\(UUID().uuidString)"
  // Dropped because a failed removal must not hide the test's own failure.
  deinit { try? FileManager.default.removeItem(atPath: path) }

  var files: [String] {
    let folders = (try? FileManager.default.contentsOfDirectory(atPath: path + "/uploads")) ?? []
    return folders.flatMap { (try? FileManager.default.contentsOfDirectory(atPath: "\(path)/uploads/\($0)")) ?? [] }
  }
}

struct AssetUploadTests {
  /// - Parameter byteCount: the announced length; nil: none.
  private static func request(
    _ path: String, _ method: HTTPMethod = .post, byteCount: Int? = nil, sink: (any HTTPBodySink)? = nil
  ) -> HTTPRequest {
    HTTPRequest(
      method: method, target: path, pathSegments: path.split(separator: "/").map(String.init), query: [],
      headers: [("origin", "https://app.example")] + (byteCount.map { [("content-length", String($0))] } ?? []),
      body: [], sink: sink,
      remoteAddress: "127.0.0.1")
  }

  private static func path(expiry: Int64 = 1_700_000_900, user: String = "_alice") throws -> String {
    let container = try #require(ContainerID(rawValue: GatewayWorld.container))
    return AssetUploadURL(
      user: AssetUser(container: container, environment: .development, userRecordName: user), expiry: expiry
    )
    .path(signedWith: GatewayWorld.signingKey)
  }

  /// The answer to an upload.
  private static func upload(_ content: [UInt8], to path: String, _ world: GatewayWorld) async throws -> HTTPResponse {
    switch world.gateway.intake(of: request(path, byteCount: content.count)) {
    case .stream(let sink):
      _ = content.withUnsafeBytes { sink.receive($0) {} }
      return await world.gateway.respond(to: request(path, sink: sink))
    case .refuse(let response): return response
    case .collect, .ask: throw RecordError(.internalError, "it would be collected")
    }
  }

  @Test func `tokens come in order, with an address of this gateway that takes an upload`() async throws {
    let spool = Spool()
    let world = try await GatewayWorld(spool: spool.path)
    let body =
      #"""
      {"tokens":[{"recordType":"Note","fieldName":"blob","recordName":"f1"},{"recordType":"Note",\#
      "fieldName":"other"}],"zoneID":{"zoneName":"Trips"}}
      """#
    let tokens =
      try await world.alice(.post, "\(GatewayWorld.records)/assets/upload", body: body).json["tokens"]?.elements ?? []
    try #require(tokens.count == 2)
    #expect(tokens[0]["recordName"]?.string == "f1" && tokens[0]["fieldName"]?.string == "blob")
    #expect(tokens[1]["recordName"]?.string?.count == 36 && tokens[1]["fieldName"]?.string == "other")
    let url = try #require(tokens[0]["url"]?.string)
    #expect(url.hasPrefix("http://gateway/assets/1/upload/"))

    let response = try await Self.upload(Array("hello".utf8), to: String(url.dropFirst("http://gateway".count)), world)
    #expect(response.status == 200)
    #expect(response.header("Access-Control-Allow-Origin") == "*")
    let file = try #require(try response.json["singleFile"])
    #expect(file["size"]?.int64 == 5)
    let container = try #require(ContainerID(rawValue: GatewayWorld.container))
    let user = AssetUser(container: container, environment: .development, userRecordName: "_alice")
    let receipt = try #require(
      AssetReceipt(
        text: file["receipt"]?.string ?? "", of: user, signedWith: GatewayWorld.signingKey, now: 1_700_000_000))
    #expect(receipt.expiry == 1_700_000_000 + 24 * 3600)
    #expect(try AssetFolder(directory: spool.path).read(receipt.asset, shard: 0) == Array("hello".utf8))
    #expect(spool.files.count == 1)
    // A second upload of the same content adds no file.
    _ = try await Self.upload(Array("hello".utf8), to: try Self.path(), world)
    #expect(spool.files.count == 1)
  }

  @Test(arguments: [
    "{}", #"{"tokens":{}}"#, #"{"tokens":[1]}"#, #"{"tokens":[{"fieldName":"a"}]}"#,
    #"{"tokens":[{"recordType":"Note"}]}"#,
    #"{"tokens":[{"recordType":"Note","fieldName":"a","recordName":""}]}"#, #"{"tokens":[],"zoneID":7}"#,
    #"{"tokens":[\#(Array(repeating: #"{"recordType":"N","fieldName":"f"}"#, count: 201).joined(separator: ","))]}"#,
  ])
  func `a bad request for tokens is refused`(body: String) async throws {
    let spool = Spool()
    let world = try await GatewayWorld(spool: spool.path)
    #expect(await world.alice(.post, "\(GatewayWorld.records)/assets/upload", body: body).status == 400)
  }

  @Test func `tokens are for signed-in users, and for gateways with a folder`() async throws {
    let spool = Spool()
    let world = try await GatewayWorld(spool: spool.path)
    let body = #"{"tokens":[]}"#
    #expect(
      await world.respond(
        .post, "\(GatewayWorld.records)/assets/upload", query: [("ckAPIToken", GatewayWorld.apiToken)], body: body
      ).status == 421)
    #expect(await world.alice(.post, "\(GatewayWorld.records)/assets/upload", body: body).text == #"{"tokens":[]}"#)
    let bare = try await GatewayWorld()
    #expect(await bare.alice(.post, "\(GatewayWorld.records)/assets/upload", body: body).status == 404)
  }

  @Test
  func
    `an altered or expired address, and one for a gateway that knows no keys yet, is refused before a byte is taken`()
    async throws
  {
    let spool = Spool()
    let world = try await GatewayWorld(spool: spool.path)
    let early = try await Self.upload([1], to: try Self.path(), world)
    #expect(early.status == 503)
    #expect(early.header("Retry-After") != nil)
    _ = try await world.gateway.secrets.signingKey()
    #expect(try await Self.upload([1], to: try Self.path(), world).status == 200)
    for path in [
      try Self.path(expiry: 1_700_000_000), try Self.path() + "A",
      try Self.path().replacing("/upload/", with: "/upload/A"), "/assets/1/upload/", "/assets/1/upload/x/y",
    ] {
      let response = try await Self.upload([2], to: path, world)
      #expect(response.status == 403, "\(path)")
      #expect(try response.code == "ACCESS_DENIED")
      #expect(response.header("Access-Control-Allow-Origin") == "*")
    }
    #expect(spool.files.count == 1)
    // An upload address can't be read.
    #expect(await world.respond(.get, try Self.path()).status == 405)
  }

  @Test func `a PUT, and an upload to the console's own port, are refused before a byte is taken`() async throws {
    let spool = Spool()
    let world = try await GatewayWorld(spool: spool.path)
    _ = try await world.gateway.secrets.signingKey()
    for byteCount in [nil, 100_000] {
      guard
        case .refuse(let refused) = world.gateway.intake(
          of: Self.request(try Self.path(), .put, byteCount: byteCount))
      else { throw RecordError(.internalError, "a PUT is taken") }
      #expect(refused.status == 405)
    }
    #expect(await world.respond(.put, try Self.path()).status == 405)
    var console = world.gateway
    console.isConsoleOnly = true
    guard case .refuse(let unknown) = console.intake(of: Self.request(try Self.path(), byteCount: 9)) else {
      throw RecordError(.internalError, "the console takes uploads")
    }
    #expect(unknown.status == 404)
  }

  @Test func `content whose request fails before it is stored is discarded once, and gives its place back`()
    async throws
  {
    let spool = Spool()
    var limits = AssetUploads.Limits()
    limits.book.countPerUser = 1
    let world = try await GatewayWorld(spool: spool.path, uploadLimits: limits)
    _ = try await world.gateway.secrets.signingKey()
    guard case .stream(let sink) = world.gateway.intake(of: Self.request(try Self.path())) else {
      throw RecordError(.internalError, "it is refused")
    }
    _ = Array("hello".utf8).withUnsafeBytes { sink.receive($0) {} }
    #expect(await world.gateway.respond(to: Self.request(try Self.path(), .put, sink: sink)).status == 405)
    #expect(try await Self.upload([1], to: try Self.path(), world).status == 200)
    sink.abort()
    let counts = String(decoding: await world.metrics.text(), as: UTF8.self)
    #expect(counts.contains(#"aquifer_asset_uploads_total{outcome="aborted"} 1"#))
    #expect(counts.contains("aquifer_asset_uploads 0"))
  }

  @Test func `a user has so many uploads at a time, and gives each place back`() async throws {
    let spool = Spool()
    var limits = AssetUploads.Limits()
    limits.book.countPerUser = 2
    let world = try await GatewayWorld(spool: spool.path, uploadLimits: limits)
    _ = try await world.gateway.secrets.signingKey()
    func begin(_ user: String = "_alice") throws -> (any HTTPBodySink)? {
      if case .stream(let sink) = world.gateway.intake(of: Self.request(try Self.path(user: user))) {
        sink
      } else {
        nil
      }
    }
    let first = try #require(try begin())
    var second = try begin()
    #expect(second != nil)
    let refused = try await Self.upload([1], to: try Self.path(), world)
    #expect(refused.status == 429)
    #expect(try refused.code == "THROTTLED")
    #expect(refused.header("Retry-After") != nil && refused.header("Access-Control-Allow-Origin") == "*")
    #expect(try begin("_bob") != nil, "others have their own places")
    // One upload is aborted, one is released without an end, one succeeds.
    first.abort()
    #expect(try await Self.upload([1], to: try Self.path(), world).status == 200)
    #expect(try await Self.upload([2], to: try Self.path(), world).status == 200)
    second = nil
    let third = try begin()
    #expect(third != nil)
    #expect(try begin() != nil)
    #expect(
      String(decoding: await world.metrics.text(), as: UTF8.self).contains(
        #"aquifer_asset_uploads_total{outcome="refused_user"} 1"#))
  }

  @Test func `a user uploads so many bytes a day`() async throws {
    let spool = Spool()
    var limits = AssetUploads.Limits()
    limits.book.byteCountPerUser = 10
    let world = try await GatewayWorld(spool: spool.path, uploadLimits: limits)
    _ = try await world.gateway.secrets.signingKey()
    for content in [[UInt8](repeating: 1, count: 9), [2]] {
      #expect(try await Self.upload(content, to: try Self.path(), world).status == 200)
    }
    let refused = try await Self.upload([3], to: try Self.path(), world)
    #expect(refused.status == 429)
    #expect(Int(refused.header("Retry-After") ?? "").map { (1...86_400).contains($0) } == true)
    #expect(try await Self.upload([3], to: try Self.path(user: "_bob"), world).status == 200)
  }

  @Test func `uploads are refused before the disk is full`() async throws {
    let spool = Spool()
    let free = Mutex<Int64>(1_000_000_010)
    let world = try await GatewayWorld(spool: spool.path, freeByteCount: { free.withLock(\.self) })
    _ = try await world.gateway.secrets.signingKey()
    #expect(try await Self.upload([1], to: try Self.path(), world).status == 200)
    // The announced bytes of uploads under way count as written until those uploads end.
    guard case .stream(let other) = world.gateway.intake(of: Self.request(try Self.path(user: "_bob"), byteCount: 9))
    else {
      throw RecordError(.internalError, "there is room for it")
    }
    #expect(try await Self.upload([2, 2], to: try Self.path(), world).status == 503)
    #expect(try await Self.upload([2], to: try Self.path(), world).status == 200)
    other.abort()
    #expect(try await Self.upload([2, 2], to: try Self.path(), world).status == 200)
    #expect(try await Self.upload([UInt8](repeating: 3, count: 11), to: try Self.path(), world).status == 503)
    guard case .refuse = world.gateway.intake(of: Self.request(try Self.path())) else {
      throw RecordError(.internalError, "without a length it may be as large as the limit")
    }
    free.withLock { $0 = 1_000_000_000 }
    let refused = try await Self.upload([2], to: try Self.path(), world)
    #expect(refused.status == 503)
    #expect(try refused.json["reason"]?.string == "The server has no space left for uploads; nothing was stored")
    #expect(refused.header("Retry-After") == "5")
    #expect(spool.files.count == 3)
  }

  @Test func `one user's uploads take a part of the disk, and leave the rest to others`() async throws {
    let world = try await GatewayWorld(uploadStore: CountingAssets(), freeByteCount: { 1_012_000_000 })
    _ = try await world.gateway.secrets.signingKey()
    var sinks: [any HTTPBodySink] = []
    /// - Returns: the refusal's status.
    func begin(_ user: String) throws -> Int? {
      switch world.gateway.intake(of: Self.request(try Self.path(user: user), byteCount: 1_000_000)) {
      case .stream(let sink): sinks.append(sink)
      case .refuse(let response): return response.status
      case .collect, .ask: throw RecordError(.internalError, "it would be collected")
      }
      return nil
    }
    #expect(try (0..<3).map { _ in try begin("_alice") } == [nil, nil, 429])
    for user in ["_bob", "_carol", "_dave", "_erin", "_frank"] {
      #expect(try (0..<3).map { _ in try begin(user) } == [nil, nil, 429])
    }
    #expect(try begin("_grace") == 503, "there is no room for anybody")
    sinks.removeFirst().abort()
    #expect(try begin("_grace") == nil)
    #expect(try begin("_alice") == 503)
  }

  @Test func `a user's only upload is taken even if it is larger than their part`() async throws {
    let world = try await GatewayWorld(uploadStore: CountingAssets(), freeByteCount: { 1_001_500_000 })
    _ = try await world.gateway.secrets.signingKey()
    for _ in 0..<2 { #expect(try await Self.upload([1], to: try Self.path(), world).status == 200) }
    guard case .stream = world.gateway.intake(of: Self.request(try Self.path(), byteCount: 1_000_000)) else {
      throw RecordError(.internalError, "there is room for it")
    }
  }

  /// Sends a content as the server does, which reads on only when it may.
  private static func send(_ content: [UInt8], to sink: any HTTPBodySink) async {
    var rest = content[...]
    while !rest.isEmpty {
      let piece = Array(rest.prefix(64_000))
      rest = rest.dropFirst(piece.count)
      await withCheckedContinuation { continuation in
        let goesOn = piece.withUnsafeBytes { sink.receive($0) { continuation.resume() } }
        if goesOn { continuation.resume() }
      }
    }
  }

  @Test(.timeLimit(.minutes(1)), arguments: [1, 1_000_000, 2_500_000])
  func `uploads that the memory for parts does not hold together wait for it, and all are stored`(
    memoryByteCount: Int64
  ) async throws {
    var limits = AssetUploads.Limits()
    limits.memoryByteCount = memoryByteCount
    let world = try await GatewayWorld(
      uploadStore: CountingAssets(uploadMemoryByteCount: 5 << 20), uploadLimits: limits)
    _ = try await world.gateway.secrets.signingKey()
    try await withThrowingTaskGroup(of: Int64?.self) { group in
      for number in 0..<12 {
        // Two of each user.
        let path = try Self.path(user: "_user\(number / 2)")
        guard case .stream(let sink) = world.gateway.intake(of: Self.request(path)) else {
          throw RecordError(.internalError, "upload \(number) is refused")
        }
        group.addTask {
          await Self.send([UInt8](repeating: UInt8(number), count: 900_000), to: sink)
          let response = await world.gateway.respond(to: Self.request(path, sink: sink))
          return try response.json["singleFile"]?["size"]?.int64
        }
      }
      for try await byteCount in group { #expect(byteCount == 900_000) }
    }
    let figures = String(decoding: await world.metrics.text(), as: UTF8.self)
    #expect(figures.contains("aquifer_asset_uploads_waiting 0") && figures.contains("aquifer_asset_uploads 0"))
  }

  @Test func `uploads count as requests of their user`() async throws {
    let spool = Spool()
    let start = ContinuousClock.now
    let world = try await GatewayWorld(
      spool: spool.path, rate: .init(perSecond: 1, burst: 2), timing: Timing(now: { start }, sleep: { _ in }))
    _ = try await world.gateway.secrets.signingKey()
    for content in [UInt8(1), 2] { #expect(try await Self.upload([content], to: try Self.path(), world).status == 200) }
    let refused = try await Self.upload([3], to: try Self.path(), world)
    #expect(refused.status == 429)
    #expect(refused.header("Retry-After") == "2")
    #expect(try await Self.upload([3], to: try Self.path(user: "_bob"), world).status == 200)
    #expect(
      String(decoding: await world.metrics.text(), as: UTF8.self).contains(
        #"aquifer_http_requests_throttled_total{by="upload"} 1"#))
  }

  @Test func `the book forgets bytes hour by hour, and users who upload nothing when there are too many`() {
    var book = UploadBook(limits: .init(countPerUser: 2, byteCountPerUser: 100), memory: 24)
    #expect(book.begin("a", now: 0) == nil)
    book.end("a", byteCount: 60, now: 10)
    #expect(book.begin("a", now: 3600) == nil)
    book.end("a", byteCount: 60, now: 3600)
    #expect(book.begin("a", now: 7200) == .bytes(retryAfter: 24 * 3600 - 7200))
    #expect(book.begin("a", now: 24 * 3600 - 1) == .bytes(retryAfter: 1))
    #expect(book.begin("a", now: 24 * 3600) == nil)
    #expect(book.begin("a", now: 24 * 3600) == nil)
    #expect(book.begin("a", now: 24 * 3600) == .slots)
    for number in 0..<(UploadBook.userLimit + 10) {
      #expect(book.begin("\(number)", now: 24 * 3600) == nil)
      book.end("\(number)", byteCount: 1, now: 24 * 3600)
    }
    #expect(book.userCount <= UploadBook.userLimit)
    #expect(book.begin("a", now: 24 * 3600) == .slots, "who uploads is not forgotten")
  }

  @Test func `a folder that can't be written is the server's failure, and an aborted upload leaves nothing`()
    async throws
  {
    let spool = Spool()
    #expect(FileManager.default.createFile(atPath: spool.path, contents: nil))
    let world = try await GatewayWorld(spool: spool.path)
    _ = try await world.gateway.secrets.signingKey()
    #expect(try await Self.upload([1], to: try Self.path(), world).status == 500)
    let counts = String(decoding: await world.metrics.text(), as: UTF8.self)
    #expect(counts.contains(#"aquifer_asset_uploads_total{outcome="failed"} 1"#))
    #expect(counts.contains("aquifer_asset_upload_bytes_total 1"))
    #expect(counts.contains("aquifer_asset_uploads 0"))
  }

  @Test func `a body of no length over real sockets is an asset, one cut short leaves nothing`() async throws {
    let spool = Spool()
    let world = try await GatewayWorld(spool: spool.path)
    _ = try await world.gateway.secrets.signingKey()
    let server = try HTTPServer(handler: world.gateway)
    defer { server.stop() }
    var request = URLRequest(url: try #require(URL(string: "http://127.0.0.1:\(server.port)" + (try Self.path()))))
    request.httpMethod = "POST"
    let (data, _) = try await URLSession.shared.data(for: request)
    #expect(try JSONValue(parsing: Array(data))["singleFile"]?["size"]?.int64 == 0)
    #expect(spool.files.count == 1)
  }
}
