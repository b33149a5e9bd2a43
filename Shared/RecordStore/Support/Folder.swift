// Folders and files of the store, made durable: a file whose folder was not synced can vanish with the power.

import CLinux
import Glibc

enum Folder {
  /// Makes `path` and what is missing above it, readable by its owner alone, and syncs the folders that got a new entry.
  static func make(_ path: String) throws(StoreError) {
    if isFolder(path) { return }
    let parent = Self.parent(of: path)
    if parent != path { try make(parent) }
    guard mkdir(path, 0o700) == 0 || errno == EEXIST else { throw failure("make folder", path) }
    guard isFolder(path) else { throw .io("\(path) is not a folder") }
    try sync(parent)
  }

  /// Makes the entries of the folder durable.
  static func sync(_ path: String) throws(StoreError) {
    let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard descriptor >= 0 else { throw failure("open folder", path) }
    defer { _ = Glibc.close(descriptor) }
    guard fsync(descriptor) == 0 else { throw failure("sync folder", path) }
  }

  /// `StoreError.full` or `.io` for the current `errno`.
  static func failure(_ operation: String, _ path: String) -> StoreError {
    let code = errno
    let text = "\(operation) \(path): \(String(cString: strerror(code)))"
    return code == ENOSPC || code == EDQUOT ? .full(text) : .io(text)
  }

  static func parent(of path: String) -> String {
    var end = path.utf8.count
    let bytes = Array(path.utf8)
    while end > 1 && bytes[end - 1] == UInt8(ascii: "/") { end -= 1 }
    guard let slash = bytes[..<end].lastIndex(of: UInt8(ascii: "/")) else { return "." }
    return slash == 0 ? "/" : String(decoding: bytes[..<slash], as: UTF8.self)
  }

  private static func isFolder(_ path: String) -> Bool {
    var status = stat()
    return stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
  }
}
