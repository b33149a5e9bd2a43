// The list of a shard's files in a backup, in the format of `sha256sum`. It is read line by line, because there may be
// millions.

import Assets
import Crypto
import Glibc

struct BackupList {
  let folder: String
  let shard: Int

  var path: String { folder + "/" + ShardCopy.listName(shard) }

  /// Verifies the list itself.
  /// - Throws: `StoreError.corrupt` when its digest differs.
  func verify(_ digest: String) throws {
    guard access(path, F_OK) == 0, Hex.encode(try BackupFile.digest(of: path).hash) == digest else {
      throw StoreError.corrupt("\(path) does not match the manifest")
    }
  }

  /// Calls `body` for each line.
  /// - Parameter body: gets a file's digest and its name in the backup.
  /// - Throws: `StoreError.corrupt` for an impossible line; errors of `body`.
  func forEach(_ body: (_ digest: String, _ file: String) throws -> Void) throws {
    guard let file = fopen(path, "re") else { throw Folder.failure("open file", path) }
    defer { fclose(file) }
    var line: UnsafeMutablePointer<CChar>?
    var capacity = 0
    defer { free(line) }
    while case let count = getline(&line, &capacity, file), count > 0, let line {
      let bytes = UnsafeRawBufferPointer(start: line, count: count)
      let text = String(decoding: bytes.last == UInt8(ascii: "\n") ? bytes.dropLast() : bytes[...], as: UTF8.self)
      let parts = text.split(separator: " ", maxSplits: 1, omittingEmptySubsequences: true)
      guard parts.count == 2, case let name = String(parts[1].drop { $0 == " " }), isOwn(name) else {
        throw StoreError.corrupt("\(path) lists a file that no backup has")
      }
      try body(String(parts[0]), name)
    }
    guard ferror(file) == 0 else { throw Folder.failure("read file", path) }
  }

  /// True for names that a backup of this shard can contain, so that no other file is read or written.
  private func isOwn(_ file: String) -> Bool {
    if file == ShardCopy.fileName(shard) { return true }
    let prefix = ShardCopy.assetFolder(shard) + "/"
    return file.hasPrefix(prefix)
      && file.dropFirst(prefix.count).utf8.allSatisfy {
        (0x30...0x39).contains($0) || (0x61...0x66).contains($0) || $0 == 0x2f
      }
  }
}

/// Writes such a list while the files are added.
final class BackupListWriter {
  private let path: String
  private let file: UnsafeMutablePointer<FILE>
  private let digest = SHA256.Stream()
  private(set) var fileCount = 0
  private(set) var byteCount: Int64 = 0

  init(path: String) throws(AssetError) {
    self.path = path
    try Folder.remove(path)
    let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
    guard descriptor >= 0, let file = fdopen(descriptor, "w") else { throw Folder.failure("make file", path) }
    self.file = file
  }

  deinit { fclose(file) }

  /// Adds a file of the backup to the list.
  /// - Returns: the file's digest.
  @discardableResult
  func add(_ name: String, in folder: String) throws(AssetError) -> BackupFile.Digest {
    let found = try BackupFile.digest(of: folder + "/" + name)
    let line = Array("\(Hex.encode(found.hash))  \(name)\n".utf8)
    digest.update(line)
    guard fwrite(line, 1, line.count, file) == line.count else { throw Folder.failure("write file", path) }
    fileCount += 1
    byteCount += found.byteCount
    return found
  }

  /// Makes the list durable.
  /// - Returns: the SHA-256 of the list, 64 hexadecimal digits.
  func finish() throws(AssetError) -> String {
    guard fflush(file) == 0, fsync(fileno(file)) == 0 else { throw Folder.failure("sync file", path) }
    return Hex.encode(digest.finish())
  }
}
