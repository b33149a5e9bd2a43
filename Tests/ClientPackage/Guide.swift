// The package of the guides to the Swift client, as somebody makes it who copies what is there.

import Foundation

/// What the guides have a reader write.
struct Guide {
  static let modelPath = "Sources/Notes.xcdatamodeld/Notes.xcdatamodel/contents"

  /// Sources by path. The examples that are no files of their own are functions of one more file.
  let sources: [String: String]
  let model: String
  /// The file that names the second version as the current one.
  let currentVersion: String
  /// Examples that need the second version, as one file.
  let migrations: String
  let exampleCount: Int
  /// Debian's packages that an app is built with.
  let packages: [String]

  init() throws {
    let text = try ["swift-client", "swift-stores"].map { page in
      try String(contentsOf: ClientPackage.checkout.appending(path: "docs/guide/\(page).md"), encoding: .utf8)
    }.joined()
    let fences = text.matches(of: /```(\w+)\n([\s\S]*?)\n```/).map { (String($0.output.1), String($0.output.2)) }
    let files = fences.filter { $0.0 == "xml" }.map(\.1)
    model = files.first ?? ""
    currentVersion = files.last ?? ""
    packages =
      text.firstMatch(of: /`apt install ([^`]*)`/)?.output.1.split(separator: " ").map(String.init) ?? []
    var sources = [Self.modelPath: model]
    var (examples, migrations, count) = ([Self.imports], [Self.imports], 0)
    for (language, code) in fences where language == "swift" {
      let lines = code.split(separator: "\n", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
      let name = lines[0].dropFirst("// ".count)
      if name.contains(".") {
        sources[String(name)] = lines[1]
        continue
      }
      count += 1
      let parameters =
        "_ container: PersistentContainer, _ account: Account, _ id: ObjectID<Note>, _ address: String"
      let function = "func example\(name)(\(parameters)) async throws {\n\(lines[1])\n}\n"
      if name.hasPrefix("Migrate") { migrations.append(function) } else { examples.append(function) }
    }
    sources["Sources/Examples.swift"] = examples.joined(separator: "\n")
    self.sources = sources
    self.migrations = migrations.joined(separator: "\n")
    exampleCount = count
  }

  private static let imports = "import AquiferClient\nimport FoundationEssentials\n"
}
