// Pushed models whose names would mean two properties in the records of their environment (R19).

import JSON
import Records
import ServiceBus
import Testing
import WebServices

@testable import ShareService

private let mirror = "/mirror/1/\(World.photos)"

struct FormerNameTests {
  private static let first = modelXML()
  private static let renamed = with("title", modelXML(attributes: ["headline": "String"]))
  /// The former name belongs to another attribute.
  private static let reused = with("title", modelXML(attributes: ["headline": "String", "title": "String"]))

  /// The model whose `headline` has the renaming identifier.
  private static func with(_ identifier: String, _ model: String) -> String {
    model.replacing("name=\"headline\"", with: "name=\"headline\" elementID=\"\(identifier)\"")
  }

  @Test func `production refuses a model that reuses a former name, and development tells it with a count`()
    async throws
  {
    let world = try await World.withContainer()
    world.reports.set(
      "fields",
      #"{"fields":[{"recordType":"CD_Post","field":"CD_title","records":3}],"uncountedShards":[],"silent":[]}"#)
    for environment in ["development", "production"] {
      for model in [Self.first, Self.renamed] { try await world.ok("PUT", "\(mirror)/\(environment)/model", model) }
    }
    for query in [[:], ["dryRun": "true"]] {
      let error = try await world.refused("PUT", "\(mirror)/production/model", Self.reused, query: query, status: 400)
      #expect(
        error["reason"]?.string?.hasPrefix(
          "Post.headline was called title, and title is now another property. Give the other property a name") == true)
    }
    let notes = try await world.ok("PUT", "\(mirror)/development/model", Self.reused)["notes"]?.elements.compactMap(
      \.string)
    #expect(notes?.contains { $0.contains("Production refuses such a model (3 records).") } == true, "\(notes ?? [])")
    let error = try await world.refused("POST", "\(mirror)/development/schema/promote", status: 400)
    #expect(error["reason"]?.string?.hasPrefix("Post.headline was called title") == true)
    // Models that are here may be pushed again.
    try await world.ok("PUT", "\(mirror)/production/model", Self.first)
  }

  @Test func `promoting leaves out an earlier model that the latest makes ambiguous`() async throws {
    let world = try await World.withContainer()
    let latest = Self.with("title", modelXML(attributes: ["headline": "String", "likes": "Integer 64"]))
    for model in [Self.first, Self.reused, latest] {
      try await world.ok("PUT", "\(mirror)/development/model", model)
    }
    try await world.ok("POST", "\(mirror)/development/schema/promote")
    #expect(try await world.schema(.production).models.count == 2)
  }

  @Test func `production refuses another renaming identifier for a model that devices have`() async throws {
    let world = try await World.withContainer()
    let bare = modelXML(attributes: ["headline": "String"])
    for environment in ["development", "production"] {
      for model in [Self.first, bare] { try await world.ok("PUT", "\(mirror)/\(environment)/model", model) }
    }
    let error = try await world.refused("PUT", "\(mirror)/production/model", Self.renamed, status: 400)
    #expect(error["reason"]?.string?.contains("in renaming identifiers alone (Post.headline)") == true)
    let notes = try await world.ok("PUT", "\(mirror)/development/model", Self.renamed)["notes"]?.elements.compactMap(
      \.string)
    #expect(notes?.contains { $0.hasSuffix("Production refuses such a push.") } == true, "\(notes ?? [])")
    try await world.refused("POST", "\(mirror)/development/schema/promote", status: 400)
    let grown = Self.with("title", modelXML(attributes: ["headline": "String", "likes": "Integer 64"]))
    try await world.ok("PUT", "\(mirror)/production/model", grown)
  }

  @Test func `a renamed to-one relationship is told, because no device migrates to it`() async throws {
    func model(_ name: String, _ identifier: String) -> String {
      """
      <model type="com.apple.IDECoreDataModeler.DataModel"><entity name="Post"><relationship name="\(name)" \
      optional="YES" maxCount="1" \(identifier) destinationEntity="Blog" inverseName="posts" inverseEntity="Blog"/>\
      </entity><entity name="Blog"><relationship name="posts" optional="YES" toMany="YES" destinationEntity="Post" \
      inverseName="\(name)" inverseEntity="Post"/></entity></model>
      """
    }
    let world = try await World.withContainer()
    try await world.ok("PUT", "\(mirror)/development/model", model("blog", ""))
    let answer = try await world.ok(
      "PUT", "\(mirror)/development/model", model("journal", "elementID=\"blog\""), query: ["dryRun": "true"])
    #expect(
      answer["notes"]?.elements.compactMap(\.string).contains {
        $0.hasPrefix("Post.journal was called blog. A to-one relationship keeps its name. Keep blog, or add")
      } == true)
  }

  @Test func `a rename tells of a rule on the former name, which compares no new values`() async throws {
    let world = try await World.withContainer()
    try await world.ok("PUT", "\(mirror)/development/model", Self.first)
    let rules = #"{"unique":[{"entity":"Post","attributes":["title"],"policy":"reject"}]}"#
    try await world.ok("PUT", "\(mirror)/development/rules", rules)
    let answer = try await world.ok("PUT", "\(mirror)/development/model", Self.renamed, query: ["dryRun": "true"])
    #expect(
      answer["notes"]?.elements.compactMap(\.string).contains {
        $0.hasPrefix("A rule makes Post.title unique, and compares CD_title alone.")
      } == true)
  }
}
