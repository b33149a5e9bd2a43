import BucketServer
import Crypto
import Foundation
import Records
import Testing

@testable import Assets

/// Copies of all contents between a folder and a bucket, with faults of the network in between.
@Suite(.serialized) struct AssetCopyTests {
  private static let expiry: Int64 = 4_000_000_000
  /// Other suites set faults of their own server meanwhile.
  private static let ownServer = Result { try BucketServer() }
  private let server: BucketServer
  private let bucket: AssetBucket
  private let behind: AssetBucket
  private let folder: AssetFolder
  private let path = FileManager.default.temporaryDirectory.appending(path: "copy-\(UUID().uuidString)").path
  private let installation = InstallationID(signingKey: [1])

  init() throws {
    server = try Self.ownServer.get()
    let name = "copies-" + UUID().uuidString
    bucket = try AssetEngine.bucket(name, at: server.endpoint)
    behind = try AssetEngine.bucket(name, at: server.soundEndpoint)
    folder = AssetFolder(directory: path)
    try mark(path)
  }

  private func mark(_ path: String) throws {
    try FolderMarkFile.open(in: path, makes: true)?.write(FolderMark(installation: installation))
  }

  private func copy(_ source: any StoredContents, _ target: any StoredContents) async throws -> AssetCopy.Tally {
    try await AssetCopy(from: source, to: target, now: { Self.expiry - 100_000 }).run()
  }

  /// Contents of a store by name, as they lie there.
  private static func contents(_ store: any StoredContents, in folder: String = "") throws -> [String: [UInt8]] {
    let entries = try store.entries(in: folder)
    var contents: [String: [UInt8]] = [:]
    for (name, byteCount) in entries.byteCounts where StoredEntries.hash(in: name) != nil {
      contents[name] = try store.bytes(of: name)?.read(at: 0, count: Int(byteCount))
    }
    for folder in entries.folders { contents.merge(try Self.contents(store, in: folder)) { $1 } }
    return contents
  }

  private static let long = (0..<12_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }

  /// Fills the folder: contents of two shards, plain, sealed, empty and long, some of them in the spool alone.
  private func fill() throws -> [Asset] {
    let sealing = AssetFolder(directory: path, keys: try KeyRing(parsing: Hex.encode(SecureRandom.bytes(32))))
    var assets = try (0..<40).map { try folder.put([UInt8($0), 7], until: Self.expiry) }
    assets += [try folder.put([], until: Self.expiry), try folder.put(Self.long, until: Self.expiry)]
    assets.append(try sealing.put([1, 2, 3], until: Self.expiry))
    for (index, asset) in assets.enumerated() where index % 3 > 0 { _ = try folder.adopt(asset, into: index % 3) }
    return assets
  }

  @Test func `all contents come to a bucket and back unaltered, by several runs over a faulty network`() async throws {
    defer { try? FileManager.default.removeItem(atPath: path) }
    let assets = try fill()
    let expected = try Self.contents(folder)
    #expect(expected.count == 43 + 28)
    // The first run breaks off: no patience outlasts so many faults.
    try await server.set([.init(.refuse, "PUT", match: "shard-2", times: 99, value: 503)])
    await #expect(throws: AssetError.self) { try await copy(folder, bucket) }
    try await server.set([
      .init(.refuse, "PUT", value: 503), .init(.half, "PUT"), .init(.damage, "PUT"), .init(.lose, "POST"),
    ])
    let second = try await copy(folder, bucket)
    #expect(second.problems == [] && second.present + second.copied == expected.count)
    #expect(try Self.contents(behind) == expected)
    #expect(try behind.read(assets[41], shard: 2) == Self.long)
    let third = try await copy(folder, bucket)
    #expect(third.copied == 0 && third.present == expected.count)
    try behind.claim(for: installation)
    let back = AssetFolder(directory: path + "-back")
    defer { try? FileManager.default.removeItem(atPath: back.directory) }
    let fourth = try await copy(behind, back)
    #expect(fourth.copied == expected.count)
    #expect(try Self.contents(back) == expected)
    _ = try behind.sweepSpool(now: Self.expiry * 2)
    #expect(try behind.unfinishedUploads().isEmpty)
  }

  @Test func `a damaged content is named and stays out of the target, and unfinished files do too`() async throws {
    defer { try? FileManager.default.removeItem(atPath: path) }
    let asset = try folder.put([1, 2, 3], until: Self.expiry)
    _ = try folder.adopt(asset, into: 0)
    let file = folder.path(of: asset, shard: 0)
    // Adopting made a second name of one file.
    try FileManager.default.removeItem(atPath: file)
    try Data([1, 2, 4]).write(to: URL(filePath: file))
    try Data([9]).write(to: URL(filePath: path + "/uploads/\(Self.expiry / 3600)/abc.part"))
    try await server.set([])
    let tally = try await copy(folder, bucket)
    #expect(tally.copied == 1 && tally.problems.count == 1 && tally.problems.first?.contains(file) == true)
    #expect(try Self.contents(behind).keys.allSatisfy { $0.hasPrefix("uploads/") })
  }

  @Test func `a copy needs a source that an installation uses, and a target that no other one uses`() async throws {
    defer { try? FileManager.default.removeItem(atPath: path) }
    try await server.set([])
    let nobody = AssetFolder(directory: path + "-nobody")
    let missing = await #expect(throws: AssetError.self) { try await copy(nobody, bucket) }
    #expect(missing?.reason.contains("no place of assets") == true)
    try behind.claim(for: InstallationID(signingKey: [2]))
    let foreign = await #expect(throws: AssetError.self) { try await copy(folder, bucket) }
    #expect(foreign?.reason.contains("another installation") == true)
  }
}
