// Determines how much memory a process may take. The limits of its buffers derive from it.

internal import Glibc
public import ServiceBus

/// A process's memory limit: the operator's option, else the limit of the control group, else the default of its role.
public struct MemoryLimit: Hashable, Sendable {
  public let byteCount: Int

  static let option = Option(
    "memory", .integer(64...1_048_576),
    help:
      """
      The memory limit in megabytes (of 1,048,576 bytes): the process sizes its memory for clients and other processes \
      by it. Default: the limit of its control group, else 512 for a gateway, 1024 for a worker, 256 for others.
      """
  )

  public init(_ options: Options, role: Role) {
    byteCount = options.integer("memory").map { $0 << 20 } ?? Self.controlGroup ?? Self.standard(role)
  }

  static func standard(_ role: Role) -> Int {
    switch role {
    case .gateway: 512 << 20
    case .worker: 1024 << 20
    default: 256 << 20
    }
  }

  // MARK: The kernel's side

  /// The smallest limit of the process's control group and its ancestors in bytes; nil when none has a limit.
  private static var controlGroup: Int? {
    let groups = content(of: "/proc/self/cgroup") ?? ""
    guard let line = groups.split(separator: "\n").first(where: { $0.hasPrefix("0::") }) else { return nil }
    return limit(ofGroup: String(line.dropFirst(3))) { content(of: "/sys/fs/cgroup\($0)/memory.max") }
  }

  /// - Parameter read: returns the text of a group's limit; nil when the group does not exist.
  static func limit(ofGroup path: String, read: (_ path: String) -> String?) -> Int? {
    var parts = path.split(separator: "/")
    var smallest: Int?
    while true {
      let text = read(parts.map { "/" + $0 }.joined()) ?? ""
      if let limit = Int(text.prefix { $0.isASCII && $0.isNumber }), limit > 0 {
        smallest = min(smallest ?? limit, limit)
      }
      if parts.isEmpty { return smallest }
      parts.removeLast()
    }
  }

  private static func content(of path: String) -> String? {
    guard let file = fopen(path, "re") else { return nil }
    defer { fclose(file) }
    var buffer = [UInt8](repeating: 0, count: 4096)
    let count = fread(&buffer, 1, buffer.count, file)
    return String(decoding: buffer[..<count], as: UTF8.self)
  }
}
