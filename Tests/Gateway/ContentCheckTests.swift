// Contents in clear are compared with their names before they are sent: once, and not on a thread of the server.

import Assets
import Crypto
import HTTPServer
import Records
import Testing
import WebServices

@testable import Gateway

@Suite struct ContentCheckTests {
  private static let byteCount = 3_000_000

  private let store = CountingAssets()
  private let content = (0..<byteCount).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 / 251) }

  private func path(of asset: Asset) -> String {
    AssetURL(shard: 5, hash: asset.hash, expiry: 1_700_000_001).path(signedWith: GatewayWorld.signingKey)
  }

  /// The first byte of a content, read as the server does.
  private func firstByte(_ world: GatewayWorld, _ asset: Asset) async throws -> UInt8? {
    let response = await world.respond(.get, path(of: asset), headers: [("range", "bytes=0-0")])
    guard response.status == 206, case .content(let content, let offset, let byteCount) = response.body else {
      Issue.record("\(response.status)")
      return nil
    }
    #expect((offset, byteCount) == (0, 1))
    return content.read(at: 0, limit: 1)?.first
  }

  @Test func `ten ranges of one byte read a content once, and before its answer begins`() async throws {
    let asset = try store.put(content, in: 5)
    let world = try await GatewayWorld(assets: store)
    for _ in 0..<10 {
      let response = await world.respond(.get, path(of: asset), headers: [("range", "bytes=0-0")])
      let before = store.readByteCount
      guard case .content(let sent, _, _) = response.body else {
        Issue.record("\(response.status)")
        return
      }
      #expect(sent.read(at: 0, limit: 1) == [content[0]])
      #expect(store.readByteCount == before + 1, "the server's thread reads what it sends")
    }
    #expect(store.readByteCount == Self.byteCount + 10)
  }

  @Test func `requests that come together share the look at a content`() async throws {
    let asset = try store.put(content, in: 5)
    let world = try await GatewayWorld(assets: store)
    try await withThrowingTaskGroup(of: UInt8?.self) { group in
      for _ in 0..<20 { group.addTask { try await firstByte(world, asset) } }
      for try await byte in group { #expect(byte == content[0]) }
    }
    #expect(store.readByteCount == Self.byteCount + 20)
  }

  @Test func `a content that is damaged is refused before its first byte, also if it was sound before`() async throws {
    let asset = try store.put(content, in: 5)
    let world = try await GatewayWorld(assets: store)
    #expect(try await firstByte(world, asset) == content[0])
    try store.damage(asset, in: 5)
    for range in ["bytes=0-0", "bytes=9-"] {
      let response = await world.respond(.get, path(of: asset), headers: [("range", range)])
      #expect(response.status == 500)
      #expect(try response.code == "INTERNAL_ERROR")
    }
    #expect(await world.respond(.get, path(of: asset), headers: [("range", "bytes=9000000-")]).status == 416)
  }

  @Test(arguments: [true, false])
  func `a content that begins like a sealed one is read once, and not for an answer that sends nothing of it`(
    areLocal: Bool
  ) async throws {
    let store = CountingAssets(areLocal: areLocal)
    let content = Array("aqseal-1".utf8) + content
    let asset = try store.put(content, in: 5)
    let world = try await GatewayWorld(assets: store)
    let path = path(of: asset)
    for _ in 0..<5 {
      let head = await world.respond(.get, path, isHead: true)
      #expect(head.status == 200)
      let known = await world.respond(.get, path, headers: [("if-none-match", "*")])
      #expect(known.status == 304)
      #expect(await world.respond(.get, path, headers: [("range", "bytes=9000000-")]).status == 416)
    }
    #expect(store.readByteCount == 0)
    for _ in 0..<5 {
      let part = await world.respond(.get, path, headers: [("range", "bytes=0-0")])
      #expect(part.status == 206)
      #expect(part.header("Content-Range") == "bytes 0-0/\(content.count)")
    }
    #expect(store.readByteCount == content.count)
  }

  @Test(arguments: [true, false])
  func `a content whose key is missing is read once for all requests, and none of them gets its bytes`(areLocal: Bool)
    async throws
  {
    let store = CountingAssets(areLocal: areLocal)
    let asset = try store.put(content, in: 5, sealedBy: try KeyRing(parsing: KeyRing.newKey()))
    let world = try await GatewayWorld(assets: store)
    for range in [nil, "bytes=0-0", "bytes=9-"] {
      let response = await world.respond(.get, path(of: asset), headers: range.map { [("range", $0)] } ?? [])
      #expect(response.status == 503 && response.header("Retry-After") == "60")
      #expect(try response.code == "TRY_AGAIN_LATER")
    }
    #expect(Int64(store.readByteCount) == SealedFile.byteCount(ofContent: asset.byteCount))
  }

  @Test func `the answer to a HEAD reads nothing of a content in clear`() async throws {
    let asset = try store.put(content, in: 5)
    let world = try await GatewayWorld(assets: store)
    #expect(await world.respond(.get, path(of: asset), isHead: true).status == 200)
    #expect(store.readByteCount == 0)
  }
}
