// Files of backups: copied, linked and digested in pieces, and durable when that returns.

import Assets
import CLinux
import Crypto
import Glibc

enum BackupFile {
  /// What a list says of a file.
  struct Digest: Hashable {
    let hash: [UInt8]
    let byteCount: Int64
  }

  private static let pieceByteCount = 1 << 20

  /// - Throws: `AssetError.io`.
  static func digest(of path: String) throws(AssetError) -> Digest {
    let digest = SHA256.Stream()
    let count = try read(path) { (piece) throws(AssetError) in digest.update(piece) }
    return Digest(hash: digest.finish(), byteCount: count)
  }

  /// Copies a file to a name that nobody has yet.
  static func copy(_ path: String, to target: String) throws(AssetError) {
    let file = open(target, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
    guard file >= 0 else { throw Folder.failure("make file", target) }
    defer { _ = Glibc.close(file) }
    _ = try read(path) { (piece) throws(AssetError) in try write(piece, to: file, target) }
    guard fsync(file) == 0 else { throw Folder.failure("sync file", target) }
  }

  /// Gives a file a second name, or copies it where that can't be.
  static func linkOrCopy(_ path: String, to target: String) throws(AssetError) {
    if link(path, target) == 0 { return }
    guard [EXDEV, EPERM, EMLINK, EOPNOTSUPP].contains(errno) else { throw Folder.failure("link file", path) }
    try copy(path, to: target)
  }

  /// Writes a small file whole.
  static func write(_ bytes: [UInt8], to path: String) throws(AssetError) {
    try Folder.remove(path)
    let file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
    guard file >= 0 else { throw Folder.failure("make file", path) }
    defer { _ = Glibc.close(file) }
    var failure: AssetError?
    bytes.withUnsafeBytes { piece in
      do throws(AssetError) {
        try write(piece, to: file, path)
      } catch {
        failure = error
      }
    }
    if let failure { throw failure }
    guard fsync(file) == 0 else { throw Folder.failure("sync file", path) }
  }

  /// The content of a small file; nil when there is none.
  static func content(of path: String) throws(AssetError) -> [UInt8]? {
    if access(path, F_OK) != 0 { return nil }
    var content: [UInt8] = []
    _ = try read(path) { (piece) throws(AssetError) in content.append(contentsOf: piece) }
    return content
  }

  static func move(_ path: String, to target: String) throws(AssetError) {
    guard rename(path, target) == 0 else { throw Folder.failure("rename", path) }
    try Folder.sync(Folder.parent(of: target))
  }

  /// Removes a folder with all that is in it; one that is not there is none to remove.
  static func removeTree(_ path: String) throws(AssetError) {
    var status = stat()
    guard lstat(path, &status) == 0 else { return }
    guard status.st_mode & S_IFMT == S_IFDIR else { return try Folder.remove(path) }
    for name in try Folder.names(in: path) { try removeTree(path + "/" + name) }
    guard rmdir(path) == 0 else { throw Folder.failure("remove folder", path) }
  }

  private static func read(_ path: String, _ take: (UnsafeRawBufferPointer) throws(AssetError) -> Void) throws(AssetError) -> Int64 {
    let file = open(path, O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { throw Folder.failure("open file", path) }
    defer { _ = Glibc.close(file) }
    let piece = UnsafeMutableRawBufferPointer.allocate(byteCount: pieceByteCount, alignment: 16)
    defer { piece.deallocate() }
    var total: Int64 = 0
    while true {
      let count = Glibc.read(file, piece.baseAddress, piece.count)
      if count < 0, errno == EINTR { continue }
      guard count >= 0 else { throw Folder.failure("read file", path) }
      if count == 0 { return total }
      total += Int64(count)
      try take(UnsafeRawBufferPointer(rebasing: piece[..<count]))
    }
  }

  private static func write(_ piece: UnsafeRawBufferPointer, to file: Int32, _ path: String) throws(AssetError) {
    var rest = piece
    while !rest.isEmpty {
      let count = Glibc.write(file, rest.baseAddress, rest.count)
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { throw Folder.failure("write file", path) }
      rest = UnsafeRawBufferPointer(rebasing: rest[count...])
    }
  }
}
