// Makes folders and files durable: a power cut can erase a file whose folder was not synced.

import CLinux
import Glibc
import Synchronization

package enum Folder {
  /// Makes `path` and its missing parents, readable by their owner alone. On return the folder's own entry is durable.
  /// Another process may have made an existing folder without syncing it yet, so the first use in this process syncs
  /// the parent. Higher folders are durable already: no process makes a folder inside one whose entry it has not
  /// synced.
  package static func make(_ path: String) throws(AssetError) {
    let parent = Self.parent(of: path)
    if isFolder(path) {
      if durable.withLock({ $0.contains(path) }) { return }
      // An unreadable parent belongs to another account, so this folder existed before this installation.
      if access(parent, R_OK) == 0 { try sync(parent) }
    } else {
      if parent != path { try make(parent) }
      guard mkdir(path, 0o700) == 0 || errno == EEXIST else { throw failure("make folder", path) }
      guard isFolder(path) else { throw .io("\(path) is not a folder") }
      try sync(parent)
    }
    durable.withLock { durable in
      if durable.count >= durableLimit { durable.removeAll() }
      durable.insert(path)
    }
  }

  /// Folders whose entries this process has synced. If one is removed and made again, its maker syncs it.
  private static let durable = Mutex<Set<String>>([])
  private static let durableLimit = 50_000

  /// True when this process has synced the folder's entry.
  package static func isDurable(_ path: String) -> Bool { durable.withLock { $0.contains(path) } }

  /// Makes the entries of the folder durable.
  package static func sync(_ path: String) throws(AssetError) {
    let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard descriptor >= 0 else { throw failure("open folder", path) }
    defer { _ = Glibc.close(descriptor) }
    guard fsync(descriptor) == 0 else { throw failure("sync folder", path) }
  }

  /// The names in a folder without `.` and `..`, ascending; empty when the folder does not exist.
  package static func names(in path: String) throws(AssetError) -> [String] {
    guard let folder = opendir(path) else {
      if errno == ENOENT { return [] }
      throw failure("list folder", path)
    }
    defer { closedir(folder) }
    var names: [String] = []
    while true {
      errno = 0
      guard let entry = readdir(folder) else { break }
      let name = withUnsafePointer(to: &entry.pointee.d_name) { pointer in
        pointer.withMemoryRebound(to: CChar.self, capacity: MemoryLayout.size(ofValue: pointer.pointee)) {
          String(cString: $0)
        }
      }
      if name != ".", name != ".." { names.append(name) }
    }
    guard errno == 0 else { throw failure("list folder", path) }
    return names.sorted()
  }

  /// Removes a file. Does nothing when it is missing.
  package static func remove(_ path: String) throws(AssetError) {
    guard unlink(path) == 0 || errno == ENOENT else { throw failure("remove file", path) }
  }

  /// The length of a regular file in bytes; nil when the path names none.
  package static func byteCount(of path: String) -> Int64? {
    var status = stat()
    return lstat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFREG ? Int64(status.st_size) : nil
  }

  /// The number of a file's names; nil when there is none.
  static func nameCount(of path: String) -> Int? {
    var status = stat()
    return lstat(path, &status) == 0 ? Int(status.st_nlink) : nil
  }

  /// The error for the current `errno`: `full` or `io`.
  package static func failure(_ operation: String, _ path: String) -> AssetError {
    let code = errno
    let text = "\(operation) \(path): \(String(cString: strerror(code)))"
    return code == ENOSPC || code == EDQUOT ? .full(text) : .io(text)
  }

  package static func parent(of path: String) -> String {
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
