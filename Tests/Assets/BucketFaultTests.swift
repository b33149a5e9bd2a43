import BucketServer
import Crypto
import Foundation
import HTTPClient
import Records
import S3
import Synchronization
import Testing

@testable import Assets

/// A bucket behind a faulty network. Tests look behind the network, too.
@Suite(.serialized) struct BucketFaultTests {
  static let expiry: Int64 = 36_000
  let server: BucketServer
  private let store: AssetBucket
  let behind: AssetBucket
  let name = "faults-" + UUID().uuidString

  private final class Count: Sendable {
    let value = Atomic<Int>(0)
  }
  private let count = Count()

  init() throws {
    server = try AssetEngine.bucketServer()
    let count = count
    store = try AssetEngine.bucket(
      name, at: server.endpoint,
      observe: { event in
        if case .repetition = event { count.value.add(1, ordering: .relaxed) }
      })
    behind = try AssetEngine.bucket(name, at: server.soundEndpoint)
  }

  private static let short = Array("a short content".utf8)
  static let long = (0..<(S3Parts.partByteCount * 2 + 100)).map { UInt8(truncatingIfNeeded: $0 &* 31) }

  private func expectFailure(of content: [UInt8]) throws {
    #expect(throws: AssetError.self) { try store.put(content, until: Self.expiry) }
    let asset = Asset(hash: SHA256.hash(content), byteCount: Int64(content.count))
    #expect(try !behind.finds(asset, into: 0), "a refused upload is reachable")
    #expect(try behind.unfinishedUploads().isEmpty, "a refused upload left parts")
  }

  @Test(arguments: [
    ("refuse", "PUT", 503), ("refuse", "POST", 500), ("half", "PUT", 0), ("damage", "PUT", 0), ("lose", "PUT", 0),
    ("lose", "POST", 0), ("forget", "PUT", 0), ("cut", "POST", 20), ("skew", "*", 4000), ("refuse", "HEAD", 503),
    ("cut", "PUT", 10), ("show", "PUT", 0), ("show", "POST", 0),
  ])
  func `an upload goes through two faults of each kind, and is read as it was sent`(
    kind: String, method: String, value: Int
  ) async throws {
    let kind = try #require(BucketServer.Fault.Kind(rawValue: kind))
    for content in [Self.short, Self.long] {
      // A clock that is wrong stays wrong.
      try await server.set([.init(kind, method, times: kind == .skew ? 99 : 2, value: value)])
      let asset = try store.put(content, until: Self.expiry)
      #expect(try store.take(asset, into: 1) != nil)
      try await server.set([])
      #expect(try behind.read(asset, shard: 1) == content)
      #expect(try behind.unfinishedUploads().count <= 2, "only a lost answer to a beginning leaves one")
      _ = try behind.sweepSpool(now: Self.expiry * 2)
      #expect(try behind.unfinishedUploads().isEmpty)
    }
  }

  @Test func `an upload that nobody ends leaves no parts`() async throws {
    try await server.set([])
    let writers = AssetWriters(count: 1)
    var upload: AssetUpload? = AssetUpload(into: store, until: Self.expiry, writers: writers)
    _ = Self.long.withUnsafeBytes { upload?.take($0) {} }
    // The others wait behind the first one on the only thread.
    _ = try await AssetUpload(into: store, until: Self.expiry, writers: writers).finish()
    #expect(try behind.unfinishedUploads().count == 1)
    upload = nil
    _ = try await AssetUpload(into: store, until: Self.expiry, writers: writers).finish()
    #expect(try behind.unfinishedUploads().isEmpty)
    #expect(writers.uploadCount == 0)
  }

  @Test func `an upload that meets a fault for good fails, and leaves nothing`() async throws {
    for content in [Self.short, Self.long] {
      for fault in [
        BucketServer.Fault(.refuse, "PUT", times: 99, value: 503), .init(.half, "PUT", times: 99),
        .init(.damage, "PUT", times: 99), .init(.forget, "PUT", match: "partNumber", times: 99),
      ] where content.count > 100 || fault.match.isEmpty {
        try await server.set([fault])
        try expectFailure(of: content)
      }
    }
    // Each step of an upload in parts.
    for (method, match) in [("POST", "?uploads"), ("PUT", "partNumber=2"), ("POST", "uploadId"), ("HEAD", "")] {
      try await server.set([.init(.refuse, method, match: match, times: 4, value: 503)])
      try expectFailure(of: Self.long)
    }
  }

  @Test func `the sweep ends all unfinished uploads, however many pages of them there are`() async throws {
    try await server.set([.init(.page, "GET", match: "uploads=", times: 99, value: 2)])
    let unfinished = try (0..<5).map { _ in
      let content = store.spool(until: Self.expiry)
      try content.write(Self.long)
      return content
    }
    #expect(try store.unfinishedUploads().count == 5)
    #expect(try store.sweepSpool(now: Self.expiry * 2) == 5)
    #expect(try behind.unfinishedUploads().isEmpty)
    for content in unfinished { content.discard() }
  }

  @Test func `a refusal that no repetition mends is not repeated, and says what and where`() async throws {
    try await server.set([.init(.refuse, times: 1, value: 400)])
    let error = #expect(throws: AssetError.self) { try store.put(Self.short, until: Self.expiry) }
    #expect(error?.reason.contains("s3://bucket/\(name)/uploads/10/") == true && error?.reason.contains("400") == true)
    #expect(count.value.load(ordering: .relaxed) == 0)
  }

  @Test func `reading goes on after a connection was cut, and never gives altered bytes`() async throws {
    let asset = try behind.put(Self.long, until: Self.expiry)
    _ = try behind.take(asset, into: 0)
    for bytes in [0, 1, 70_000, 1_000_000] {
      try await server.set([.init(.cut, "GET", times: 3, value: bytes)])
      #expect(try store.read(asset, shard: 0) == Self.long)
    }
    try await server.set([.init(.cut, "GET", times: 99, value: 5)])
    let error = #expect(throws: AssetError.self) { try store.read(asset, shard: 0) }
    guard case .unavailable = error else {
      Issue.record("\(String(describing: error))")
      return
    }
  }

  @Test func `a removal without an answer is not relied on, and is not repeated`() async throws {
    let asset = try behind.put(Self.short, until: Self.expiry)
    try await server.set([])
    #expect(try store.take(asset, into: 0) != nil)
    // Once, because nobody may send it again, and libcurl would on a connection that it kept.
    try await server.set([.init(.lose, "POST", match: "delete")])
    #expect(throws: AssetError.self) { try store.remove([asset.hash], from: 0, announcedAt: nil) }
    #expect(count.value.load(ordering: .relaxed) == 0)
    #expect(throws: AssetError.self) { try store.take(asset, into: 0) }
    #expect(try behind.present([asset], in: 0).isEmpty)
    try await server.set([])
    // Once it has succeeded, nobody would fear the first one any more.
    #expect(throws: AssetError.self) { try store.remove([asset.hash], from: 0, announcedAt: nil) }
    #expect(throws: AssetError.self) { try store.take(asset, into: 0) }
  }

  @Test func `a removal that reaches the server too late is refused, and is not sent too late`() async throws {
    let asset = try behind.put(Self.short, until: Self.expiry)
    try await server.set([])
    #expect(try store.take(asset, into: 0) != nil)
    let time = try #require(store.announceRemoval(of: [asset.hash], from: 0))
    // The request is on its way for so long.
    try await server.set([.init(.skew, "POST", match: "delete", value: Int(S3Request.lifetime) + 5)])
    let refusal = #expect(throws: AssetError.self) { try store.remove([asset.hash], from: 0, announcedAt: time) }
    #expect(refusal?.reason.contains("403") == true, "\(String(describing: refusal))")
    // No fault is left: the bucket itself would carry it out.
    let old = time - S3Request.lifetime
    #expect(throws: AssetError.self) { try store.remove([asset.hash], from: 0, announcedAt: old) }
    #expect(try behind.present([asset], in: 0) == [asset])
  }

  @Test func `contents whose announced removal never comes are used again after a minute`() async throws {
    let ahead = Atomic<Int64>(0)
    let store = try AssetEngine.bucket(
      name, at: server.soundEndpoint,
      clock: { Int64(Date().timeIntervalSince1970) + ahead.load(ordering: .relaxed) })
    let asset = try behind.put(Self.short, until: Self.expiry)
    #expect(try store.take(asset, into: 0) != nil)
    // The commit of the body that chose it failed, or the shard was given up before the call.
    _ = store.announceRemoval(of: [asset.hash], from: 0)
    for seconds in [0, S3Request.lifetime] {
      ahead.store(seconds, ordering: .relaxed)
      #expect(throws: AssetError.self) { try store.take(asset, into: 0) }
    }
    ahead.store(2 * S3Request.lifetime + 1, ordering: .relaxed)
    #expect(try store.take(asset, into: 0) != nil)
  }

  @Test func `contents that are prepared together are known together, however slow the bucket is`() async throws {
    try await server.set([])
    let seconds = Atomic<Int64>(0)
    let start = Int64(Date().timeIntervalSince1970)
    // Each request takes a second.
    let store = try AssetEngine.bucket(
      name, at: server.soundEndpoint, clock: { start + seconds.load(ordering: .relaxed) },
      observe: { event in
        if case .attempt = event { seconds.add(1, ordering: .relaxed) }
      })
    let assets = try (0..<8).map { try behind.put([UInt8($0)], until: Self.expiry) }
    try store.prepare(Set(assets), for: 0)
    #expect(seconds.load(ordering: .relaxed) > 8, "the first is found before the last is looked for")
    for asset in assets { #expect(store.adopt(asset, into: 0) == .done(place: "shard-0")) }
  }

  @Test func `a bucket is claimed once it can be used, by one installation`() async throws {
    let (first, second) = (InstallationID(signingKey: [1]), InstallationID(signingKey: [2]))
    try await server.set([.init(.refuse, "PUT", times: 99, value: 403)])
    let refusal = #expect(throws: AssetError.self) { try store.claim(for: first) }
    #expect(refusal?.reason.contains("403") == true && refusal?.reason.contains("store s3://bucket/\(name)") == true)
    try await server.set([])
    for _ in 0..<2 { try store.claim(for: first) }
    let other = #expect(throws: AssetError.self) { try store.claim(for: second) }
    #expect(other?.reason.contains("belongs to another installation") == true)
    let absent = try AssetEngine.bucket("x", at: "http://127.0.0.1:1")
    #expect(throws: AssetError.self) { try absent.claim(for: first) }
  }

  @Test func `contents that are offered twice in an hour are copied once`() throws {
    let copies = Atomic<Int>(0)
    let store = try AssetEngine.bucket(
      name, at: server.soundEndpoint,
      observe: { event in
        if case .attempt("PUT", _, _, _, _) = event { copies.add(1, ordering: .relaxed) }
      })
    let asset = try behind.put(Self.short, until: Self.expiry)
    #expect(try behind.take(asset, into: 0) != nil)
    let absent = Asset(hash: SHA256.hash([1]), byteCount: 1)
    let later = Self.expiry * 2
    #expect(try store.offer([asset, absent, asset, absent], of: 0, until: later) == [asset])
    #expect(copies.load(ordering: .relaxed) == 2, "one of each")
    #expect(try store.offer([asset], of: 0, until: later) == [asset])
    #expect(copies.load(ordering: .relaxed) == 2)
    #expect(try store.offer([asset], of: 0, until: later * 2) == [asset])
    #expect(copies.load(ordering: .relaxed) == 3)
    #expect(try store.take(asset, into: 1) != nil)
  }

  @Test func `a proxy's page is no copy, no stored object and no removal`() async throws {
    let page = BucketServer.Fault(.show, times: 99)
    try await server.set([page])
    #expect(throws: AssetError.self) { try store.put(Self.short, until: Self.expiry) }
    let asset = try behind.put(Self.short, until: Self.expiry)
    try await server.set([.init(.show, "PUT", times: 99)])
    #expect(throws: AssetError.self) { try store.prepare([asset], for: 0) }
    #expect(throws: AssetError.self) { try store.offer([asset], of: 0, until: Self.expiry * 2) }
    #expect(store.adopt(asset, into: 0) == .unprepared)
    try await server.set([])
    #expect(try store.take(asset, into: 0) != nil)
    try await server.set([page])
    #expect(throws: AssetError.self) { try store.remove([asset.hash], from: 0, announcedAt: nil) }
    #expect(throws: AssetError.self) { try store.present([asset], in: 0) }
    #expect(throws: AssetError.self) { try store.hours() }
    #expect(throws: AssetError.self) { try store.read(asset, shard: 0) }
    #expect(try behind.present([asset], in: 0) == [asset])
    try await server.set([])
  }

  @Test func `of an object for a client a short range is read first, and longer ones as it reads on`() throws {
    let asset = try behind.put(Self.long, until: Self.expiry)
    _ = try behind.take(asset, into: 0)
    let key = behind.key(of: asset.hash, shard: 0)
    let bytes = try #require(try ObjectBytes(key, in: behind, for: .client))
    #expect(bytes.byteCount == Int64(Self.long.count))
    #expect(bytes.heldByteCount < 70_000 && bytes.windowByteCount == 256 << 10)
    var (offset, most) = (0, 0)
    while offset < Self.long.count {
      let count = min(65_536, Self.long.count - offset)
      #expect(try bytes.read(at: Int64(offset), count: count) == Array(Self.long[offset..<offset + count]))
      offset += count
      most = max(most, bytes.heldByteCount)
    }
    #expect(most == bytes.windowByteCount)
    #expect(try bytes.read(at: 3, count: 2) == Array(Self.long[3..<5]) && bytes.heldByteCount < 70_000)
  }

  @Test func `clients fetch plain contents by a URL, and sealed ones not`() async throws {
    let asset = try behind.put(Self.short, until: Self.expiry)
    _ = try behind.take(asset, into: 0)
    let open = try AssetEngine.bucket(name, at: server.endpoint, suffix: "&public=\(server.soundEndpoint)")
    let address = try #require(try open.open(asset.hash, of: 0)?.address)
    let answer = try await HTTPClient().send("GET", address, headers: [.init("Range", "bytes=2-6")])
    #expect(answer.status == 206 && answer.body == Array(Self.short[2...6]))
    let keys = try KeyRing(parsing: Hex.encode(SecureRandom.bytes(32)))
    let sealing = try AssetEngine.bucket(
      name, at: server.endpoint, keys: keys, suffix: "&public=\(server.soundEndpoint)")
    let sealed = try sealing.put([7], until: Self.expiry)
    _ = try sealing.take(sealed, into: 0)
    #expect(try sealing.open(sealed.hash, of: 0)?.address == nil)
    #expect(try sealing.open(asset.hash, of: 0)?.address != nil)
  }
}
