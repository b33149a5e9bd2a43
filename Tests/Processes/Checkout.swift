// The places of the repository and of the binaries built from it.

import Foundation

enum Checkout {
  static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent()
  /// The folder of the executables: AQUIFER_BIN, or the folder of the running test bundle.
  static let products =
    ProcessInfo.processInfo.environment["AQUIFER_BIN"].map { URL(filePath: $0).absoluteURL }
    ?? URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent().absoluteURL
  /// The folder of real models; nil on machines without it.
  static let sharedModels: URL? = {
    let folder = root.deletingLastPathComponent().appending(path: "shared/models")
    return FileManager.default.fileExists(atPath: folder.path) ? folder : nil
  }()
}

extension Process {
  /// Runs the process with no signal blocked. The tests' threads block all signals; child processes would inherit that,
  /// and signals could not stop them.
  func runUnblocked() throws {
    var none = sigset_t()
    var saved = sigset_t()
    sigemptyset(&none)
    pthread_sigmask(SIG_SETMASK, &none, &saved)
    defer { pthread_sigmask(SIG_SETMASK, &saved, nil) }
    try run()
  }
}
