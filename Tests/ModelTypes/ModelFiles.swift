// Models for tests of the generator: the repository's, real ones beside the checkout, and bundles that a test makes.

import Foundation
import Testing

enum ModelFiles {
  static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent()
  static let everything = root.appending(path: "Tests/Models/Everything.xcdatamodeld")
  static let zoo = root.appending(path: "Tests/GeneratedTypes/Zoo.xcdatamodeld")
  static let sample = root.appending(path: "deploy/sample/Sample.xcdatamodeld")

  /// Real apps' models, which lie beside the checkout and not in it; none on machines without them.
  static let real: [URL] = {
    let folder = root.deletingLastPathComponent().appending(path: "shared/models")
    let names = (try? FileManager.default.contentsOfDirectory(atPath: folder.path)) ?? []
    if names.isEmpty { print("skipped: real models are read from ../shared/models, which is not beside this checkout") }
    return names.filter { $0.hasSuffix(".xcdatamodeld") }.sorted().map { folder.appending(path: $0) }
  }()

  static let all = [everything, zoo, sample] + real
}

/// A bundle in a folder of its own.
final class TemporaryBundle {
  let url: URL

  /// - Parameter versions: contents by the version's name without its extension; nil leaves the contents out.
  init(_ versions: [String: String?], current: String? = nil) throws {
    url = FileManager.default.temporaryDirectory.appending(path: "\(UUID().uuidString)/Test.xcdatamodeld")
    try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    for (name, contents) in versions {
      let version = url.appending(path: "\(name).xcdatamodel")
      try FileManager.default.createDirectory(at: version, withIntermediateDirectories: true)
      if let contents { try Data(contents.utf8).write(to: version.appending(path: "contents")) }
    }
    if let current {
      let text = "<plist><dict><key>_XCCurrentVersionName</key><string>\(current).xcdatamodel</string></dict></plist>"
      try Data(text.utf8).write(to: url.appending(path: ".xccurrentversion"))
    }
  }

  deinit { try? FileManager.default.removeItem(at: url.deletingLastPathComponent()) }
}
