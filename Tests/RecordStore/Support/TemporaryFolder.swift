// A folder that is removed with the test that made it.

import Foundation

final class TemporaryFolder: Sendable {
  let path: String

  init() throws {
    path = FileManager.default.temporaryDirectory.path + "/aquifer-store-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
  }

  deinit {
    // Dropped because a failed removal must not hide the test's own failure.
    try? FileManager.default.removeItem(atPath: path)
  }
}
