import Assets
import Foundation
import RecordStore
import Records
import Testing

/// A full disk: a small file system in memory where the tests may mount one.
@Suite(.serialized)
struct DiskFullTests {
  @Test func `a full disk refuses writes whole, serves reads, and takes writes again when there is space`() async throws
  {
    let folder = try TemporaryFolder()
    guard try Self.mount(folder.path) else { return print("skipped: no file system can be mounted here (not root?)") }
    defer { Self.unmount(folder.path) }
    let ballast = folder.path + "/ballast"
    var options = SQLiteRecordStore.Options()
    options.checkpointPages = 100
    let store = try SQLiteRecordStore(
      SQLiteConfiguration(directory: folder.path + "/data", options: options), shardCount: 1)
    let shard = try await store.open(shard: 0)
    let place = try await Place(in: shard)
    #expect(FileManager.default.createFile(atPath: ballast, contents: Data(count: 4 << 20)))

    var acknowledged: [StoredRecord] = []
    var failure: StoreError?
    while failure == nil && acknowledged.count < 5000 {
      let number = acknowledged.count
      // Bodies of one group fail together, each completely or not at all.
      let pending = (0..<3).map { index in
        shard.enqueue {
          try $0.save(Sample.note("\(number + index)", title: String(repeating: "x", count: 2000)), in: place)
        }
      }
      for commit in pending {
        do {
          acknowledged.append(try await commit.value)
        } catch let error as StoreError {
          failure = error
        }
      }
    }
    guard case .full = failure else {
      Issue.record("\(String(describing: failure))")
      return
    }
    #expect(acknowledged.count > 100)
    func state() async throws -> [StoredRecord] {
      try await shard.read { try $0.changes(in: place.zone, after: 0, limit: 10_000) }
    }
    #expect(try await state() == acknowledged)
    #expect(try await shard.read { try $0.zone(key: place.zone)?.sequence } == acknowledged.last?.sequence)
    // The disk is still full, and the data are still there.
    await #expect(throws: StoreError.self) {
      try await shard.write {
        try $0.save(Sample.note("big", title: String(repeating: "x", count: 500_000)), in: place)
      }
    }
    #expect(try await state() == acknowledged)

    try Self.empty(ballast)
    let after = try await shard.write {
      try $0.save(Sample.note("after", title: String(repeating: "x", count: 500_000)), in: place)
    }
    #expect(try await state() == acknowledged + [after])
    #expect(try await #require(shard as? SQLiteShardStore).verify().problems == [])
    await shard.close()
    let again = try await store.open(shard: 0)
    #expect(try await again.read { try $0.changes(in: place.zone, after: 0, limit: 10_000) } == acknowledged + [after])
    await again.close()
  }

  @Test func `a shard that finds no space when it is opened says so, and opens later`() async throws {
    let folder = try TemporaryFolder()
    guard try Self.mount(folder.path) else { return print("skipped: no file system can be mounted here (not root?)") }
    defer { Self.unmount(folder.path) }
    let store = try SQLiteRecordStore(SQLiteConfiguration(directory: folder.path + "/data"), shardCount: 1)
    #expect(FileManager.default.createFile(atPath: folder.path + "/ballast", contents: nil))
    try Self.fill(folder.path + "/ballast")
    do {
      _ = try await store.open(shard: 0)
      Issue.record("it opened")
    } catch StoreError.full {
    } catch {
      Issue.record("\(error)")
    }
    try Self.empty(folder.path + "/ballast")
    let shard = try await store.open(shard: 0)
    _ = try await Place(in: shard)
    await shard.close()
  }

  @Test(arguments: [false, true])
  func `content that finds no space leaves nothing, streamed or not, and is taken when there is some`(isStreamed: Bool)
    async throws
  {
    let folder = try TemporaryFolder()
    guard try Self.mount(folder.path) else { return print("skipped: no file system can be mounted here (not root?)") }
    defer { Self.unmount(folder.path) }
    let assets = AssetFolder(directory: folder.path + "/assets")
    let writers = AssetWriters(count: 1)
    let kept = try assets.put([1, 2, 3], until: 0)
    func put(_ content: [UInt8]) async throws(AssetError) -> Asset {
      guard isStreamed else { return try assets.put(content, until: 0) }
      let upload = AssetUpload(into: assets, until: 0, writers: writers)
      for start in stride(from: 0, to: content.count, by: 1 << 16) {
        content[start..<min(start + 1 << 16, content.count)].withUnsafeBytes { piece in
          // Keeps the whole content in memory; another test covers back pressure.
          _ = upload.take(piece) {}
        }
      }
      return try await upload.finish()
    }
    do throws(AssetError) {
      _ = try await put(Array(repeating: 1, count: 9 << 20))
      Issue.record("it was stored")
    } catch {
      if case .full = error {} else { Issue.record("\(error)") }
    }
    #expect(try FileManager.default.contentsOfDirectory(atPath: assets.directory + "/uploads/0").count == 1)
    #expect(try assets.read(kept, shard: 0) == [1, 2, 3])
    #expect(try await put(Array(repeating: 1, count: 1 << 20)).byteCount == 1 << 20)
  }

  /// Writes until nothing more fits.
  private static func fill(_ path: String) throws {
    let handle = try #require(FileHandle(forWritingAtPath: path))
    defer { try? handle.close() }
    try handle.truncate(atOffset: 0)
    for size in [1 << 16, 4096, 1] {
      while (try? handle.write(contentsOf: Data(count: size))) != nil {}
    }
  }

  /// Frees a file's space at once. After a removal, child processes of other tests that are just starting would hold
  /// its descriptor until they run their program.
  private static func empty(_ path: String) throws {
    let handle = try #require(FileHandle(forWritingAtPath: path))
    defer { try? handle.close() }
    try handle.truncate(atOffset: 0)
  }

  /// Mounts a file system of 8 MB; false where that is not allowed.
  private static func mount(_ path: String) throws -> Bool {
    try execute("mount", ["-t", "tmpfs", "-o", "size=8m", "tmpfs", path])
  }
  private static func unmount(_ path: String) { _ = try? execute("umount", ["-l", path]) }

  private static func execute(_ program: String, _ arguments: [String]) throws -> Bool {
    try ChildProcess(program, arguments).wait() == 0
  }
}
