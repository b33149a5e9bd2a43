import JSON
import ObjectModel
import Records
import ServiceBus
import Testing

@testable import ShareService

private let rules = "/mirror/1/\(World.photos)/development/rules"
private let model = "/mirror/1/\(World.photos)/development/model"

private func document(_ policy: String = "reject", entity: String = "Post", attribute: String = "title") -> String {
  #"{"unique":[{"entity":"\#(entity)","attributes":["\#(attribute)"],"scope":"zone","policy":"\#(policy)"}]}"#
}

/// Unique attributes of an environment, as operators declare them and workers get them.
@Suite(.eachEngine) struct RulesTests {
  @Test func `rules are declared for a model, told to workers and there after a restart`() async throws {
    var world = try await World.withContainer()
    let early = try await world.refused("PUT", rules, document(), status: 400)
    #expect(early["reason"]?.string?.contains("has no model yet") == true)
    try await world.ok("PUT", model, modelXML())
    let version = try await world.schema().version
    _ = world.published.take()
    let answer = try await world.ok("PUT", rules, document())
    #expect(answer["unique"]?.elements.map { $0["policy"]?.string } == ["reject"])
    #expect(world.published.take().map(\.schemas) == [["\(World.photos)/development"]])
    let reply = try await world.schema()
    #expect(reply.rules == EnvironmentRules(unique: [.init(entity: "Post", attributes: ["title"], policy: .reject)]))
    #expect(reply.version > version)
    world = try await world.restarted()
    #expect(try await world.schema().rules == reply.rules)
    #expect(try await world.ok("GET", "/admin/1/rules/\(World.photos)/development")["unique"]?.count == 1)
    #expect(try await world.ok("GET", "/admin/1/rules/\(World.photos)/production")["unique"]?.count == 0)
    // Another model leaves the rules as they are; an empty list removes them.
    try await world.ok("PUT", model, modelXML(attributes: ["title": "String", "likes": "Integer 64"]))
    #expect(try await world.schema().rules == reply.rules)
    try await world.ok("PUT", rules, #"{"unique":[]}"#)
    #expect(try await world.schema().rules == nil)
  }

  @Test func `an impossible rule is refused with its place and changes nothing, like a dry run`() async throws {
    let world = try await World.withContainer()
    try await world.ok("PUT", model, modelXML())
    try await world.ok("PUT", rules, document("report"))
    let version = try await world.schema().version
    let refused = try await world.refused("PUT", rules, document(attribute: "name"), status: 400)
    #expect(refused["reason"]?.string == "Post.name is not an attribute of the model.")
    try await world.refused("PUT", rules, document("merge"), status: 400)
    try await world.refused("PUT", rules, "unique", status: 400)
    try await world.refused("POST", "/admin/1/rules/\(World.photos)/development", document(), status: 405)
    try await world.refused("GET", "/admin/1/rules/iCloud.none/development", "", status: 404)
    let trial = try await world.ok("PUT", rules, document("reject"), query: ["dryRun": "true"])
    #expect(trial["unique"]?.elements.first?["policy"]?.string == "reject")
    #expect(try await world.schema().rules?.unique.map(\.policy) == [.report])
    #expect(try await world.schema().version == version)
  }

  @Test func `rules for several models hold if one of them has the entity, and a refusal names those that lack it`()
    async throws
  {
    let world = try await World.withContainer()
    let first = try #require(try await world.ok("PUT", model, modelXML())["modelHash"]?.string)
    let second = try #require(
      try await world.ok("PUT", model, modelXML("Tag", attributes: ["name": "String"]))["modelHash"]?.string)
    let both =
      #"""
      {"unique":[{"entity":"Post","attributes":["title"],"policy":"report"},{"entity":"Tag","attributes":["name"],\#
      "policy":"reject"}]}
      """#
    try await world.ok("PUT", rules, both)
    #expect(try await world.schema().rules?.unique.map(\.entity) == ["Post", "Tag"])
    let refused = try await world.refused("PUT", rules, document(entity: "Song"), status: 400)
    #expect(
      refused["reason"]?.string
        == """
        The model \(second.prefix(12))… (the latest) has no entity Song. The model \(first.prefix(12))… has no \
        entity Song.
        """
    )
    let lacking = try await world.refused("PUT", rules, document(attribute: "name"), status: 400)
    #expect(lacking["reason"]?.string == "Post.name is not an attribute of the model \(first.prefix(12))….")
    try await world.ok("POST", "/mirror/1/\(World.photos)/development/schema/promote")
    #expect(try await world.schema(.production).rules?.unique.map(\.entity) == ["Post", "Tag"])
  }

  @Test func `promoting takes rules along, and resetting development drops them`() async throws {
    let world = try await World.withContainer()
    try await world.ok("PUT", model, modelXML(attributes: ["title": "String", "likes": "Integer 64"]))
    try await world.ok("PUT", rules, document("reject"))
    try await world.ok("POST", "/mirror/1/\(World.photos)/development/schema/promote")
    #expect(try await world.schema(.production).rules?.unique.map(\.text) == ["Post(title)"])
    // Production's own rules stay; for the same attributes development's policy replaces production's.
    try await world.ok("PUT", "/admin/1/rules/\(World.photos)/production", document("report", attribute: "likes"))
    try await world.ok("PUT", rules, document("merge-lowest-uuid"))
    try await world.ok("POST", "/mirror/1/\(World.photos)/development/schema/promote")
    #expect(
      try await world.schema(.production).rules?.unique.map { "\($0.text) \($0.policy.rawValue)" } == [
        "Post(likes) report", "Post(title) merge-lowest-uuid",
      ])
    try await world.ok("POST", "/mirror/1/\(World.photos)/development/schema/reset")
    #expect(try await world.schema().rules == nil)
    #expect(try await world.schema(.production).rules?.unique.count == 2)
  }
}
