// What a service writes when it is ready: where it answers.

import JSON

enum MemberReadyFile {
  /// - Parameter pid: of the process that must have written it; another's is of an earlier life.
  /// - Returns: nil while there is none.
  static func read(_ path: String, pid: Int32) -> MemberAddresses? {
    // Dropped because the file comes about atomically: what can't be read is not there yet.
    guard let bytes = try? ModelFile.read(path), let content = try? JSONValue(parsing: bytes), content["pid"]?.int64 == Int64(pid) else { return nil }
    return MemberAddresses(client: content["http"]?.string, admin: content["admin"]?.string)
  }
}
