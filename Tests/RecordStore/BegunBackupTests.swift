import Foundation
import Records
import Testing

@testable import RecordStore

/// A refused backup, and one whose draft another backup has taken, change nothing.
struct BegunBackupTests {
  let folder: TemporaryFolder
  let backup: BackupFolder

  init() throws {
    folder = try TemporaryFolder()
    backup = try BackupFolder(folder.path + "/monday")
  }

  private static let installation = "0123456789abcdef"

  private func content(of name: String) -> String? {
    try? String(contentsOfFile: folder.path + "/" + name, encoding: .utf8)
  }

  private func write(_ text: String, to name: String) throws {
    let file = URL(filePath: folder.path + "/" + name)
    try FileManager.default.createDirectory(at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
    try Data(text.utf8).write(to: file)
  }

  private static func manifest(_ shards: [ShardCopy] = []) -> BackupManifest {
    BackupManifest(
      installation: installation, startedAt: 1, createdAt: 2, shardCount: 1, directoryByteCount: 0,
      directoryDigest: String(repeating: "0", count: 64), shards: shards,
      missing: shards.isEmpty ? [BackupManifest.Missing(shard: 0, reason: "its worker is away")] : [])
  }

  @Test(arguments: ["monday.partial", "monday.partial/archive", "monday/yesterday"])
  func `a backup that is refused for what is in its place leaves that as it is`(name: String) throws {
    try write("kept", to: name)
    #expect(throws: StoreError.self) { try backup.begin(name: "01", installation: Self.installation) }
    #expect(content(of: name) == "kept")
  }

  @Test func `a backup whose draft another of its installation has taken changes nothing in it`() throws {
    let first = try backup.begin(name: "01", installation: Self.installation)
    let second = try backup.begin(name: "02", installation: Self.installation)
    try write("copied", to: "monday.partial/copy-0a/shard-0.sha256")
    #expect(throws: StoreError.self) { try first.take("0a", ofShard: 0) }
    #expect(throws: StoreError.self) { try first.finish(Self.manifest()) }
    first.abandon()
    #expect(content(of: "monday.partial/copy-0a/shard-0.sha256") == "copied")
    try second.take("0a", ofShard: 0)
    #expect(content(of: "monday.partial/shard-0.sha256") == "copied")
    try second.finish(Self.manifest())
    #expect(content(of: "monday/shard-0.sha256") == "copied")
    // It has its name: neither removes it now.
    first.abandon()
    second.abandon()
    #expect(content(of: "monday/shard-0.sha256") == "copied")
  }

  @Test func `a copy that is not there is not taken`() throws {
    let begun = try backup.begin(name: "01", installation: Self.installation)
    #expect(throws: StoreError.self) { try begun.take("0a", ofShard: 0) }
    // A worker of a release without attempts writes to the final place.
    try write("copied", to: "monday.partial/shard-0.sha256")
    try begun.take("0a", ofShard: 0)
    #expect(throws: StoreError.self) { try begun.take("0b", ofShard: 1) }
  }

  @Test(arguments: [false, true])
  func `a draft of another installation is refused, and one of an earlier release makes room`(isWhole: Bool) throws {
    let first = try backup.begin(name: "01", installation: Self.installation)
    if isWhole {
      // It ended before it had its name.
      try first.finish(Self.manifest())
      try FileManager.default.moveItem(atPath: backup.path, toPath: backup.draft)
    }
    #expect(throws: StoreError.self) { try backup.begin(name: "02", installation: "fedcba9876543210") }
    if isWhole { #expect(throws: Never.self) { try FinishedBackup(backup.draft) } } else { try first.check() }
    try FileManager.default.removeItem(atPath: backup.draft)
    try write("0123", to: "monday.partial/unfinished")
    try backup.begin(name: "02", installation: "fedcba9876543210").check()
  }
}
