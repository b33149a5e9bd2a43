// A package of somebody else's that depends on this one, through a git repository on this machine.

import Foundation

/// A folder with the repository, whose branch `main` is its version 1.0.0, and a package beside it that depends on it.
struct ClientPackage {
  let folder: URL
  /// The root of the package that depends on this one.
  var root: URL { folder.appending(path: "app") }

  static let checkout = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent()

  /// - Parameter sources: the package's files by path.
  init(sources: [String: String]) throws {
    folder = FileManager.default.temporaryDirectory.appending(path: "client-package-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: root, withIntermediateDirectories: true)
    try publish()
    for (path, text) in sources { try write(text, to: path) }
  }

  func remove() { try? FileManager.default.removeItem(at: folder) }

  /// Writes one of the package's files. The address of this package in a manifest becomes that of the repository on
  /// this machine.
  func write(_ text: String, to path: String) throws {
    let text = text.replacing(
      "https://example.org/aquifer.git", with: "file://\(folder.appending(path: "aquifer").path)")
    let file = root.appending(path: path)
    try FileManager.default.createDirectory(at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
    try Data(text.utf8).write(to: file)
  }

  /// What `swift` says in the package's folder, and its exit code.
  func swift(_ arguments: String...) throws -> (code: Int32, output: String) {
    try Self.run("/usr/bin/env", ["swift"] + arguments, in: root)
  }

  /// Builds for debugging, as `swift build` does, without the index of editors.
  func build() throws -> (code: Int32, output: String) { try swift("build", "-j", "2", "--disable-index-store") }

  /// Runs the app that was built, in the package's folder.
  func run(_ arguments: String..., environment: [String: String] = [:]) throws -> (code: Int32, output: String) {
    let app = root.appending(path: ".build/debug/notes").path
    return try Self.run("/usr/bin/env", environment.map { "\($0)=\($1)" } + [app] + arguments, in: root)
  }

  /// Copies the files that git knows or would add, commits them and tags the commit.
  private func publish() throws {
    let repository = folder.appending(path: "aquifer").path
    let script = """
      set -euo pipefail
      mkdir '\(repository)'
      git -c safe.directory='*' ls-files --cached --others --exclude-standard -z |
        tar --null --files-from - --ignore-failed-read -c | tar -x -C '\(repository)'
      cd '\(repository)'
      git init -q -b main . && git add -A
      git -c user.name=test -c user.email=test@example.org commit -q -m 'A version' && git tag 1.0.0
      """
    let (code, output) = try Self.run("/bin/bash", ["-c", script], in: Self.checkout)
    guard code == 0 else { throw Unexpected(text: "the repository can't be published: \(output)") }
  }

  /// - Returns: the exit code, and both outputs as one text.
  private static func run(
    _ path: String, _ arguments: [String], in folder: URL
  ) throws -> (code: Int32, output: String) {
    let process = Process()
    process.executableURL = URL(filePath: path)
    process.arguments = arguments
    process.currentDirectoryURL = folder
    // A machine's own settings of git, and a build of parts of this package, are none of that package's.
    process.environment = ProcessInfo.processInfo.environment
      .merging(["GIT_CONFIG_GLOBAL": "/dev/null", "GIT_TERMINAL_PROMPT": "0", "AQUIFER_CLIENT": ""]) { $1 }
    let pipe = Pipe()
    process.standardOutput = pipe
    process.standardError = pipe
    try process.run()
    let bytes = try pipe.fileHandleForReading.readToEnd() ?? Data()
    process.waitUntilExit()
    return (process.terminationStatus, String(decoding: bytes, as: UTF8.self))
  }
}

struct Unexpected: Error, CustomStringConvertible {
  let text: String
  var description: String { text }
}
