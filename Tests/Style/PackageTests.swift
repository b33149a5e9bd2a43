// Products that others depend on by version: SwiftPM and Xcode refuse them if they reach a target with unsafe flags.

import Foundation
import Testing

/// Package.swift as SwiftPM understands it.
struct PackageDescription: Decodable {
  struct Product: Decodable {
    let name: String
    let targets: [String]
  }

  struct Target: Decodable {
    let name: String
    let path: String?
    let type: String
    let settings: [Setting]
    let dependencies: [Dependency]
  }

  struct Setting: Decodable {
    /// One key: `enableWarning`, `unsafeFlags` and the like.
    let kind: [String: Ignored]
  }

  /// `byName`, `target` or `product`, each with a list that begins with the name.
  struct Dependency: Decodable {
    let name: String

    init(from decoder: any Decoder) throws {
      let container = try decoder.singleValueContainer().decode([String: [Name]].self)
      name = container.values.first?.first?.text ?? ""
    }
  }

  struct Name: Decodable {
    let text: String?
    init(from decoder: any Decoder) throws { text = try? decoder.singleValueContainer().decode(String.self) }
  }

  struct Ignored: Decodable {
    init(from decoder: any Decoder) throws {}
  }

  let products: [Product]
  let targets: [Target]

  /// Read once for all tests.
  static let whole = Result { try read() }

  /// Asks SwiftPM, in a folder of its own: the folder of the running tests is locked.
  private static func read() throws -> PackageDescription {
    let scratch = FileManager.default.temporaryDirectory.appending(
      path: "package-description-\(ProcessInfo.processInfo.processIdentifier)")
    defer { try? FileManager.default.removeItem(at: scratch) }
    let process = Process()
    process.executableURL = URL(filePath: "/usr/bin/env")
    process.arguments = [
      "swift", "package", "--package-path", Repository.root.path, "--scratch-path", scratch.path, "dump-package",
    ]
    let output = Pipe()
    process.standardOutput = output
    process.standardError = FileHandle.nullDevice
    try process.run()
    let bytes = try output.fileHandleForReading.readToEnd() ?? Data()
    process.waitUntilExit()
    return try JSONDecoder().decode(PackageDescription.self, from: bytes)
  }

  /// The targets that are linked or run where a product is used.
  func reach(_ product: Product) -> Set<String> {
    let dependencies = Dictionary(uniqueKeysWithValues: targets.map { ($0.name, $0.dependencies.map(\.name)) })
    var (seen, next) = (Set(product.targets), product.targets)
    while let target = next.popLast() {
      for other in dependencies[target] ?? [] where seen.insert(other).inserted { next.append(other) }
    }
    return seen
  }
}

@Test func `no target has unsafe flags, so every product can be depended on by version`() throws {
  let package = try PackageDescription.whole.get()
  #expect(
    package.targets.contains { $0.name == "CXML" && !$0.settings.isEmpty }, "the settings are not understood any more")
  for target in package.targets where target.settings.contains(where: { $0.kind["unsafeFlags"] != nil }) {
    Issue.record("\(target.name) has unsafe flags")
  }
}

@Test func `an app that uses the client links SQLite and libcurl, and nothing of the services`() throws {
  let package = try PackageDescription.whole.get()
  let product = try #require(package.products.first { $0.name == "AquiferClient" })
  let client: Set = ["AquiferClient", "ReplicaSync", "ReplicaStore", "MirrorWire"]
  // The transport of Apple's platforms, where all of Foundation is part of the system.
  let apple: Set = ["URLSessionTransport"]
  let reach = package.reach(product)
  #expect(reach.isSuperset(of: client.union(apple)))
  #expect(reach.subtracting(client).subtracting(apple) == ["SQLite", "CSQLite", "CSQLiteLog", "HTTPClient", "CCurl"])
  let platform: Set = [
    "Dispatch", "FoundationEssentials", "Foundation", "Synchronization", "Glibc", "Musl", "Android", "Darwin", "Bionic",
    "WinSDK",
  ]
  for target in package.targets where reach.subtracting(apple).contains(target.name) {
    let path = try #require(target.path, "\(target.name) has no folder")
    for file in Repository.swiftFiles(under: path) {
      let foreign = Set(file.imports).subtracting(platform).subtracting(reach)
      #expect(foreign.isEmpty, "\(file.path) imports \(foreign)")
      // Elsewhere than on Apple's platforms, all of Foundation costs an app 30 MB.
      let isGuarded = file.text.contains("canImport(FoundationEssentials)")
      #expect(!file.imports.contains("Foundation") || isGuarded, "\(file.path) imports Foundation")
    }
  }
}

@Test func `what generates types runs on the host alone`() throws {
  let package = try PackageDescription.whole.get()
  let host: Set = ["AquiferModelTypes", "aquifer-model-types", "ModelTypes"]
  let client = try #require(package.products.first { $0.name == "AquiferClient" })
  let plugin = try #require(package.products.first { $0.name == "AquiferModelTypes" })
  #expect(package.reach(plugin).isSuperset(of: host))
  #expect(package.reach(client).isDisjoint(with: host))
}
