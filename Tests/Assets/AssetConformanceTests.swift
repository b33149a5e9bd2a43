import BucketServer
import Crypto
import Foundation
import Records
import S3
import Testing

@testable import Assets

/// The engines that pass the suite.
enum AssetEngine: String, CaseIterable, Sendable {
  case folder, bucket

  /// One server for all tests of this process.
  private static let server = Result { try BucketServer() }

  static func bucketServer() throws -> BucketServer { try server.get() }

  static func bucket(
    _ prefix: String, at endpoint: String, keys: KeyRing = KeyRing(), suffix: String = "",
    contentByteLimit: Int64 = 0, limits: AssetBucket.Limits = AssetBucket.Limits(),
    clock: @escaping @Sendable () -> Int64 = { Int64(Date().timeIntervalSince1970) },
    observe: @escaping @Sendable (BucketEvent) -> Void = { _ in }
  ) throws -> AssetBucket {
    let location = try S3Location("s3://bucket/\(prefix)?endpoint=\(endpoint)\(suffix)")
    let signer = S3Signer(location: location, credentials: S3Credentials(keyID: "key", secret: "secret"))
    return AssetBucket(
      signer, keys: keys, contentByteLimit: contentByteLimit, limits: limits, clock: clock, observe: observe)
  }

  /// Runs `body` on an empty store, which it may open with other keys.
  func run(_ body: (_ open: (KeyRing) throws -> any AssetStore) throws -> Void) throws {
    let name = "conformance-\(UUID().uuidString)"
    switch self {
    case .folder:
      let path = FileManager.default.temporaryDirectory.appending(path: name).path
      defer { try? FileManager.default.removeItem(atPath: path) }
      try body { AssetFolder(directory: path, keys: $0) }
    case .bucket:
      let server = try Self.bucketServer()
      try body { try Self.bucket(name, at: server.soundEndpoint, keys: $0) }
    }
  }
}

extension AssetStore {
  /// Takes a content into a shard's part, as a commit does.
  /// - Returns: the place to sync; nil when neither the shard nor the spool has the content.
  func take(_ asset: Asset, into shard: Int) throws -> String? {
    try prepare([asset], for: shard)
    switch try adopt(asset, into: shard) {
    case .done(let place): return place
    case .missing: return nil
    case .unprepared:
      Issue.record("the store has prepared nothing")
      return nil
    }
  }

  /// True when `take` finds the content.
  func finds(_ asset: Asset, into shard: Int) throws -> Bool {
    try prepare([asset], for: shard)
    let isThere = try canAdopt(asset, into: shard)
    return try #require(isThere as Bool?)
  }
}

/// The calls of the seam, on every engine.
struct AssetConformanceTests {
  private static let hour: Int64 = 3600

  private static func content(_ count: Int, seed: UInt64 = 1) -> [UInt8] {
    var state = seed
    return (0..<count).map { _ in
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return UInt8(truncatingIfNeeded: state >> 33)
    }
  }

  private static func newKeys() throws -> KeyRing {
    try KeyRing(parsing: Hex.encode(SecureRandom.bytes(32)))
  }

  @Test(arguments: AssetEngine.allCases, [0, 1, 70_000, S3Parts.partByteCount + 1])
  func `content goes from the spool to a shard and is read whole and in parts, plain and sealed`(
    engine: AssetEngine, count: Int
  ) throws {
    for keys in [KeyRing(), try Self.newKeys()] {
      try engine.run { open in
        let store = try open(keys)
        let content = Self.content(count)
        let asset = try store.put(content, until: 7 * Self.hour)
        #expect(asset == Asset(hash: SHA256.hash(content), byteCount: Int64(count)))
        #expect(try store.read(asset, shard: 3) == content, "the spool is read until a commit adopts the content")
        #expect(try store.present([asset], in: 3).isEmpty && store.open(asset.hash, of: 3) == nil)
        try store.prepare([asset, Asset(hash: SHA256.hash([9]), byteCount: 1)], for: 3)
        #expect(try store.finds(asset, into: 3))
        for _ in 0..<2 { try store.sync(try #require(try store.take(asset, into: 3))) }
        #expect(try store.present([asset], in: 3) == [asset])
        let found = try #require(try store.open(asset.hash, of: 3))
        #expect(found.byteCount == count && found.isSealed == keys.canSeal && found.address == nil)
        for offset in [0, 1, 65_507, 65_508, count - 1] where offset >= 0 && offset < count {
          let piece = try found.read(at: Int64(offset), limit: 100)
          #expect(!piece.isEmpty && piece == Array(content[offset..<min(offset + piece.count, count)]))
        }
        try found.compareWithName()
        #expect(try store.read(asset, shard: 3) == content)
        #expect(try store.sweepSpool(now: 9 * Self.hour) == 1)
        #expect(try store.read(asset, shard: 3) == content && store.finds(asset, into: 4) == false)
      }
    }
  }

  @Test(arguments: AssetEngine.allCases)
  func `content of another length or hash is not adopted, and what is nowhere is not there`(engine: AssetEngine) throws
  {
    try engine.run { open in
      let store = try open(KeyRing())
      let asset = try store.put([1, 2, 3], until: 0)
      for wrong in [
        Asset(hash: asset.hash, byteCount: 4), Asset(hash: SHA256.hash([1, 2]), byteCount: 3),
      ] {
        #expect(try store.take(wrong, into: 0) == nil && !store.finds(wrong, into: 0))
        #expect(throws: AssetError.self) { try store.read(wrong, shard: 0) }
      }
      #expect(try store.parts(of: 0).isEmpty && store.hashes(in: 1, of: 0).isEmpty)
      try store.remove([asset.hash], from: 0, announcedAt: nil)
      #expect(try store.finds(asset, into: 0), "a shard removes nothing from the spool")
    }
  }

  @Test(arguments: AssetEngine.allCases)
  func `a shard lists, offers and removes its contents alone`(engine: AssetEngine) throws {
    try engine.run { open in
      let store = try open(KeyRing())
      var assets: [Asset] = []
      for number in 0..<12 {
        let asset = try store.put([UInt8(number)], until: 0)
        for shard in 0...1 { _ = try store.take(asset, into: shard) }
        assets.append(asset)
      }
      assets.sort { $0.hash.lexicographicallyPrecedes($1.hash) }
      let wrong = Asset(hash: assets[5].hash, byteCount: 2)
      #expect(try store.present(assets, in: 0) == Set(assets))
      #expect(try store.present([assets[0], assets[3], wrong, assets[7], assets[9]], in: 0).count == 4)
      #expect(try store.parts(of: 0) == Set(assets.map { Int($0.hash[0]) }).sorted())
      for part in try store.parts(of: 0) {
        #expect(try store.hashes(in: part, of: 0) == assets.map(\.hash).filter { Int($0[0]) == part })
      }
      _ = try store.sweepSpool(now: 99 * Self.hour)
      try store.prepare([assets[0]], for: 0)
      let removed = [assets[0].hash, assets[1].hash, SHA256.hash([99])]
      for _ in 0..<2 { try store.remove(removed, from: 0, announcedAt: nil) }
      #expect(try [.missing, .unprepared].contains(store.adopt(assets[0], into: 0)), "what was prepared is gone")
      #expect(try store.take(assets[0], into: 0) == nil)
      #expect(try store.present(assets, in: 0) == Set(assets[2...]) && store.present(assets, in: 1) == Set(assets))
      #expect(try store.offer([assets[0], assets[2]], of: 0, until: 100 * Self.hour) == [assets[2]])
      #expect(try store.offer([assets[0]], of: 1, until: 100 * Self.hour) == [assets[0]])
      #expect(try store.take(assets[0], into: 0) != nil)
      #expect(try store.present(assets, in: 0) == Set(assets).subtracting([assets[1]]))
    }
  }

  @Test(arguments: AssetEngine.allCases)
  func `the spool forgets an hour after its margin, and unfinished contents are never found`(engine: AssetEngine) throws
  {
    try engine.run { open in
      let store = try open(KeyRing())
      let old = try store.put([1], until: 10 * Self.hour + 5)
      let young = try store.put([3], until: 11 * Self.hour)
      let long = Self.content(S3Parts.partByteCount + 5)
      let unfinished = try store.spool(until: 10 * Self.hour)
      try unfinished.write(long)
      #expect(try !store.finds(Asset(hash: SHA256.hash(long), byteCount: Int64(long.count)), into: 0))
      #expect(try store.sweepSpool(now: 12 * Self.hour - 1) == 0)
      #expect(try store.sweepSpool(now: 12 * Self.hour) == 2)
      #expect(throws: AssetError.self, "the sweep took its parts") { try unfinished.finish() }
      unfinished.discard()
      #expect(try !store.finds(old, into: 0) && store.finds(young, into: 0))
    }
  }

  @Test(arguments: AssetEngine.allCases)
  func `content of before the key stays readable, a new upload seals it, and a missing key is told`(
    engine: AssetEngine
  ) throws {
    try engine.run { open in
      let (plain, keys) = (try open(KeyRing()), try Self.newKeys())
      let asset = try plain.put([1, 2, 3], until: 0)
      _ = try plain.take(asset, into: 0)
      let sealing = try open(keys)
      #expect(try sealing.read(asset, shard: 0) == [1, 2, 3])
      #expect(try sealing.put([1, 2, 3], until: Self.hour) == asset)
      #expect(try sealing.take(asset, into: 0) != nil)
      #expect(try sealing.open(asset.hash, of: 0)?.isSealed == true)
      #expect(try sealing.read(asset, shard: 0) == [1, 2, 3])
      let failure = #expect(throws: AssetError.self) { try plain.read(asset, shard: 0) }
      guard case .missingKey = failure else {
        Issue.record("\(String(describing: failure))")
        return
      }
    }
  }

  @Test(arguments: AssetEngine.allCases)
  func `content that begins like a sealed one of an unknown key is doubtful until it is compared with its name`(
    engine: AssetEngine
  ) throws {
    try engine.run { open in
      let (plain, sealing) = (try open(KeyRing()), try open(try Self.newKeys()))
      let content = Array("aqseal-1".utf8) + Self.content(200)
      let asset = try plain.put(content, until: 0)
      _ = try plain.take(asset, into: 0)
      let found = try #require(try plain.open(asset.hash, of: 0))
      #expect(found.isDoubtful && !found.isSealed && found.byteCount == asset.byteCount)
      try found.compareWithName()
      #expect(try plain.read(asset, shard: 0) == content)
      #expect(try plain.open(asset.hash, of: 0)?.identity == found.identity)
      let other = try sealing.put([1, 2, 3], until: 0)
      _ = try sealing.take(other, into: 0)
      let unknown = try #require(try plain.open(other.hash, of: 0))
      #expect(unknown.isDoubtful && unknown.identity != found.identity)
      let failure = #expect(throws: AssetError.self) { try unknown.compareWithName() }
      guard case .missingKey = failure else {
        Issue.record("\(String(describing: failure))")
        return
      }
      #expect(try sealing.open(other.hash, of: 0)?.isDoubtful == false)
    }
  }

  @Test func `a bucket tells a writer only what was prepared, once, and nothing of contents that are being removed`()
    throws
  {
    try AssetEngine.bucket.run { open in
      let store = try open(KeyRing())
      let asset = try store.put([1, 2, 3], until: 0)
      #expect(try store.adopt(asset, into: 0) == .unprepared && store.canAdopt(asset, into: 0) == nil)
      try store.prepare([asset], for: 0)
      #expect(try store.canAdopt(asset, into: 0) == true && store.canAdopt(asset, into: 1) == nil)
      #expect(try store.adopt(asset, into: 0) == .done(place: "shard-0"))
      #expect(try store.adopt(asset, into: 0) == .unprepared)
      try store.prepare([asset], for: 0)
      let time = try #require(store.announceRemoval(of: [asset.hash], from: 0))
      #expect(try store.adopt(asset, into: 0) == .unprepared)
      let refusal = #expect(throws: AssetError.self) { try store.prepare([asset], for: 0) }
      guard case .unavailable = refusal else {
        Issue.record("\(String(describing: refusal))")
        return
      }
      try store.remove([asset.hash], from: 0, announcedAt: time)
      #expect(try store.take(asset, into: 0) == "shard-0", "the spool still has it")
    }
  }
}
