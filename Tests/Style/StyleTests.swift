// Style is a test: layering, calls that belong elsewhere, files that grow, paths of somebody's machine.

import Foundation
import Testing

/// A Swift file of the repository.
struct SourceFile: CustomTestStringConvertible {
  /// From the repository's root.
  let path: String
  let text: String

  var testDescription: String { path }
  var lines: [Substring] { text.split(separator: "\n", omittingEmptySubsequences: false) }
  /// Lines without what follows `//`: good enough for words that never stand in a string with slashes.
  var code: [Substring] {
    lines.map { line in
      guard let comment = line.firstRange(of: "//") else { return line }
      return line[..<comment.lowerBound]
    }
  }
  /// `Shared/Records/Zone.swift` → `Records`; `Services/SyncWorker/ZoneCommit/ZoneWriter.swift` → `ZoneCommit`;
  /// `Clients/Swift/MirrorWire/ZoneID.swift` → `MirrorWire`.
  var module: String {
    let parts = path.split(separator: "/").map(String.init)
    return ["Commands", "SyncWorker", "Swift"].contains(parts[1]) ? parts[2] : parts[1]
  }
  var imports: [String] {
    lines.compactMap { line in
      let words = line.split(separator: " ").map(String.init).filter {
        !["public", "internal", "package", "@testable", "@preconcurrency"].contains($0)
      }
      return words.count == 2 && words[0] == "import" ? words[1] : nil
    }
  }
}

/// The repository the tests were built from.
enum Repository {
  static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent()

  static func swiftFiles(under folders: String...) -> [SourceFile] { files("swift", under: folders) }

  static func texts(under folders: String...) -> [SourceFile] { files("txt", under: folders) }

  static func documents(under folders: String...) -> [SourceFile] { files("md", under: folders) }

  static func scripts(under folders: String...) -> [SourceFile] {
    files("js", under: folders) + files("css", under: folders)
  }

  private static func files(_ pathExtension: String, under folders: [String]) -> [SourceFile] {
    folders.flatMap { folder in
      let enumerator = FileManager.default.enumerator(at: root.appending(path: folder), includingPropertiesForKeys: nil)
      // A link leads to a file of a package.
      let urls = (enumerator?.allObjects as? [URL] ?? []).filter { url in
        let isLink = (try? url.resourceValues(forKeys: [.isSymbolicLinkKey]))?.isSymbolicLink ?? false
        return url.pathExtension == pathExtension && !isLink
      }
      return urls.sorted { $0.path < $1.path }.map { url in
        let path = String(url.path.dropFirst(root.path.hasSuffix("/") ? root.path.count : root.path.count + 1))
        return SourceFile(path: path, text: (try? String(contentsOf: url, encoding: .utf8)) ?? "")
      }
    }
  }

  static func text(_ path: String) throws -> String {
    try String(contentsOf: root.appending(path: path), encoding: .utf8)
  }

  /// The modules of Shared in the order Package.swift lists them, bottom first.
  static func layers() throws -> [String] {
    try text("Package.swift").matches(of: /shared\(\s*"(\w+)"/).map { String($0.output.1) }
  }
}

@Test func `a shared module imports only what lies below it`() throws {
  let layers = try Repository.layers()
  #expect(layers.count > 10)
  let rank = Dictionary(uniqueKeysWithValues: layers.enumerated().map { ($1, $0) })
  for file in Repository.swiftFiles(under: "Shared") {
    guard let own = rank[file.module] else {
      Issue.record("\(file.path) belongs to no layer of Package.swift")
      continue
    }
    for name in file.imports {
      if let other = rank[name] {
        #expect(other < own, "\(file.path) imports \(name), which lies above \(file.module)")
      }
    }
  }
}

@Test func `services never import each other`() {
  let worker = ["ZoneCommit", "RecordPlane", "ObjectPlane", "ZoneActions", "SharedStores", "WorkerHost"]
  let services: [[String]] = [["Gateway"], worker, ["ShareService"], ["Notifier"]]
  for own in services {
    let others = Set(services.filter { $0 != own }.joined())
    for file in Repository.swiftFiles(under: "Services") where own.contains(file.module) {
      #expect(others.isDisjoint(with: file.imports), "\(file.path) imports another service")
    }
  }
}

@Test func `pure modules import no clock, file or thread`() {
  let pure: Set = [
    "JSON", "MessagePack", "Records", "Indexing", "Sharing", "ObjectModel", "History", "Mirroring", "WebServices",
    "XML", "S3",
  ]
  let banned: Set = ["Dispatch", "CLinux", "CSQLite", "SQLite", "PostgreSQL", "FoundationNetworking", "Foundation"]
  for file in Repository.swiftFiles(under: "Shared") where pure.contains(file.module) {
    #expect(
      Set(file.imports).intersection(banned).isEmpty, "\(file.path) imports \(Set(file.imports).intersection(banned))")
  }
}

/// A call, where it may stand, and what to use elsewhere.
struct BannedCall: CustomTestStringConvertible {
  let pattern: String
  let allowed: [String]
  let instead: String
  var testDescription: String { pattern }

  static let all = [
    BannedCall(pattern: "Date()", allowed: ["ServiceKit", "Photos"], instead: "a WallClock that is passed in"),
    BannedCall(
      pattern: "UUID()", allowed: ["ReplicaSync"],
      instead: "a RandomSource that is passed in; UUID.random() in the client"),
    BannedCall(
      pattern: ".random(in", allowed: ["Crypto", "RecordStore", "ServiceBus"],
      instead: "a RandomSource that is passed in"),
    BannedCall(
      pattern: "SystemRandomNumberGenerator", allowed: ["Crypto", "ReplicaSync"],
      instead: "a RandomSource that is passed in"),
    BannedCall(pattern: "to be written", allowed: [], instead: "the real thing"),
    BannedCall(
      pattern: "fatalError(", allowed: ["Crypto"], instead: "a precondition with the state, or a thrown error"),
    BannedCall(pattern: "try!", allowed: [], instead: "a typed error"),
    BannedCall(pattern: "print(", allowed: ["Console", "aquifer"], instead: "Log"),
    BannedCall(
      pattern: "import SQLite", allowed: ["RecordStore", "ShareService", "ReplicaStore"],
      instead: "the store's protocol"),
    BannedCall(
      pattern: "import PostgreSQL", allowed: ["RecordStore", "ShareService"], instead: "the store's protocol"),
    BannedCall(pattern: "import CPostgreSQL", allowed: ["PostgreSQL"], instead: "PostgreSQL"),
  ]
}

@Test(arguments: BannedCall.all) func `a banned call stands only where it is allowed`(_ call: BannedCall) {
  for file in Repository.swiftFiles(under: "Shared", "Services", "Clients") where !call.allowed.contains(file.module) {
    for (index, line) in file.code.enumerated() where line.contains(call.pattern) {
      Issue.record("\(file.path):\(index + 1) says \(call.pattern): use \(call.instead)")
    }
  }
}

@Test func `no file has more than 400 lines`() {
  for file in Repository.swiftFiles(under: "Shared", "Services", "Clients", "Tests") where file.path != "Package.swift"
  {
    #expect(file.lines.count <= 401, "\(file.path) has \(file.lines.count) lines: split where two ideas share it")
  }
}

@Test func `no line has more than 120 columns, literals and names of tests included`() {
  for file in Repository.swiftFiles(under: "Shared", "Services", "Clients", "Tests") {
    for (index, line) in file.lines.enumerated() where line.count > 120 {
      Issue.record("\(file.path):\(index + 1) has \(line.count) columns")
    }
  }
}

@Test func `every file of Shared, Services and Clients says in its first line why it exists`() {
  for file in Repository.swiftFiles(under: "Shared", "Services", "Clients") {
    #expect(file.text.hasPrefix("// "), "\(file.path)")
    #expect(!file.text.contains("Placeholder until"), "\(file.path) is a placeholder")
  }
}

@Test func `no tracked text carries unfinished business or a path of somebody's machine`() {
  // Put together here so that this file does not report itself.
  let words = ["TO" + "DO", "FIX" + "ME", "X" + "XX", "/wo" + "rk/", "/ho" + "me/", "/ro" + "ot/"]
  let texts = [
    "README.md", "Services/README.md", "Tests/README.md", "compose.yaml", "deploy/run", "deploy/demo", "deploy/build",
    "deploy/test", "deploy/install", "deploy/photos",
    "deploy/photos-story",
    "deploy/Dockerfile",
    "docs/operating/OPERATING.md", "docs/operating/ERRORS.md", "docs/operating/PERFORMANCE.md", "deploy/bench",
    "Tests/Load/postgres",
    "deploy/prometheus/prometheus.yml", "deploy/prometheus/alerts.yml", "deploy/prometheus/alerts_test.yml",
    "Clients/python/aquifer.py", "Clients/python/load.py", "Clients/web/aquifer.js",
  ]
  .compactMap { path in
    (try? Repository.text(path)).map { SourceFile(path: path, text: $0) }
  }
  for file in Repository.swiftFiles(under: "Shared", "Services", "Clients", "Tests")
    + Repository.documents(under: "docs") + texts
  {
    for (index, line) in file.lines.enumerated() {
      for word in words where line.contains(word) { Issue.record("\(file.path):\(index + 1) says \(word)") }
    }
  }
}

@Test(arguments: [
  "deploy/run", "deploy/test", "deploy/bench", "deploy/growth", "deploy/try-containers", "deploy/try-failover",
  "deploy/try-upgrade",
  "deploy/Dockerfile", "Tests/HotPaths/check",
  "Tests/Processes/chaos",
])
func `one script says how a release is built`(path: String) throws {
  let text = try Repository.text(path)
  #expect(text.contains(#/deploy/build|"deploy" / "build"/#) && !text.contains("-c release"))
}
