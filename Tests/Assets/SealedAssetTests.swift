import Crypto
import Foundation
import Records
import Synchronization
import Testing

@testable import Assets

/// Files of a store with keys: they show nothing of their content, and are read back as what their names say.
struct SealedAssetTests {
  private let folder: TemporaryFolder
  private let first: KeyRing
  private let both: KeyRing

  init() throws {
    folder = try TemporaryFolder()
    let lines = [KeyRing.newKey(), KeyRing.newKey()]
    first = try KeyRing(parsing: lines[0])
    both = try KeyRing(parsing: lines.joined(separator: "\n"))
  }

  @Test(arguments: [0, 1, 65_508, 400_000])
  func `a file is sealed in the spool and in its shard, under the name and length of its content`(count: Int) throws {
    let assets = AssetFolder(directory: folder.path, keys: first)
    let content = Array("in the open ".utf8) + [UInt8](repeating: 7, count: count)
    let asset = try assets.put(content, until: 1)
    #expect(asset == Asset(hash: SHA256.hash(content), byteCount: Int64(content.count)))
    let spooled = folder.path + "/uploads/0/" + Hex.encode(asset.hash)
    #expect(FileManager.default.contents(atPath: spooled)?.range(of: Data("in the open".utf8)) == nil)
    #expect(try assets.take(asset, into: 2) != nil && assets.hasFile(of: asset, shard: 2))
    let rotated = AssetFolder(directory: folder.path, keys: both)
    #expect(try rotated.read(asset, shard: 2) == content)
    let file = try #require(try rotated.open(asset.hash, of: 2))
    #expect(file.isSealed && file.byteCount == asset.byteCount)
    var read: [UInt8] = []
    while read.count < content.count { read += try file.read(at: Int64(read.count), limit: 10_000) }
    #expect(read == content)
    #expect(try file.read(at: 3, limit: 5) == Array(content[3..<8]))
    #expect(
      try file.read(at: asset.byteCount, limit: 5) == []
        && file.read(at: asset.byteCount - 1, limit: 5) == [content[content.count - 1]])
  }

  @Test func `without its key a file is refused by the key's name, and one that was altered is refused`() throws {
    let assets = AssetFolder(directory: folder.path, keys: first)
    let asset = try assets.put([UInt8](repeating: 1, count: 100_000), until: 1)
    _ = try assets.take(asset, into: 0)
    let id = try #require(first.newest)
    let refusal = Self.failure { try AssetFolder(directory: folder.path).read(asset, shard: 0) }
    #expect(refusal.hasPrefix("missingKey") && refusal.contains(id.description), "\(refusal)")
    let path = assets.path(of: asset, shard: 0)
    let handle = try #require(FileHandle(forUpdatingAtPath: path))
    try handle.seek(toOffset: 70_000)
    try handle.write(contentsOf: [0xff, 0xfe, 0xfd])
    try handle.close()
    let damage = Self.failure { try assets.read(asset, shard: 0) }
    #expect(damage.hasPrefix("corrupt"), "\(damage)")
  }

  /// The error of a read, as text.
  private static func failure(_ read: () throws -> [UInt8]) -> String {
    do {
      return "\(try read().count) bytes were read"
    } catch {
      return String(describing: error)
    }
  }

  @Test(arguments: [60, 100, 200_000]) func `plain content that begins like a sealed file is read without its key`(
    count: Int
  ) throws {
    let plain = AssetFolder(directory: folder.path)
    let content = Array("aqseal-1".utf8) + [UInt8](repeating: 7, count: count - 8)
    let asset = try plain.put(content, until: 1)
    #expect(try plain.take(asset, into: 0) != nil)
    for assets in [plain, AssetFolder(directory: folder.path, keys: first)] {
      let file = try #require(try assets.open(asset.hash, of: 0))
      #expect(!file.isSealed && file.byteCount == asset.byteCount)
      #expect(try file.readAll() == content)
      #expect(try assets.read(asset, shard: 0) == content)
    }
    // Damaged, it may as well be sealed.
    try Data(content.dropLast() + [8]).write(to: URL(filePath: plain.path(of: asset, shard: 0)))
    let refusal = Self.failure { try plain.read(asset, shard: 0) }
    #expect(refusal.hasPrefix("missingKey"), "\(refusal)")
  }

  @Test func `content from before there was a key stays readable, and is sealed when it comes again`() throws {
    let content = Array("in the open".utf8)
    let plain = AssetFolder(directory: folder.path)
    let asset = try plain.put(content, until: 1)
    _ = try plain.take(asset, into: 0)
    let sealed = AssetFolder(directory: folder.path, keys: first)
    #expect(try sealed.read(asset, shard: 0) == content)
    #expect(try sealed.take(asset, into: 0) != nil, "there is no sealed one yet")
    #expect(try sealed.put(content, until: 5000) == asset)
    #expect(try sealed.take(asset, into: 0) != nil)
    #expect(FileManager.default.contents(atPath: sealed.path(of: asset, shard: 0))?.range(of: Data(content)) == nil)
    #expect(try sealed.read(asset, shard: 0) == content)
    #expect(try sealed.hashes(in: Int(asset.hash[0]), of: 0) == [asset.hash], "no file is left beside it")
    // A store without the key does not take the file for damaged, and adopts it: the key may come back.
    #expect(try plain.finds(asset, into: 0))
  }

  /// Bytes of one value, which note the longest read of them.
  private final class EqualBytes: AssetBytes {
    let name = "equal bytes"
    let byteCount: Int64
    let areLocal = true
    let address: String? = nil
    let identity = ContentIdentity(key: "equal bytes", tag: "")
    let longestRead = Mutex(0)

    init(count: Int64) { byteCount = count }

    func read(at offset: Int64, count: Int) -> [UInt8] {
      longestRead.withLock { $0 = max($0, count) }
      return [UInt8](repeating: 7, count: count)
    }
  }

  @Test func `a long content is compared with its asset a piece at a time`() throws {
    let bytes = EqualBytes(count: 20_000_000)
    let hash = SHA256.hash([UInt8](repeating: 7, count: 20_000_000))
    let content = try AssetContent(bytes, hash: hash, keys: KeyRing())
    try content.compare(with: Asset(hash: hash, byteCount: 20_000_000))
    #expect(throws: AssetError.self) { try content.compare(with: Asset(hash: hash, byteCount: 20_000_001)) }
    #expect(bytes.longestRead.withLock(\.self) <= 1 << 20)
  }

  @Test(arguments: [0, 1, 200_000])
  func `a file is verified as it is read: sound, altered, missing and without its key`(count: Int) throws {
    let assets = AssetFolder(directory: folder.path, keys: first)
    let asset = try assets.put([UInt8](repeating: 1, count: count), until: 1)
    #expect(throws: AssetError.self, "no shard has it yet") { try assets.verify(asset, shard: 0) }
    _ = try assets.take(asset, into: 0)
    try assets.verify(asset, shard: 0)
    let refusal = Self.failure {
      try AssetFolder(directory: folder.path).verify(asset, shard: 0)
      return []
    }
    #expect(refusal.hasPrefix("missingKey"), "\(refusal)")
    let handle = try #require(FileHandle(forUpdatingAtPath: assets.path(of: asset, shard: 0)))
    let end = try handle.seekToEnd()
    try handle.seek(toOffset: end - 1)
    let last = try handle.read(upToCount: 1)?.first ?? 0
    try handle.seek(toOffset: end - 1)
    try handle.write(contentsOf: [~last])
    try handle.close()
    let damage = Self.failure {
      try assets.verify(asset, shard: 0)
      return []
    }
    #expect(damage.hasPrefix("corrupt"), "\(damage)")
  }
}
