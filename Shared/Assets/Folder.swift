// Folders and files made durable: a file whose folder was not synced can vanish with the power.

import CLinux
import Glibc
import Synchronization

package enum Folder {
  /// Makes `path` and what is missing above it, readable by its owner alone. When it returns the folder's own entry is durable: one that is
  /// there may have been made a moment ago by somebody who has not synced it yet, so whoever relies on it first syncs its parent. Of the folders
  /// above that holds by itself: nobody makes a folder in one whose entry he has not synced.
  package static func make(_ path: String) throws(AssetError) {
    let parent = Self.parent(of: path)
    if isFolder(path) {
      if durable.withLock({ $0.contains(path) }) { return }
      // A parent that can't be read is nobody's of ours, and so this folder was here before us.
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

  /// Folders whose entries this process has synced. One that was removed since and made again is made by somebody who syncs it, too.
  private static let durable = Mutex<Set<String>>([])
  private static let durableLimit = 50_000

  /// Whether this process has seen to the folder's own entry.
  package static func isDurable(_ path: String) -> Bool { durable.withLock { $0.contains(path) } }

  /// Makes the entries of the folder durable.
  package static func sync(_ path: String) throws(AssetError) {
    let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard descriptor >= 0 else { throw failure("open folder", path) }
    defer { _ = Glibc.close(descriptor) }
    guard fsync(descriptor) == 0 else { throw failure("sync folder", path) }
  }

  /// The names in a folder but `.` and `..`, ascending; none of a folder that does not exist.
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
        pointer.withMemoryRebound(to: CChar.self, capacity: MemoryLayout.size(ofValue: pointer.pointee)) { String(cString: $0) }
      }
      if name != ".", name != ".." { names.append(name) }
    }
    guard errno == 0 else { throw failure("list folder", path) }
    return names.sorted()
  }

  /// Removes a file; one that is not there is none to remove.
  package static func remove(_ path: String) throws(AssetError) {
    guard unlink(path) == 0 || errno == ENOENT else { throw failure("remove file", path) }
  }

  /// The length of a regular file; nil when there is none.
  package static func byteCount(of path: String) -> Int64? {
    var status = stat()
    return lstat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFREG ? Int64(status.st_size) : nil
  }

  /// `full` or `io` for the current `errno`.
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
