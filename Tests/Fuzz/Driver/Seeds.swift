// Writes the inputs that the targets make themselves as files for libFuzzer.

import Foundation

enum Seeds {
  /// Writes `NAME/seed-…` for each target.
  static func write(below folder: String) throws {
    let folder = URL(filePath: folder)
    for target in FuzzTarget.all {
      let own = folder.appending(path: target.name)
      try FileManager.default.createDirectory(at: own, withIntermediateDirectories: true)
      for (number, seed) in try target.seeds().enumerated() {
        try Data(seed).write(to: own.appending(path: "seed-\(number)"))
      }
    }
  }
}
