// The folder of a store that lies in no file of the app's: nobody else reads it, and it goes with the store.

import FoundationEssentials

#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

/// A folder that is removed with its store. That of a process that was killed goes when another one opens such a store.
final class TemporaryFolder: Sendable {
  let path: String
  /// Tells the folder from an abandoned one.
  private let lock: FileLock

  /// One that has no lock yet is young.
  static let age: Int64 = 3600 * 1000
  private static let prefix = "aquifer-"

  /// Makes the folder.
  init(in parent: String, _ identifier: UUID) throws(StoreError) {
    path = "\(parent)/\(Self.prefix)\(identifier.uuidString)"
    try ContentFile.makeFolder(of: path)
    // Others may read in the parent.
    guard mkdir(path, 0o700) == 0 else { throw ContentFile.failure(path) }
    lock = try FileLock("\(path)/lock")
  }

  deinit { remove() }

  var storePath: String { "\(path)/store.sqlite" }

  /// Dropped because a folder that stays does no harm where it is. Twice is once.
  func remove() { try? FileManager.default.removeItem(atPath: path) }

  /// Removes the folders whose processes have ended.
  /// - Parameter now: milliseconds since 1970.
  static func removeAbandoned(in parent: String, now: Int64) {
    let names = (try? FileManager.default.contentsOfDirectory(atPath: parent)) ?? []
    for name in names where name.hasPrefix(prefix) && UUID(uuidString: String(name.dropFirst(prefix.count))) != nil {
      let path = "\(parent)/\(name)"
      var status = stat()
      guard lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFDIR, status.st_uid == geteuid(),
        ContentFile.byteCount("\(path)/lock", writtenBefore: now - age) != nil
      else { continue }
      guard let lock = try? FileLock("\(path)/lock") else { continue }
      withExtendedLifetime(lock) { try? FileManager.default.removeItem(atPath: path) }
    }
  }
}
