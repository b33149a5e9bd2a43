// Where these tests find the repository and the binaries that were built from it.

import Foundation

enum Checkout {
  static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
  /// The folder of the executables: AQUIFER_BIN, or beside the test bundle that is running.
  static let products =
    ProcessInfo.processInfo.environment["AQUIFER_BIN"].map { URL(filePath: $0).absoluteURL }
    ?? URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent().absoluteURL
  /// The real models, which not every machine has; nil where they are absent.
  static let sharedModels: URL? = {
    let folder = root.deletingLastPathComponent().appending(path: "shared/models")
    return FileManager.default.fileExists(atPath: folder.path) ? folder : nil
  }()
}

extension Process {
  /// Runs with no signal blocked: the threads tests run on block them all, a started process inherits that, and what it starts could not be
  /// stopped by a signal.
  func runUnblocked() throws {
    var none = sigset_t()
    var saved = sigset_t()
    sigemptyset(&none)
    pthread_sigmask(SIG_SETMASK, &none, &saved)
    defer { pthread_sigmask(SIG_SETMASK, &saved, nil) }
    try run()
  }
}
