// Measures the space that is left where a process writes.

internal import Glibc

/// A file system's size, and the space that processes without privileges may still use. Unit: bytes.
public struct DiskSpace: Hashable, Sendable {
  public let free: Int64
  public let size: Int64

  /// Measures the file system of a folder, or of the nearest parent that exists; nil when it cannot be read. Returns
  /// quickly.
  public init?(of path: String) {
    var status = statvfs()
    var folder = path
    while statvfs(folder, &status) != 0 {
      let parent = Self.parent(of: folder)
      guard errno == ENOENT, parent != folder else { return nil }
      folder = parent
    }
    free = Int64(clamping: UInt64(status.f_bavail) &* UInt64(status.f_frsize))
    size = Int64(clamping: UInt64(status.f_blocks) &* UInt64(status.f_frsize))
  }

  private static func parent(of path: String) -> String {
    guard let slash = path.lastIndex(of: "/") else { return "." }
    return slash == path.startIndex ? "/" : String(path[..<slash])
  }
}

extension Metrics {
  /// Adds `disk_free_bytes` and `disk_size_bytes` of the folder that a process writes to.
  public func addDisk(of folder: String) {
    let free = Description("disk_free_bytes", "Free bytes on the file system of this process's data.")
    let size = Description("disk_size_bytes", "Size of the file system of this process's data.")
    recent.add {
      DiskSpace(of: folder).map {
        [.value("disk_free_bytes", Double($0.free)), .value("disk_size_bytes", Double($0.size))]
      } ?? []
    }
    collect([free, size]) {
      var readings = Readings()
      guard let space = DiskSpace(of: folder) else { return readings }
      readings[free.name] = Double(space.free)
      readings[size.name] = Double(space.size)
      return readings
    }
  }
}
