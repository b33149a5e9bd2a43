// All contents of a place by their names, as a copy to another place sees them.

import CLinux
import Crypto
import Glibc
import Records
import S3

/// Stored contents as they lie in their place, sealed or not. Both engines name them alike. Calls block.
package protocol StoredContents: Sendable {
  /// The place, for operators.
  var place: String { get }
  /// What is in a folder.
  /// - Parameter folder: empty, or ends with a slash.
  func entries(in folder: String) throws(AssetError) -> StoredEntries
  /// Opens stored bytes; nil when they are gone.
  func bytes(of name: String) throws(AssetError) -> (any AssetBytes)?
  /// Begins a content of any name. A sweep removes what a crash leaves of it.
  /// - Parameter now: seconds since 1970.
  func begin(at now: Int64) throws(AssetError) -> any UnnamedContent
  /// The installation that uses the place; nil when none has used it.
  func owner() throws(AssetError) -> InstallationID?
}

package struct StoredEntries {
  /// Whole names; each ends with a slash.
  package var folders: [String] = []
  /// The lengths of contents, by their whole names.
  package var byteCounts: [String: Int64] = [:]
}

extension StoredEntries {
  /// The hash that a content is named by: after its hour, or over two folders. nil for other files, such as those that
  /// are not finished.
  static func hash(in name: String) -> [UInt8]? {
    let parts = name.split(separator: "/").suffix(2)
    let digits = name.hasPrefix("uploads/") ? String(parts.last ?? "") : parts.joined()
    return Hex.decode(digits).flatMap { $0.count == SHA256.byteCount ? $0 : nil }
  }

  static let spoolSeconds: Int64 = 86_400
}

extension AssetFolder: StoredContents {
  package var place: String { directory }

  package func entries(in folder: String) throws(AssetError) -> StoredEntries {
    var entries = StoredEntries()
    for entry in try Folder.names(in: directory + "/" + folder) {
      let name = folder + entry
      var status = stat()
      guard lstat("\(directory)/\(name)", &status) == 0 else {
        if errno == ENOENT { continue }
        throw Folder.failure("look at", "\(directory)/\(name)")
      }
      if status.st_mode & S_IFMT == S_IFDIR { entries.folders.append(name + "/") }
      if status.st_mode & S_IFMT == S_IFREG { entries.byteCounts[name] = Int64(status.st_size) }
    }
    return entries
  }

  package func bytes(of name: String) throws(AssetError) -> (any AssetBytes)? {
    try FileBytes(path: "\(directory)/\(name)")
  }

  package func begin(at now: Int64) throws(AssetError) -> any UnnamedContent {
    try PartFile(in: self, hour: SpoolHour.hour(of: now + StoredEntries.spoolSeconds))
  }

  package func owner() throws(AssetError) -> InstallationID? {
    // Without the file's lock, which belongs to those who use the folder.
    let path = "\(directory)/\(FolderMark.fileName)"
    guard let bytes = try FileBytes(path: path), bytes.byteCount > 0 else { return nil }
    let line = try bytes.read(at: 0, count: Int(min(bytes.byteCount, 256)))
    guard let mark = FolderMark(line: String(decoding: line, as: UTF8.self)) else {
      throw .corrupt("\(path) names no installation")
    }
    return mark.installation
  }
}

extension AssetBucket: StoredContents {
  package var place: String { "\(location)" }

  package func entries(in folder: String) throws(AssetError) -> StoredEntries {
    var entries = StoredEntries()
    try list(folder: location.prefix + folder) { page in
      entries.folders += page.prefixes.map { String($0.dropFirst(location.prefix.count)) }
      for object in page.objects {
        entries.byteCounts[String(object.key.dropFirst(location.prefix.count))] = object.byteCount
      }
    }
    return entries
  }

  package func bytes(of name: String) throws(AssetError) -> (any AssetBytes)? {
    try ObjectBytes(location.prefix + name, in: self)
  }

  package func begin(at now: Int64) -> any UnnamedContent {
    PartObject(in: self, hour: SpoolHour.hour(of: now + StoredEntries.spoolSeconds))
  }

  package func owner() throws(AssetError) -> InstallationID? {
    guard let mark = try get(location.prefix + FolderMark.fileName, from: 0, count: 256)?.bytes else { return nil }
    let words = String(decoding: mark, as: UTF8.self).split(whereSeparator: \.isWhitespace)
    guard words.count == 2, let owner = InstallationID(text: String(words[1])) else {
      throw .corrupt("\(Self.text(location, location.prefix + FolderMark.fileName)) names no installation")
    }
    return owner
  }
}
