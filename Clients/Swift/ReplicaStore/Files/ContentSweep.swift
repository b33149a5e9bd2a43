// Removes files that nothing names: of saves and imports that wrote a content and never came to their commit. Notes
// those that arrived so.

import SQLite

#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

/// The files that were removed after an opening.
package struct SweptContents: Sendable, Equatable {
  package var fileCount = 0
  package var byteCount: Int64 = 0
}

/// Goes through the folder of a store that is open for writing, some names at a time.
///
/// Only the writer writes contents, and it is asked about the names in turn with saves and pages: so no file is looked
/// at between its writing and its commit. Half downloads are written beside it.
struct ContentSweep {
  /// A file that was written since then stays, whatever it is.
  static let age: Int64 = 3600 * 1000
  /// Names in one question to the writer.
  private static let step = 64

  private static let unnoted = SQL(
    "unnoted content", "SELECT 1 FROM content WHERE checksum = ? AND byteCount = ? AND isHere = 0")
  static let named = SQL("named content", "SELECT byteCount FROM content WHERE checksum = ?")

  let contents: ContentFolder
  let writer: Lane<Writer>

  /// Ends early when the store is closed or can't be read. The next opening goes through the rest.
  func run() -> SweptContents {
    var swept = SweptContents()
    var names: [String] = []
    // Dropped because files that stay do no harm.
    try? contents.forEachName { name in
      names.append(name)
      if names.count == Self.step {
        try remove(names, &swept)
        names = []
      }
    }
    try? remove(names, &swept)
    return swept
  }

  private func remove(_ names: [String], _ swept: inout SweptContents) throws {
    let files = names.compactMap(ContentFileName.init)
    if files.isEmpty { return }
    try writer.runNow { writer in
      var arrived: [String] = []
      for file in files {
        guard writer.ownsContents else { throw StoreError.closed }
        guard try !isNeeded(file, writer) else {
          if try isUnnoted(file, writer) { arrived.append(file.checksum) }
          continue
        }
        let path = contents.path(of: file.name)
        guard let byteCount = ContentFile.byteCount(path, writtenBefore: writer.now - Self.age), unlink(path) == 0
        else { continue }
        swept.fileCount += 1
        swept.byteCount += byteCount
      }
      if arrived.isEmpty { return }
      try writer.commit { _ in
        for checksum in arrived {
          try writer.connection.statement(Replica.arrived).binding(writer.now, checksum).run()
        }
      }
    }
  }

  /// True for a whole content that a download has moved to its place, and that it did not come to note.
  private func isUnnoted(_ file: ContentFileName, _ writer: Writer) throws -> Bool {
    guard file.kind == .content, let byteCount = ContentFile.byteCount(contents.path(of: file.name)) else {
      return false
    }
    return try writer.connection.statement(Self.unnoted).binding(file.checksum, byteCount).first { _ in true } ?? false
  }

  private func isNeeded(_ file: ContentFileName, _ writer: Writer) throws -> Bool {
    // The writer is not writing now.
    if file.kind == .written { return false }
    guard let byteCount = try writer.byteCount(ofContent: file.checksum) else { return false }
    // A download goes on where it ended, unless the content came another way.
    return file.kind == .content || ContentFile.byteCount(contents.path(of: file.checksum)) != byteCount
  }
}

/// A name in the folder of contents. Files of other names are not the store's.
private struct ContentFileName {
  enum Kind {
    case content
    /// Of a download.
    case part
    /// Of a content that is being written.
    case written
  }

  let name: String
  let checksum: String
  let kind: Kind

  init?(_ name: String) {
    let checksum = name.prefix(40)
    guard checksum.utf8.count == 40,
      checksum.utf8.allSatisfy({ (0x30...0x39).contains($0) || (0x61...0x66).contains($0) })
    else { return nil }
    switch name.dropFirst(40) {
    case "": kind = .content
    case ".part": kind = .part
    case ".new": kind = .written
    default: return nil
    }
    self.name = name
    self.checksum = String(checksum)
  }
}

extension ContentFolder {
  /// Names of the folder in no order; those that come or go meanwhile may be told or not.
  fileprivate func forEachName(_ body: (String) throws -> Void) throws {
    guard let folder = opendir(path(of: "")) else { return }
    defer { closedir(folder) }
    while let entry = readdir(folder) {
      try body(
        withUnsafePointer(to: &entry.pointee.d_name) { pointer in
          pointer.withMemoryRebound(to: CChar.self, capacity: MemoryLayout.size(ofValue: pointer.pointee)) {
            String(cString: $0)
          }
        })
    }
  }
}

extension ContentFile {
  /// The length of a file that was written before then; nil for a later one, and for anything else.
  /// - Parameter date: milliseconds since 1970.
  static func byteCount(_ path: String, writtenBefore date: Int64) -> Int64? {
    var status = stat()
    guard lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return nil }
    #if canImport(Darwin)
      let written = status.st_mtimespec
    #else
      let written = status.st_mtim
    #endif
    return Int64(written.tv_sec) < date / 1000 ? Int64(status.st_size) : nil
  }
}
