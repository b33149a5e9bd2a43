// Names of entities and properties over several versions of a model, and what a file keeps under each of them.

import FoundationEssentials
import MirrorWire
import Testing

@testable import ReplicaStore

/// Names of entities or attributes, with their renaming identifiers.
private typealias Names = KeyValuePairs<String, String?>

private struct Step: Sendable, CustomTestStringConvertible {
  let testDescription: String
  let earlier, later: Names
  /// The later names, each with the earlier one.
  let expected: [String: String]

  init(_ description: String, _ earlier: Names, _ later: Names, _ expected: [String: String]) {
    testDescription = description
    (self.earlier, self.later, self.expected) = (earlier, later, expected)
  }

  static let all = [
    Step("a new name", ["a": nil], ["b": "a"], ["b": "a"]),
    Step("two exchange names", ["a": nil, "b": nil], ["a": "b", "b": "a"], ["a": "b", "b": "a"]),
    Step("they keep them", ["a": "b", "b": "a"], ["a": "b", "b": "a", "c": nil], ["a": "a", "b": "b"]),
    Step("one of them changes again", ["a": "b", "b": "a"], ["c": "a", "a": "b"], ["c": "b", "a": "a"]),
    Step("the former name is used again", ["a": "b"], ["a": "b", "b": nil], ["a": "a"]),
    Step("and is used still", ["a": "b", "b": nil], ["a": "b", "b": nil], ["a": "a", "b": "b"]),
    Step("while the first changes again", ["a": "b", "b": nil], ["c": "b", "b": nil], ["c": "a", "b": "b"]),
    Step("by the name between", ["a": "b"], ["c": "a"], ["c": "a"]),
    Step("and used at once", ["a": nil], ["a": nil, "b": "a"], ["b": "a"]),
    Step("another identifier", ["a": "b"], ["a": "z"], ["a": "a"]),
  ]
}

private func model(_ entities: [EntityDescription]) -> ManagedObjectModel {
  ManagedObjectModel(hash: "names", entities: entities)
}

@Test(arguments: Step.all)
private func `a property or entity goes on from one of the earlier version, and no other does`(step: Step) {
  func notes(_ names: Names) -> ManagedObjectModel {
    model([
      EntityDescription(
        "Note", attributes: names.map { AttributeDescription($0, .string, renamingIdentifier: $1) })
    ])
  }
  func entities(_ names: Names) -> ManagedObjectModel {
    model(names.map { EntityDescription($0, renamingIdentifier: $1) })
  }
  let properties = ModelMapping(from: notes(step.earlier), to: notes(step.later))
  let named = ModelMapping(from: entities(step.earlier), to: entities(step.later))
  for (name, _) in step.later {
    #expect(properties.earlierProperty(name, of: "Note") == step.expected[name])
    #expect(named.earlierEntity(name) == step.expected[name])
  }
  for (name, _) in step.earlier {
    let later = step.expected.first { $0.value == name }?.key
    #expect(properties.laterProperty(name, of: "Note") == later)
    #expect(named.laterEntity(name) == later)
  }
}

/// A file that goes through versions of its model.
private struct Versions {
  let folder: Folder
  let models: [ManagedObjectModel]

  init(_ entities: [EntityDescription]...) throws {
    folder = try World.folder()
    models = entities.enumerated().map { number, entities in
      let earlier = (0..<number).map { ManagedObjectModel(hash: "names-\($0)", entities: []) }
      return ManagedObjectModel(hash: "names-\(number)", entities: entities, earlierVersions: earlier)
    }
  }

  func open(_ number: Int, isMirrored: Bool = true) async throws -> TestStore {
    TestStore(folder: folder, replica: try await openReplica(number, isMirrored: isMirrored))
  }

  func openReplica(_ number: Int, isMirrored: Bool) async throws(StoreError) -> Replica {
    let configuration = World.configuration(
      "\(folder.path)/store.sqlite", isMirrored: isMirrored, seed: 1000 * number)
    return try await Replica.open(configuration, models[number])
  }
}

@Test func `attributes whose identifiers stay keep their values in the version after, and so does what waits`()
  async throws
{
  func notes(_ names: Names, _ more: AttributeDescription...) -> [EntityDescription] {
    [
      EntityDescription(
        "Note", attributes: names.map { AttributeDescription($0, .string, renamingIdentifier: $1) } + more)
    ]
  }
  let renamed: Names = ["first": "a", "second": "b"]
  let versions = try Versions(
    notes(["a": nil, "b": nil]), notes(renamed), notes(renamed, AttributeDescription("third", .string)))
  var store = try await versions.open(0)
  try await store.replica.apply(
    page("t1", saved("Note", "N1", ["a": .string("1"), "b": .string("2")])), event: nil)
  await store.replica.close()
  store = try await versions.open(1)
  #expect(try await store.values("Note", "N1") == ["first": .text("1"), "second": .text("2")])
  try await store.export()
  try await store.save { try $0.update("Note", "N1", ["second": .text("mine")]) }
  await store.replica.close()
  store = try await versions.open(2)
  #expect(try await store.values("Note", "N1") == ["first": .text("1"), "second": .text("mine")])
  #expect(try await store.outbox().flatMap(\.changes).map(\.attributes) == [["second": .string("mine")]])
  let theirs: [String: AttributeValue] = ["first": .string("b"), "second": .string("b")]
  try await store.replica.apply(page("t2", saved("Note", "N1", theirs)), event: nil)
  #expect(try await store.values("Note", "N1") == ["first": .text("b"), "second": .text("mine")])
}

@Test func `a mirrored store refuses a name that records have for something else, and another store takes it`()
  async throws
{
  func notes(_ names: Names) -> [EntityDescription] {
    [EntityDescription("Note", attributes: names.map { AttributeDescription($0, .string, renamingIdentifier: $1) })]
  }
  let steps: [(earlier: Names, later: Names, problems: [String])] = [
    (["a": nil, "b": nil], ["a": "b", "b": "a"], ["Note.a", "Note.b"]),
    (["a": nil], ["a": nil, "b": "a"], ["Note.b"]),
    (["b": "a"], ["a": nil, "b": "a"], ["Note.b"]),
    (["b": "a"], ["a": "b"], []),
    (["b": "a"], ["a": "a"], []),
    (["a": nil, "b": "a"], ["a": nil, "b": "a", "c": nil], []),
    (["b": "a"], ["c": "b", "d": nil], []),
    (["b": "a"], ["c": "a"], []),
  ]
  for (earlier, later, expected) in steps {
    for isMirrored in [true, false] {
      let versions = try Versions(notes(earlier), notes(later))
      let store = try await versions.open(0, isMirrored: isMirrored)
      try await store.save { try $0.insert("Note", "N1", [:]) }
      await store.replica.close()
      do throws(StoreError) {
        await (try await versions.openReplica(1, isMirrored: isMirrored)).close()
        #expect(expected.isEmpty || !isMirrored)
      } catch {
        guard case .migration(let problems) = error else { throw error }
        #expect(isMirrored && problems.map { String($0.prefix { $0 != ":" }) } == expected)
      }
    }
  }
}

@Test func `the values of a renamed attribute are the server's as before, and only the user's own edits are sent`()
  async throws
{
  func notes(_ title: String, _ identifier: String?) -> [EntityDescription] {
    [EntityDescription("Note", attributes: [AttributeDescription(title, .string, renamingIdentifier: identifier)])]
  }
  let versions = try Versions(notes("title", nil), notes("headline", "title"))
  var store = try await versions.open(0)
  try await store.replica.apply(
    page(
      "t1", saved("Note", "N1", ["title": .string("Waves")]), saved("Note", "N2", ["title": .string("theirs")])),
    event: nil)
  try await store.save { try $0.update("Note", "N2", ["title": .text("mine")]) }
  await store.replica.close()
  store = try await versions.open(1)
  #expect(
    try await store.outbox().flatMap(\.changes) == [
      ObjectChange(.update, entity: "Note", objectID: "N2", attributes: ["headline": .string("mine")])
    ])
  #expect(try await store.values("Note", "N1") == ["headline": .text("Waves")])
  // The server reads former fields: another device has edited there what this one still had.
  let theirs: [String: AttributeValue] = ["headline": .string("Storm")]
  try await store.replica.apply(page("t2", saved("Note", "N1", theirs), saved("Note", "N2", theirs)), event: nil)
  #expect(try await store.values("Note", "N1") == ["headline": .text("Storm")])
  #expect(try await store.values("Note", "N2") == ["headline": .text("mine")])
}

@Test func `a to-one relationship of a mirrored store keeps its name, and another store's may get a new one`()
  async throws
{
  func entities(_ name: String, _ identifier: String?, photos: String, _ former: String?) -> [EntityDescription] {
    [
      EntityDescription(
        "Photo",
        relationships: [
          RelationshipDescription(name, to: "Album", inverse: photos, isToMany: false, renamingIdentifier: identifier)
        ]),
      EntityDescription(
        "Album",
        relationships: [
          RelationshipDescription(photos, to: "Photo", inverse: name, isToMany: true, renamingIdentifier: former)
        ]),
    ]
  }
  for isMirrored in [true, false] {
    let versions = try Versions(
      entities("album", nil, photos: "photos", nil), entities("album", nil, photos: "pictures", "photos"),
      entities("collection", "album", photos: "pictures", "photos"))
    var store = try await versions.open(0, isMirrored: isMirrored)
    try await store.save { save in
      try save.insert("Album", "A1", [:])
      try save.insert("Photo", "P1", ["album": .object("A1")])
    }
    await store.replica.close()
    // No record tells the to-many side.
    store = try await versions.open(1, isMirrored: isMirrored)
    #expect(try await store.related("Album", "A1", "pictures") == ["P1"])
    await store.replica.close()
    if isMirrored {
      let error = await #expect(throws: StoreError.self) { try await versions.open(2, isMirrored: true) }
      guard case .migration(let problems)? = error else {
        Issue.record("the file was migrated")
        continue
      }
      #expect(problems.map { String($0.prefix { $0 != ":" }) } == ["Photo.collection"])
      #expect(try await versions.open(1, isMirrored: true).values("Photo", "P1") == ["album": .object("A1")])
    } else {
      store = try await versions.open(2, isMirrored: false)
      #expect(try await store.values("Photo", "P1") == ["collection": .object("A1")])
    }
  }
}

@Test func `two properties that claim one of the earlier version are told as a problem, and the file stays as it is`()
  async throws
{
  func notes(_ names: Names) -> [EntityDescription] {
    [EntityDescription("Note", attributes: names.map { AttributeDescription($0, .string, renamingIdentifier: $1) })]
  }
  let versions = try Versions(notes(["a": nil]), notes(["b": "a", "c": "a"]))
  let store = try await versions.open(0)
  try await store.save { try $0.insert("Note", "N1", ["a": .text("kept")]) }
  await store.replica.close()
  let error = await #expect(throws: StoreError.self) { try await versions.open(1) }
  guard case .migration(let problems)? = error else {
    Issue.record("the file was migrated")
    return
  }
  #expect(problems.map { String($0.prefix { $0 != ":" }) } == ["Note.c"])
  #expect(try await versions.open(0).values("Note", "N1") == ["a": .text("kept")])
}

@Test(arguments: ["Picture", "Zine"])
func `a pair that the user removed stays removed when the entity has another name`(name: String) async throws {
  func entities(_ photo: String, _ identifier: String?) -> [EntityDescription] {
    [
      EntityDescription(
        photo, relationships: [RelationshipDescription("tags", to: "Tag", inverse: "photos", isToMany: true)],
        renamingIdentifier: identifier),
      EntityDescription(
        "Tag", relationships: [RelationshipDescription("photos", to: photo, inverse: "tags", isToMany: true)]),
    ]
  }
  let versions = try Versions(entities("Photo", nil), entities(name, "Photo"))
  var store = try await versions.open(0)
  try await store.replica.apply(
    page("t1", saved("Photo", "P1"), saved("Tag", "T1"), saved("Tag", "T2"), .link(link("P1", "T1"))), event: nil)
  try await store.save { save in
    try save.link("Photo", "P1", "tags", "T1", false)
    try save.link("Tag", "T2", "photos", "P1")
  }
  await store.replica.close()
  store = try await versions.open(1)
  let pairs = ["T1", "T2"].map {
    Link(relationship: "tags", entity: name, objectID: "P1", targetEntity: "Tag", targetID: $0)
  }
  try await store.replica.apply(page("t2", .link(pairs[0]), .unlink(pairs[1])), event: nil)
  #expect(try await store.related(name, "P1", "tags") == ["T2"])
  // Once the server has heard of it, the pairs are everybody's.
  try await store.export()
  try await store.replica.apply(page("t3", .link(pairs[0]), .unlink(pairs[1])), event: nil)
  #expect(try await store.related(name, "P1", "tags") == ["T1"])
}

@Test func `an attribute whose name a relationship gets is gone with its values, also from what waits`() async throws {
  let album = EntityDescription(
    "Album", attributes: [AttributeDescription("name", .string)],
    relationships: [RelationshipDescription("photos", to: "Photo", inverse: "album", isToMany: true)])
  let versions = try Versions(
    [
      EntityDescription(
        "Photo", attributes: [AttributeDescription("title", .string), AttributeDescription("album", .integer64)]),
      EntityDescription("Album", attributes: [AttributeDescription("name", .string)]),
    ],
    [
      EntityDescription(
        "Photo", attributes: [AttributeDescription("title", .string)],
        relationships: [RelationshipDescription("album", to: "Album", inverse: "photos", isToMany: false)]),
      album,
    ])
  var store = try await versions.open(0)
  try await store.replica.apply(
    page("t1", saved("Album", "A1"), saved("Photo", "P1", ["album": .integer(1)])), event: nil)
  try await store.save { try $0.update("Photo", "P1", ["title": .text("a"), "album": .integer(1)]) }
  try await store.save { try $0.insert("Photo", "P2", ["album": .integer(1)]) }
  await store.replica.close()
  store = try await versions.open(1)
  for name in ["P1", "P2"] { #expect(try await store.values("Photo", name)?["album"] == nil) }
  #expect(try await store.related("Album", "A1", "photos") == [])
  #expect(try await store.outbox().flatMap(\.changes).map { $0.attributes ?? [:] } == [["title": .string("a")], [:]])
  // The server's album is the photo's.
  try await store.replica.apply(page("t2", saved("Photo", "P1", [:], ["album": "A1"])), event: nil)
  #expect(try await store.values("Photo", "P1") == ["title": .text("a"), "album": .object("A1")])
}
