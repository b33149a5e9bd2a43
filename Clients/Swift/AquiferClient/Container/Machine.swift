// What the client takes from the machine that it runs on.

import FoundationEssentials

enum Machine {
  /// Tells this installation of an operating system from others; a copied file is noticed by it.
  static let identifier: String = {
    for path in ["/etc/machine-id", "/var/lib/dbus/machine-id"] {
      if let text = try? String(contentsOfFile: path, encoding: .utf8) { return String(text.prefix { $0 != "\n" }) }
    }
    return ProcessInfo.processInfo.hostName
  }()

  /// A folder in memory, where there is one.
  static let temporaryFolder: String =
    FileManager.default.isWritableFile(atPath: "/dev/shm") ? "/dev/shm" : FileManager.default.temporaryDirectory.path

  static let programName = ProcessInfo.processInfo.processName
}
