import Crypto
import Foundation
import RecordStore
import Records
import Testing

struct AssetStoreTests {
  static func flip(_ path: String, at offset: Int) throws {
    let handle = try #require(FileHandle(forUpdatingAtPath: path))
    defer { try? handle.close() }
    try handle.seek(toOffset: UInt64(offset))
    let byte = try #require(try handle.read(upToCount: 1)?.first)
    try handle.seek(toOffset: UInt64(offset))
    try handle.write(contentsOf: [byte ^ 0x40])
  }

  @Test func `content comes back by its hash, also when it is empty, and lies where its hash says`() throws {
    let folder = try TemporaryFolder()
    let assets = AssetStore(directory: folder.path + "/made/on/demand")
    for content in [[], [1], Array(repeating: UInt8(7), count: 3_000_000)] as [[UInt8]] {
      let asset = try assets.put(content)
      #expect(asset == Asset(hash: SHA256.hash(content), byteCount: Int64(content.count)))
      #expect(try assets.read(asset) == content)
      let name = Hex.encode(asset.hash)
      #expect(assets.path(of: asset) == "\(assets.directory)/\(name.prefix(2))/\(name.dropFirst(2))")
    }
    #expect(try FileManager.default.contentsOfDirectory(atPath: assets.directory + "/incoming") == [])
  }

  @Test func `the same content put again, at once and by many, is one file`() async throws {
    let folder = try TemporaryFolder()
    let assets = AssetStore(directory: folder.path)
    let content = Array(repeating: UInt8(3), count: 100_000)
    let found = try await withThrowingTaskGroup(of: Asset.self) { group in
      for _ in 0..<16 { group.addTask { try assets.put(content) } }
      return try await group.reduce(into: Set()) { $0.insert($1) }
    }
    let asset = try #require(found.first)
    #expect(found.count == 1)
    #expect(try assets.put(content) == asset)
    #expect(try FileManager.default.contentsOfDirectory(atPath: Folder.parent(assets.path(of: asset))).count == 1)
    #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path + "/incoming") == [])
  }

  enum Folder {
    static func parent(_ path: String) -> String { (path as NSString).deletingLastPathComponent }
  }

  @Test func `a missing file is an I/O error, an altered or shortened one is corrupt`() throws {
    let folder = try TemporaryFolder()
    let assets = AssetStore(directory: folder.path)
    let asset = try assets.put(Array(repeating: 1, count: 10_000))
    for wrong in [Asset(hash: SHA256.hash([9]), byteCount: 1), Asset(hash: [], byteCount: 0), Asset(hash: Array("../../etc".utf8), byteCount: 4)] {
      let error = #expect(throws: StoreError.self) { try assets.read(wrong) }
      guard case .io = error else {
        Issue.record("\(String(describing: error))")
        return
      }
    }
    try Self.flip(assets.path(of: asset), at: 5000)
    let altered = #expect(throws: StoreError.self) { try assets.read(asset) }
    guard case .corrupt = altered else {
      Issue.record("\(String(describing: altered))")
      return
    }
    try FileManager.default.removeItem(atPath: assets.path(of: asset))
    _ = try assets.put(Array(repeating: 1, count: 10_000))
    var longer = asset
    longer.byteCount += 1
    let short = #expect(throws: StoreError.self) { try assets.read(longer) }
    guard case .corrupt = short else {
      Issue.record("\(String(describing: short))")
      return
    }
  }

  @Test func `a file of the wrong length under the name is replaced`() throws {
    let folder = try TemporaryFolder()
    let assets = AssetStore(directory: folder.path)
    let content = Array(repeating: UInt8(1), count: 10_000)
    let asset = try assets.put(content)
    #expect(truncate(assets.path(of: asset), 10) == 0)
    #expect(try assets.put(content) == asset)
    #expect(try assets.read(asset) == content)
  }

  @Test func `a folder that can't be written is an I/O error and leaves nothing`() throws {
    let folder = try TemporaryFolder()
    #expect(FileManager.default.createFile(atPath: folder.path + "/file", contents: nil))
    let assets = AssetStore(directory: folder.path + "/file/assets")
    #expect(throws: StoreError.self) { try assets.put([1]) }
  }
}
