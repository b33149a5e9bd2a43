// Copies, links and digests files of backups in pieces. Written files are durable on return.

import Assets
import CLinux
import Crypto
import Glibc

enum BackupFile {
  /// The digest and length of a file, as lists and manifests state them.
  struct Digest: Hashable {
    let hash: [UInt8]
    let byteCount: Int64
  }

  private static let pieceByteCount = 1 << 20

  /// The SHA-256 and the length of a file.
  /// - Throws: `AssetError.io`.
  static func digest(of path: String) throws(AssetError) -> Digest {
    let digest = SHA256.Stream()
    let count = try read(path) { (piece) throws(AssetError) in digest.update(piece) }
    return Digest(hash: digest.finish(), byteCount: count)
  }

  /// Copies a file to a name that is still free, and syncs the copy.
  static func copy(_ path: String, to target: String) throws(AssetError) {
    let file = open(target, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
    guard file >= 0 else { throw Folder.failure("make file", target) }
    defer { _ = Glibc.close(file) }
    _ = try read(path) { (piece) throws(AssetError) in try write(piece, to: file, target) }
    guard fsync(file) == 0 else { throw Folder.failure("sync file", target) }
  }

  /// Links a file to a second name. Copies it if the file system cannot link it.
  static func linkOrCopy(_ path: String, to target: String) throws(AssetError) {
    if link(path, target) == 0 { return }
    guard [EXDEV, EPERM, EMLINK, EOPNOTSUPP].contains(errno) else { throw Folder.failure("link file", path) }
    try copy(path, to: target)
  }

  /// Writes a whole small file in place of an earlier one, and syncs it.
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

  /// The content of a small file; nil when it does not exist.
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

  /// Removes a folder and its content. Does nothing when it does not exist.
  static func removeTree(_ path: String) throws(AssetError) {
    var status = stat()
    guard lstat(path, &status) == 0 else { return }
    guard status.st_mode & S_IFMT == S_IFDIR else { return try Folder.remove(path) }
    for name in try Folder.names(in: path) { try removeTree(path + "/" + name) }
    guard rmdir(path) == 0 else { throw Folder.failure("remove folder", path) }
  }

  private static func read(_ path: String, _ take: (UnsafeRawBufferPointer) throws(AssetError) -> Void)
    throws(AssetError) -> Int64
  {
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
