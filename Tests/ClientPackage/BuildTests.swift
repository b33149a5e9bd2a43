// An app's package depends on this one by branch or version: the guide's app builds, runs, and follows its model.

import Foundation
import Testing

struct BuildTests {
  @Test(.timeLimit(.minutes(10)))
  func `the guide's app is found by branch, builds by version with its first model and its second, and runs`() throws {
    let guide = try Guide()
    #expect(guide.exampleCount > 12 && !guide.packages.isEmpty, "the guide is not understood any more")
    let package = try ClientPackage(sources: guide.sources)
    defer { package.remove() }
    let found = try package.swift("package", "resolve")
    #expect(found.code == 0, "\(found.output)")
    // A dependency by version is built under more rules than one by branch. Each would be compiled for itself.
    let manifest = try #require(guide.sources["Package.swift"])
    #expect(manifest.contains(Self.branch))
    try package.write(manifest.replacing(Self.branch, with: "from: \"1.0.0\""), to: "Package.swift")
    let start = ContinuousClock.now
    let built = try package.build()
    print("a package that depends on this one is built in \(ContinuousClock.now - start)")
    #expect(built.code == 0, "\(built.output)")
    #expect(!built.output.contains("unhandled"), "\(built.output)")
    let first = try package.run("Buy", "bread")
    #expect(first.code == 0 && first.output == "★3 Buy bread\n", "\(first.output)")
    // A server that does not answer ends nothing; the app says that it sends later.
    try package.write("a token", to: "phone/token")
    let alone = try package.run(environment: ["AQUIFER_SERVER": "http://127.0.0.1:9", "NOTES_TOKEN": "0"])
    #expect(alone.code == 0 && alone.output == "★3 Buy bread\nsent later: offline\n", "\(alone.output)")

    // A second version of the model, to which the file of the first is migrated.
    let attribute = "<attribute name=\"mood\" attributeType=\"String\" defaultValueString=\"calm\"/>"
    let second = Guide.modelPath.replacing("Notes.xcdatamodel/", with: "Notes 2.xcdatamodel/")
    try package.write(Self.adding(attribute, to: guide.model), to: second)
    try package.write(guide.currentVersion, to: "Sources/Notes.xcdatamodeld/.xccurrentversion")
    try package.write(guide.migrations, to: "Sources/Migrations.swift")
    let main = try #require(guide.sources["Sources/main.swift"])
    let calm = main.replacing("$0.folder[\\.name] == \"Inbox\"", with: "$0.mood == \"calm\"")
    try package.write(calm, to: "Sources/main.swift")
    let rebuilt = try package.build()
    #expect(rebuilt.code == 0, "\(rebuilt.output)")
    let again = try package.run("Call", "Ida")
    #expect(again.code == 0 && again.output == "★3 Buy bread\n★3 Call Ida\n", "\(again.output)")

    let mistake = "<attribute name=\"mood\" attributeType=\"String\"/>"
    try package.write(Self.adding(mistake, to: guide.model), to: second)
    let refused = try package.build()
    #expect(refused.code != 0)
    let line = "\(second):3: error: Note.mood is neither optional nor has it a default value."
    #expect(refused.output.contains(line), "\(refused.output)")
  }

  @Test func `the guide names Debian packages that this package is built with`() throws {
    let list = try String(contentsOf: ClientPackage.checkout.appending(path: "deploy/packages"), encoding: .utf8)
    let known = list.split(separator: "\n").compactMap { $0.split(separator: " ").first.map(String.init) }
    let guide = try Guide()
    #expect(Set(guide.packages).isSubset(of: known))
  }

  private static let branch = "branch: \"main\""

  /// The model with an attribute more, on its third line.
  private static func adding(_ attribute: String, to model: String) -> String {
    model.replacing("<entity name=\"Note\">\n", with: "<entity name=\"Note\">\n        \(attribute)\n")
  }
}
