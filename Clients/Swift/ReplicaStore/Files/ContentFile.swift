// Reads, measures and moves the files of contents.

package import FoundationEssentials
#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

/// How a row names content.
package struct ContentName: Sendable, Hashable {
  /// The first 20 bytes of the content's SHA-256, hexadecimal: what CloudKit's file checksum has of it.
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

  /// - Parameter fileChecksum: base64 of a byte 1 and the 20 bytes.
  package init?(fileChecksum: String, byteCount: Int64) {
    guard let data = Data(base64Encoded: fileChecksum), data.count == 21, data.first == 1, byteCount >= 0 else {
      return nil
    }
    self.init(checksum: data.dropFirst().hexadecimal, byteCount: byteCount)
  }

  package var fileChecksum: String {
    var bytes: [UInt8] = [1]
    var digits = checksum.utf8.makeIterator()
    while let high = digits.next(), let low = digits.next() { bytes.append(Self.digit(high) << 4 | Self.digit(low)) }
    return Data(bytes).base64EncodedString()
  }

  private static func digit(_ character: UInt8) -> UInt8 {
    character < UInt8(ascii: "a") ? character &- UInt8(ascii: "0") : character &- UInt8(ascii: "a") &+ 10
  }
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
    return ContentName(checksum: hash.finalize().prefix(20).hexadecimal, byteCount: byteCount)
  }

  /// nil: there is no file.
  static func byteCount(_ path: String) -> Int64? {
    var status = stat()
    return stat(path, &status) == 0 ? Int64(status.st_size) : nil
  }

  package static func contents(of path: String) throws(StoreError) -> Data {
    do { return try Data(contentsOf: URL(filePath: path)) } catch { throw .damaged("\(path) can't be read") }
  }

  /// Writes data to `path` so that it is there wholly or not at all, also after a loss of power.
  /// - Parameter isSynced: false for content that can be fetched again; its length is compared when it is read.
  static func store(_ data: Data, at path: String, isSynced: Bool = true) throws(StoreError) {
    let partial = path + ".new"
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
    let isWhole = isWritten && (!isSynced || fsync(file) == 0)
    close(file)
    guard isWhole, rename(partial, path) == 0 else {
      unlink(partial)
      throw isWhole ? failure(path) : error
    }
    if isSynced { try syncFolder(of: path) }
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

  /// Makes the folder that a file lies in, and those above it, so that they are there after a loss of power, too.
  static func makeFolder(of path: String) throws(StoreError) {
    let folder = path.lastIndex(of: "/").map { String(path[..<$0]) } ?? ""
    guard !folder.isEmpty, !FileManager.default.fileExists(atPath: folder) else { return }
    try makeFolder(of: folder)
    guard mkdir(folder, 0o777) == 0 || errno == EEXIST else { throw failure(folder) }
    try syncFolder(of: folder)
  }

  static func failure(_ path: String) -> StoreError {
    errno == ENOSPC || errno == EDQUOT ? .full : .damaged("\(path): \(String(cString: strerror(errno)))")
  }
}
