// Reads, measures and moves the files of contents.

package import FoundationEssentials
#if canImport(Glibc)
import Glibc
#else
import Darwin
#endif

/// How a row names content.
package struct ContentName: Sendable, Hashable {
  /// SHA-256, hexadecimal.
  package let checksum: String
  package let byteCount: Int64

  package init(checksum: String, byteCount: Int64) { (self.checksum, self.byteCount) = (checksum, byteCount) }

  /// - Parameter text: `CHECKSUM:BYTECOUNT`.
  package init?(_ text: String) {
    let parts = text.split(separator: ":", omittingEmptySubsequences: false)
    guard parts.count == 2, let count = Int64(parts[1]), count >= 0 else { return nil }
    self.init(checksum: String(parts[0]), byteCount: count)
  }

  package var text: String { "\(checksum):\(byteCount)" }
}

package enum ContentFile {
  /// The length and SHA-256 of a file, read a piece at a time.
  package static func measure(_ path: String) throws(StoreError) -> ContentName {
    let file = open(path, O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { throw failure(path) }
    defer { close(file) }
    var hash = SHA256()
    var byteCount: Int64 = 0
    var piece = [UInt8](repeating: 0, count: 1 << 18)
    while true {
      let count = read(file, &piece, piece.count)
      if count == 0 { break }
      guard count > 0 else { throw failure(path) }
      piece.withUnsafeBytes { hash.update(UnsafeRawBufferPointer(rebasing: $0[..<count])) }
      byteCount += Int64(count)
    }
    return ContentName(checksum: hash.finalize().hexadecimal, byteCount: byteCount)
  }

  package static func contents(of path: String) throws(StoreError) -> Data {
    do { return try Data(contentsOf: URL(filePath: path)) } catch { throw .damaged("\(path) can't be read") }
  }

  /// Writes content to `path` so that it is there wholly or not at all, also after a loss of power.
  static func store(_ source: ContentSource, at path: String) throws(StoreError) {
    let partial = path + ".new"
    let data: Data
    switch source {
    case .data(let bytes): data = bytes
    case .file(let origin): data = try contents(of: origin)
    }
    let file = open(partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
    guard file >= 0 else { throw failure(partial) }
    let isWritten = data.withUnsafeBytes { bytes in
      var rest = bytes[...]
      while !rest.isEmpty {
        let count = write(file, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
        guard count > 0 else { return false }
        rest = rest.dropFirst(count)
      }
      return true
    }
    let error = failure(partial)
    let isSynced = isWritten && fsync(file) == 0
    close(file)
    guard isSynced, rename(partial, path) == 0 else {
      unlink(partial)
      throw isSynced ? failure(path) : error
    }
    try syncFolder(of: path)
  }

  /// Moves a whole, synced file to its place.
  static func move(_ origin: String, to path: String) throws(StoreError) {
    let file = open(origin, O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { throw failure(origin) }
    let isSynced = fsync(file) == 0
    close(file)
    guard isSynced, rename(origin, path) == 0 else { throw failure(path) }
    try syncFolder(of: path)
  }

  static func syncFolder(of path: String) throws(StoreError) {
    let folder = String(path.prefix(through: path.lastIndex(of: "/") ?? path.startIndex))
    let file = open(folder.hasSuffix("/") ? folder : ".", O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { throw failure(folder) }
    defer { close(file) }
    guard fsync(file) == 0 else { throw failure(folder) }
  }

  static func failure(_ path: String) -> StoreError {
    errno == ENOSPC || errno == EDQUOT ? .full : .damaged("\(path): \(String(cString: strerror(errno)))")
  }
}
