// Reads the file in which a service writes its addresses once it is ready.

import JSON

enum MemberReadyFile {
  /// - Parameter pid: the process that must have written the file; a file of another pid is from an earlier run.
  /// - Returns: nil while there is no such file.
  static func read(_ path: String, pid: Int32) -> MemberAddresses? {
    // Dropped because the file is written atomically: an unreadable one does not exist yet.
    guard let bytes = try? ModelFile.read(path), let content = try? JSONValue(parsing: bytes),
      content["pid"]?.int64 == Int64(pid)
    else { return nil }
    return MemberAddresses(
      client: content["http"]?.string, admin: content["admin"]?.string, console: content["console"]?.string)
  }
}
