// The package of docs/guide/swift-client.md, as somebody makes it who copies what is there.

import Foundation

/// What the guide has a reader write.
struct Guide {
  static let modelPath = "Sources/Notes.xcdatamodeld/Notes.xcdatamodel/contents"

  /// Sources by path. The examples that are no files of their own are functions of one more file.
  let sources: [String: String]
  let model: String
  let exampleCount: Int

  init() throws {
    let text = try String(
      contentsOf: ClientPackage.checkout.appending(path: "docs/guide/swift-client.md"), encoding: .utf8)
    let fences = text.matches(of: /```(\w+)\n([\s\S]*?)\n```/).map { (String($0.output.1), String($0.output.2)) }
    model = fences.first { $0.0 == "xml" }?.1 ?? ""
    var sources = [Self.modelPath: model]
    var examples = ["import AquiferClient", "import FoundationEssentials", ""]
    var count = 0
    for (language, code) in fences where language == "swift" {
      let lines = code.split(separator: "\n", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
      let name = lines[0].dropFirst("// ".count)
      if name.contains(".") {
        sources[String(name)] = lines[1]
        continue
      }
      count += 1
      let parameters = "_ container: PersistentContainer, _ id: ObjectID<Note>, _ address: String"
      examples.append("func example\(name)(\(parameters)) async throws {\n\(lines[1])\n}\n")
    }
    sources["Sources/Examples.swift"] = examples.joined(separator: "\n")
    self.sources = sources
    exampleCount = count
  }
}
