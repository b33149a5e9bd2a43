// Contents in clear are compared with their names before they are sent: once, and not on a thread of the server.

import Assets
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
}
