// A folder that goes away with the test that made it.

import Foundation

final class TemporaryFolder: Sendable {
  let path: String

  init() throws {
    path = FileManager.default.temporaryDirectory.path + "/aquifer-store-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
  }

  deinit {
    // Dropped because a test that failed for another reason must not be reported as this.
    try? FileManager.default.removeItem(atPath: path)
  }
}
