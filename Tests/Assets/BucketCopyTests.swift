import BucketServer
import Crypto
import Records
import S3
import Synchronization
import Testing

@testable import Assets

/// Copies within the bucket: of contents that are longer than a server copies at once, and of many contents.
extension BucketFaultTests {
  /// The requests of one store by method.
  private final class Requests: Sendable {
    private let counts = Mutex<[String: Int]>([:])

    func note(_ event: BucketEvent) {
      guard case .attempt(let method, let status, _, let sent, _) = event else { return }
      counts.withLock { $0[method == "PUT" && sent == 0 && status == 200 ? "copy" : method, default: 0] += 1 }
    }

    subscript(kind: String) -> Int { counts.withLock { $0[kind] ?? 0 } }
  }

  /// Lengths with which the long content is copied by three parts.
  private static let shortCopies = AssetBucket.Limits(
    copyByteCount: Int64(S3Parts.partByteCount), copyPartByteCount: Int64(S3Parts.partByteCount))

  private static func newKeys() throws -> KeyRing { try KeyRing(parsing: Hex.encode(SecureRandom.bytes(32))) }

  private func expectUnavailable(_ call: () throws -> Void) {
    let error = #expect(throws: AssetError.self) { try call() }
    guard case .unavailable = error else {
      Issue.record("\(String(describing: error))")
      return
    }
  }

  @Test(arguments: [false, true])
  func `a content that is longer than a server copies at once is copied by parts on each of its ways`(isSealed: Bool)
    async throws
  {
    try await server.set([])
    let (requests, keys) = (Requests(), isSealed ? try Self.newKeys() : KeyRing())
    let store = try AssetEngine.bucket(
      name, at: server.endpoint, keys: keys, limits: Self.shortCopies, observe: { requests.note($0) })
    let asset = try store.put(Self.long, until: Self.expiry)
    #expect(requests["copy"] == 3, "to its name in the spool")
    #expect(try store.take(asset, into: 0) != nil)
    #expect(requests["copy"] == 6, "to the shard")
    #expect(try store.sweepSpool(now: Self.expiry * 2) == 1)
    #expect(try store.offer([asset], of: 0, until: Self.expiry * 2) == [asset])
    #expect(requests["copy"] == 9, "back to the spool")
    #expect(try store.take(asset, into: 1) != nil)
    #expect(requests["copy"] == 12, "to another shard")
    let reader = try AssetEngine.bucket(name, at: server.soundEndpoint, keys: keys)
    for shard in 0...1 {
      #expect(try reader.read(asset, shard: shard) == Self.long)
      #expect(try reader.open(asset.hash, of: shard)?.isSealed == isSealed)
    }
    #expect(try behind.unfinishedUploads().isEmpty)
    let absent = Asset(hash: SHA256.hash([1]), byteCount: asset.byteCount)
    #expect(try store.offer([absent], of: 0, until: Self.expiry * 2).isEmpty)
    #expect(try behind.unfinishedUploads().isEmpty)
  }

  @Test func `a source that is replaced while its parts are copied is no content, and is copied anew`() async throws {
    try await server.set([])
    let keys = try Self.newKeys()
    let other = try AssetEngine.bucket(name, at: server.soundEndpoint, keys: keys)
    let asset = try other.put(Self.long, until: Self.expiry)
    let isReplaced = Atomic(false)
    let store = try AssetEngine.bucket(
      name, at: server.endpoint, keys: keys, limits: Self.shortCopies,
      observe: { event in
        guard case .attempt("PUT", 200, _, _, _) = event, !isReplaced.exchange(true, ordering: .relaxed) else { return }
        // The same content, sealed another time.
        #expect(throws: Never.self) { try other.put(Self.long, until: Self.expiry) }
      })
    expectUnavailable { try store.prepare([asset], for: 0) }
    let wasReplaced = isReplaced.load(ordering: .relaxed)
    #expect(wasReplaced)
    #expect(try other.present([asset], in: 0).isEmpty && other.unfinishedUploads().isEmpty)
    #expect(try store.take(asset, into: 0) != nil)
    #expect(try other.read(asset, shard: 0) == Self.long)
  }

  @Test func `a copy by parts that fails leaves none, and the sweep ends one that a process left a day ago`()
    async throws
  {
    let asset = try behind.put(Self.long, until: Self.expiry)
    let store = try AssetEngine.bucket(name, at: server.endpoint, limits: Self.shortCopies)
    for (method, match) in [("PUT", "partNumber=2"), ("POST", "uploadId")] {
      try await server.set([.init(.refuse, method, match: match, times: 4, value: 503)])
      expectUnavailable { try store.prepare([asset], for: 0) }
      #expect(try behind.unfinishedUploads().isEmpty && behind.present([asset], in: 0).isEmpty)
    }
    try await server.set([.init(.lose, "PUT", match: "partNumber=2"), .init(.lose, "POST", match: "uploadId")])
    #expect(try store.take(asset, into: 0) != nil)
    #expect(try behind.read(asset, shard: 0) == Self.long)
    try await server.set([])
    _ = try behind.begin(behind.key(of: asset.hash, shard: 1), hasChecksums: false)
    let begin = try #require(try behind.unfinishedUploads().first?.begin)
    _ = try behind.sweepSpool(now: begin + 86_399)
    #expect(try behind.unfinishedUploads().count == 1, "it may be under way")
    _ = try behind.sweepSpool(now: begin + 86_400)
    #expect(try behind.unfinishedUploads().isEmpty)
  }

  @Test(.timeLimit(.minutes(1))) func `one of many contents that the bucket is slow to find holds up no other`()
    async throws
  {
    let (copies, note) = AsyncStream.makeStream(of: Void.self)
    let store = try AssetEngine.bucket(
      name, at: server.endpoint,
      observe: { event in if case .attempt("PUT", 200, _, 0, _) = event { note.yield() } })
    let assets = try contents(40).sorted { $0.hash.lexicographicallyPrecedes($1.hash) }
    #expect(try behind.offer(assets, of: 0, until: Self.expiry).count == 40)
    let digits = Hex.encode(assets[0].hash)
    let match = "shard-1/\(digits.prefix(2))/\(digits.dropFirst(2))"
    try await server.set([.init(.hold, "HEAD", match: match, times: 99)])
    async let preparation: Void = store.apart { bucket throws(AssetError) in try bucket.prepare(Set(assets), for: 1) }
    var count = 0
    for await _ in copies {
      count += 1
      if count == 39 { break }
    }
    #expect(try behind.present(assets, in: 1) == Set(assets[1...]))
    try await server.set([])
    try await preparation
    #expect(try behind.present(assets, in: 1) == Set(assets))
  }

  @Test func `a bucket that copies no parts is not claimed where long contents may come`() async throws {
    let installation = InstallationID(signingKey: [1])
    func claim(_ contentByteLimit: Int64) throws {
      try AssetEngine.bucket(name, at: server.endpoint, contentByteLimit: contentByteLimit).claim(for: installation)
    }
    try await server.set([.init(.refuse, "PUT", match: "partNumber", times: 99, value: 501)])
    try claim(1_000_000_000)
    let refusal = #expect(throws: AssetError.self) { try claim(1_100_000_000) }
    #expect(refusal?.reason.contains("copy part 1") == true && refusal?.reason.contains("501") == true)
    #expect(try behind.unfinishedUploads().isEmpty)
    try await server.set([])
    for _ in 0..<2 { try claim(10_000_000_000) }
    var keys: [String] = []
    try behind.list(behind.location.prefix) { objects in
      keys += objects.map { String($0.key.dropFirst(behind.location.prefix.count)) }
      return true
    }
    #expect(keys == [FolderMark.fileName], "what was tried is removed")
  }

  @Test func `the largest asset, sealed, fits into the parts of an upload`() {
    #expect(SealedFile.byteCount(ofContent: 10_000 * 1_000_000) < S3Parts.contentByteLimit)
  }

  /// Contents of shard 0.
  private func contents(_ count: Int) throws -> [Asset] {
    try (0..<count).map { number in
      let content = Array("content \(number)".utf8)
      let asset = Asset(hash: SHA256.hash(content), byteCount: Int64(content.count))
      try behind.put(content, behind.key(of: asset.hash, shard: 0))
      return asset
    }
  }

  @Test func `an offer that takes many attempts copies a content in each, also when hours go by`() async throws {
    try await server.set([])
    let requests = Requests()
    let store = try AssetEngine.bucket(
      name, at: server.endpoint, limits: .init(patienceSeconds: 0), observe: { requests.note($0) })
    let assets = try contents(6)
    let absent = Asset(hash: SHA256.hash([1]), byteCount: 1)
    var offered: Set<Asset>?
    for attempt in 1...7 where offered == nil {
      let expiry = 3600 * Int64(12 + attempt)
      do {
        offered = try store.offer(assets + [absent], of: 0, until: expiry)
      } catch AssetError.unavailable {
        #expect(requests["copy"] == attempt)
      }
    }
    #expect(offered == Set(assets) && requests["copy"] == 6)
    for asset in assets { #expect(try behind.finds(asset, into: 1)) }
    _ = try behind.sweepSpool(now: 3600 * 19)
    #expect(try behind.finds(assets[0], into: 2), "it is offered until then at least")
  }

  @Test func `a repeated offer of many contents asks for none of them by itself`() async throws {
    try await server.set([])
    let requests = Requests()
    let store = try AssetEngine.bucket(name, at: server.endpoint, observe: { requests.note($0) })
    let assets = try contents(70)
    for _ in 0..<2 { #expect(try store.offer(assets, of: 0, until: Self.expiry) == Set(assets)) }
    #expect(requests["copy"] == 70 && requests["HEAD"] == 0 && requests["GET"] == 2)
  }
}
