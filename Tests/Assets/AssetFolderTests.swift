import Assets
import Crypto
import Foundation
import Records
import Testing

struct AssetFolderTests {
  static let hour: Int64 = 3600

  /// The names in a folder; empty for a missing folder.
  static func names(_ path: String) -> [String] {
    ((try? FileManager.default.contentsOfDirectory(atPath: path)) ?? []).sorted()
  }

  @Test func `content waits in the spool under its hash, and a shard gets a link of its own`() throws {
    let folder = try TemporaryFolder()
    let assets = AssetFolder(directory: folder.path + "/made/on/demand")
    for content in [[], [1], Array(repeating: UInt8(7), count: 3_000_000)] as [[UInt8]] {
      let asset = try assets.put(content, until: 7 * Self.hour)
      #expect(asset == Asset(hash: SHA256.hash(content), byteCount: Int64(content.count)))
      let name = Hex.encode(asset.hash)
      #expect(Self.names(assets.directory + "/uploads/7").contains(name))
      #expect(try assets.finds(asset, into: 3))
      let path = "\(assets.directory)/shard-3/\(name.prefix(2))/\(name.dropFirst(2))"
      #expect(!FileManager.default.fileExists(atPath: path))
      for _ in 0..<2 { #expect(try assets.take(asset, into: 3) == (path as NSString).deletingLastPathComponent) }
      #expect(assets.path(of: asset, shard: 3) == path)
      #expect(try assets.read(asset, shard: 3) == content)
    }
    #expect(!Self.names(assets.directory + "/uploads/7").contains { $0.hasSuffix(".part") })
  }

  @Test func `content that was never uploaded is not adopted`() throws {
    let folder = try TemporaryFolder()
    let assets = AssetFolder(directory: folder.path)
    let asset = try assets.put([1, 2, 3], until: 0)
    for wrong in [
      Asset(hash: SHA256.hash([9]), byteCount: 3), Asset(hash: asset.hash, byteCount: 4), Asset(hash: [], byteCount: 3),
    ] {
      #expect(try assets.take(wrong, into: 0) == nil)
      #expect(try !assets.finds(wrong, into: 0))
    }
  }

  @Test(arguments: [false, true])
  func `a file that a disk has damaged gives way to the next upload of its content`(isSealed: Bool) throws {
    let folder = try TemporaryFolder()
    let keys = isSealed ? try KeyRing(parsing: KeyRing.newKey()) : KeyRing()
    let assets = AssetFolder(directory: folder.path, keys: keys)
    let content = Array(repeating: UInt8(3), count: 1000)
    let asset = try assets.put(content, until: 1)
    #expect(try assets.take(asset, into: 0) != nil)
    let path = assets.path(of: asset, shard: 0)
    let handle = try #require(FileHandle(forUpdatingAtPath: path))
    try handle.seek(toOffset: 500)
    try handle.write(contentsOf: [7, 8, 9])
    try handle.close()
    // The spool's name is one of the same file.
    #expect(try assets.take(asset, into: 0) != nil)
    #expect(throws: AssetError.self) { try assets.read(asset, shard: 0) }
    #expect(try assets.put(content, until: 1) == asset)
    #expect(try assets.take(asset, into: 0) != nil)
    #expect(try assets.read(asset, shard: 0) == content)
    #expect(try assets.hashes(in: Int(asset.hash[0]), of: 0) == [asset.hash])
    #expect(Self.names((path as NSString).deletingLastPathComponent).count == 1)
  }

  @Test func `the same content put again, at once and by many, is one file`() async throws {
    let folder = try TemporaryFolder()
    let assets = AssetFolder(directory: folder.path)
    let content = Array(repeating: UInt8(3), count: 100_000)
    let found = try await withThrowingTaskGroup(of: Asset.self) { group in
      for _ in 0..<16 { group.addTask { try assets.put(content, until: 1) } }
      return try await group.reduce(into: Set()) { $0.insert($1) }
    }
    #expect(found.count == 1)
    #expect(Self.names(folder.path + "/uploads/0").count == 1)
  }

  @Test func `the spool is swept by the hour, with a margin, and a shard's link outlives it`() throws {
    let folder = try TemporaryFolder()
    let assets = AssetFolder(directory: folder.path)
    let old = try assets.put([1], until: 10 * Self.hour + 5)
    let used = try assets.put([2], until: 10 * Self.hour + 3599)
    let young = try assets.put([3], until: 11 * Self.hour)
    // As after a crash in the middle of an upload.
    #expect(FileManager.default.createFile(atPath: folder.path + "/uploads/10/abc.part", contents: Data([1])))
    _ = try assets.take(used, into: 0)
    #expect(try assets.sweepSpool(now: 12 * Self.hour - 1) == 0)
    #expect(try assets.sweepSpool(now: 12 * Self.hour) == 3)
    #expect(Self.names(folder.path + "/uploads") == ["11"])
    #expect(try !assets.finds(old, into: 0))
    #expect(try assets.finds(young, into: 0))
    #expect(try assets.read(used, shard: 0) == [2])
    // A second upload of the same content brings it back.
    _ = try assets.put([1], until: 12 * Self.hour)
    #expect(try assets.finds(old, into: 0))
  }

  @Test func `names that are not ours are left alone`() throws {
    let folder = try TemporaryFolder()
    let assets = AssetFolder(directory: folder.path)
    let asset = try assets.put([1], until: 0)
    _ = try assets.take(asset, into: 2)
    let place = Int(asset.hash[0])
    try FileManager.default.createDirectory(
      atPath: folder.path + "/uploads/lost+found", withIntermediateDirectories: true)
    #expect(
      FileManager.default.createFile(
        atPath: "\(folder.path)/shard-2/\(Hex.encode([asset.hash[0]]))/note.txt", contents: nil))
    #expect(try assets.hashes(in: place, of: 2) == [asset.hash])
    #expect(try assets.hashes(in: (place + 1) % 256, of: 2) == [])
    #expect(try assets.sweepSpool(now: 99 * Self.hour) == 1)
    #expect(Self.names(folder.path + "/uploads") == ["lost+found"])
  }

  @Test func `removed files are gone, and removing them again is no failure`() throws {
    let folder = try TemporaryFolder()
    let assets = AssetFolder(directory: folder.path)
    let asset = try assets.put([1], until: 0)
    _ = try assets.take(asset, into: 0)
    _ = try assets.take(asset, into: 1)
    for _ in 0..<2 { try assets.remove([asset.hash, SHA256.hash([8])], from: 0, announcedAt: nil) }
    #expect(!FileManager.default.fileExists(atPath: assets.path(of: asset, shard: 0)))
    #expect(try assets.read(asset, shard: 1) == [1])
  }

  @Test func `a folder that somebody else has just made is made durable by whoever relies on it`() throws {
    let folder = try TemporaryFolder()
    let assets = AssetFolder(directory: folder.path)
    let asset = try assets.put([1], until: 0)
    // As another process leaves folders: made, but not synced yet.
    let (uploads, shard) = ("\(folder.path)/uploads/7", Folder.parent(of: assets.path(of: asset, shard: 3)))
    for path in [uploads, shard] {
      try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    }
    for path in [uploads, shard] { #expect(!Folder.isDurable(path)) }
    _ = try assets.put([2], until: 7 * Self.hour)
    #expect(Folder.isDurable(uploads))
    #expect(try assets.take(asset, into: 3) == shard)
    #expect(Folder.isDurable(shard))
  }

  @Test func `a shard offers its content to others`() throws {
    let folder = try TemporaryFolder()
    let assets = AssetFolder(directory: folder.path)
    let asset = try assets.put([1], until: 0)
    _ = try assets.take(asset, into: 0)
    _ = try assets.sweepSpool(now: 9 * Self.hour)
    #expect(try !assets.finds(asset, into: 1))
    for _ in 0..<2 { #expect(try assets.offer([asset], of: 0, until: 20 * Self.hour) == [asset]) }
    #expect(try assets.finds(asset, into: 1))
    #expect(try assets.offer([asset], of: 7, until: 20 * Self.hour).isEmpty)
  }

  @Test func `a missing file is an I/O error, an altered or shortened one is corrupt`() throws {
    let folder = try TemporaryFolder()
    let assets = AssetFolder(directory: folder.path)
    let asset = try assets.put(Array(repeating: 1, count: 10_000), until: 0)
    _ = try assets.take(asset, into: 0)
    for wrong in [
      Asset(hash: SHA256.hash([9]), byteCount: 1), Asset(hash: [], byteCount: 0),
      Asset(hash: Array("../../etc".utf8), byteCount: 4),
    ] {
      let error = #expect(throws: AssetError.self) { try assets.read(wrong, shard: 0) }
      if case .io = error {} else { Issue.record("\(String(describing: error))") }
    }
    let path = assets.path(of: asset, shard: 0)
    let handle = try #require(FileHandle(forUpdatingAtPath: path))
    try handle.seek(toOffset: 5000)
    try handle.write(contentsOf: [9])
    let altered = #expect(throws: AssetError.self) { try assets.read(asset, shard: 0) }
    if case .corrupt = altered {} else { Issue.record("\(String(describing: altered))") }
    #expect(truncate(path, 10) == 0)
    let short = #expect(throws: AssetError.self) { try assets.read(asset, shard: 0) }
    if case .corrupt = short {} else { Issue.record("\(String(describing: short))") }
  }

  @Test func `a folder that can't be written is an I/O error and leaves nothing`() throws {
    let folder = try TemporaryFolder()
    #expect(FileManager.default.createFile(atPath: folder.path + "/file", contents: nil))
    let assets = AssetFolder(directory: folder.path + "/file/assets")
    #expect(throws: AssetError.self) { try assets.put([1], until: 0) }
  }
}

/// A folder that is removed with the test that made it.
final class TemporaryFolder: Sendable {
  let path: String

  init() throws {
    path = FileManager.default.temporaryDirectory.path + "/aquifer-assets-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
  }

  deinit {
    // Dropped because a failed removal must not hide the test's own failure.
    try? FileManager.default.removeItem(atPath: path)
  }
}
