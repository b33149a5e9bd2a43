// The part of a content that has arrived: a file that grows piece by piece, and outlives the connection.

import FoundationEssentials
import MirrorWire

#if canImport(Darwin)
  import Darwin
#elseif canImport(Musl)
  import Musl
#else
  import Glibc
#endif

/// A file that is appended to.
struct PartialFile: ~Copyable {
  private let file: UnsafeMutablePointer<FILE>

  /// - Parameter path: its folder is made when it is missing.
  /// - Throws: `full` or `damaged`.
  init(_ path: String, keepsPart: Bool) throws(SyncFailure) {
    let folder = URL(filePath: path).deletingLastPathComponent().path
    // Dropped because the file can't be opened then.
    try? FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    guard let file = fopen(path, keepsPart ? "a" : "w") else { throw Self.failure }
    self.file = file
  }

  deinit { fclose(file) }

  /// - Throws: `full` or `damaged`.
  func append(_ bytes: [UInt8]) throws(SyncFailure) {
    guard fwrite(bytes, 1, bytes.count, file) == bytes.count, fflush(file) == 0 else { throw Self.failure }
  }

  private static var failure: SyncFailure {
    errno == ENOSPC || errno == EDQUOT ? .full : .damaged("a content's file can't be written")
  }

  /// - Returns: 0: there is no file.
  static func byteCount(_ path: String) -> Int64 {
    var status = stat()
    return stat(path, &status) == 0 ? Int64(status.st_size) : 0
  }

  static func remove(_ path: String) { unlink(path) }
}
