// A disk that can be filled: an in-memory file system of a few megabytes.

import Foundation

final class SmallDisk {
  let path: String
  private var ballast: String { path + "/ballast" }

  /// True when this process may mount one.
  static let isPossible: Bool = {
    let folder = FileManager.default.temporaryDirectory.appending(path: "aq-disk-\(UUID().uuidString.prefix(8))").path
    defer { try? FileManager.default.removeItem(atPath: folder) }
    return (try? SmallDisk(at: folder, megabytes: 1)) != nil
  }()

  /// Mounts the disk on a new folder.
  init(at path: String, megabytes: Int) throws {
    self.path = path
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    let mounted = try CommandLineTool.run(
      ["-t", "tmpfs", "-o", "size=\(megabytes)m", "tmpfs", path], executable: URL(filePath: "/bin/mount"))
    guard mounted.code == 0 else { throw Unexpected("mount: \(mounted.problem)") }
  }

  /// Lazy: processes with open files keep the file system until they end.
  deinit { _ = try? CommandLineTool.run(["-l", path], executable: URL(filePath: "/bin/umount")) }

  /// Fills the disk completely.
  func fill() throws {
    guard let file = fopen(ballast, "a") else { throw Unexpected("\(ballast) can't be made") }
    defer { fclose(file) }
    setvbuf(file, nil, _IONBF, 0)
    let block = [UInt8](repeating: 7, count: 1 << 12)
    while fwrite(block, 1, block.count, file) == block.count {}
    guard errno == ENOSPC else { throw Unexpected("\(ballast): \(String(cString: strerror(errno)))") }
  }

  func free() throws { try FileManager.default.removeItem(atPath: ballast) }
}
