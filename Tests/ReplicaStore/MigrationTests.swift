// Migrations: files of earlier models, with saves that wait to be sent.

import FoundationEssentials
import MirrorWire
import Testing

@testable import ReplicaStore

/// A later model: renamed entity, attribute and relationship; an attribute more, one less, one of another type, one
/// that
/// is required now, a new entity and one that is gone.
private let later = ManagedObjectModel(
  hash: "photos-2",
  entities: [
    EntityDescription(
      "Picture",
      attributes: [
        AttributeDescription("caption", .string, .required, defaultValue: "untitled", renamingIdentifier: "title"),
        AttributeDescription("size", .double),
        AttributeDescription("taken", .date), AttributeDescription("isHidden", .boolean),
        AttributeDescription("rating", .integer16, defaultValue: "3"),
        AttributeDescription("note", .string, .notMirrored),
      ],
      relationships: [
        RelationshipDescription("data", to: "PhotoData", inverse: "photo", isToMany: false, .cascade),
        RelationshipDescription("labels", to: "Tag", inverse: "photos", isToMany: true, renamingIdentifier: "tags"),
      ], renamingIdentifier: "Photo"),
    EntityDescription(
      "PhotoData", attributes: [AttributeDescription("bytes", .binary)],
      relationships: [RelationshipDescription("photo", to: "Picture", inverse: "data", isToMany: false)]),
    EntityDescription(
      "Tag", attributes: [AttributeDescription("name", .string)],
      relationships: [
        RelationshipDescription("photos", to: "Picture", inverse: "labels", isToMany: true),
        RelationshipDescription("related", to: "Tag", inverse: "related", isToMany: true),
      ]),
    EntityDescription("SmartTag", parent: "Tag", attributes: [AttributeDescription("rule", .string)]),
    EntityDescription("Place", attributes: [AttributeDescription("name", .string)]),
  ], earlierVersions: [Photos.model])

private func makeEarlier(_ path: String) async throws {
  let replica = try await Replica.open(World.configuration(path), Photos.model)
  try await replica.apply(
    page(
      "t1", saved("Photo", "P1", ["title": .string("a"), "size": .integer(4)]), saved("Tag", "T1"),
      saved("SmartTag", "S1", ["rule": .string("r")]), .link(link("P1", "T1"))),
    event: nil)
  _ = try await replica.save(SaveOptions()) { save in
    try save.update("Photo", "P1", ["title": .text("mine"), "price": .text("2")])
    try save.insert("Photo", "P2", ["size": .integer(7), "note": .text("n"), "album": .object("A1")])
    try save.insert("Album", "A1", ["name": .text("gone")])
    try save.insert("PhotoData", "D1", ["photo": .object("P2")])
    try save.link("Photo", "P1", "tags", "T1", false)
    try save.link("Tag", "S1", "photos", "P2")
  }
  await replica.close()
}

@Test func `a file is brought to a later model with what waits to be sent`() async throws {
  let folder = try World.folder()
  let path = "\(folder.path)/store.sqlite"
  try await makeEarlier(path)
  let store = TestStore(folder: folder, replica: try await Replica.open(World.configuration(path, seed: 1), later))
  #expect(
    try await store.values("Picture", "P1") == ["caption": .text("mine"), "size": .real(4), "rating": .integer(3)])
  #expect(
    try await store.values("Picture", "P2") == [
      "caption": .text("untitled"), "size": .real(7), "note": .text("n"), "data": .object("D1"), "rating": .integer(3),
    ])
  #expect(try await store.related("Tag", "S1", "photos") == ["P2"])
  #expect(try await store.related("Picture", "P1", "labels") == [])
  #expect(try await store.values("SmartTag", "S1") == ["rule": .text("r")])
  #expect(try await store.names(Query("Place")).isEmpty)
  let changes = try await store.outbox()[0].changes
  #expect(
    changes == [
      ObjectChange(
        .update, entity: "Picture", objectID: "P1", attributes: ["caption": .string("mine")],
        relationships: ["labels": .toManyEdits(add: [], remove: ["T1"])]),
      ObjectChange(
        .insert, entity: "Picture", objectID: "P2", attributes: ["size": .integer(7)],
        relationships: ["data": .toOne("D1")]),
      ObjectChange(.insert, entity: "PhotoData", objectID: "D1", relationships: ["photo": .toOne("P2")]),
      ObjectChange(
        .update, entity: "SmartTag", objectID: "S1", relationships: ["photos": .toManyEdits(add: ["P2"], remove: [])]),
    ])
  // Renamed properties and pairs are still the user's.
  try await store.replica.apply(
    page(
      "t2",
      .save(
        ImportedObject(
          entity: "Picture", objectID: "P1", zoneID: zone,
          attributes: ["caption": .string("b"), "rating": .integer(5)], recordChangeTag: "2")),
      .link(Link(relationship: "photos", entity: "Tag", objectID: "T1", targetEntity: "Picture", targetID: "P1"))),
    event: nil)
  #expect(try await store.values("Picture", "P1")?["caption"] == .text("mine"))
  #expect(try await store.values("Picture", "P1")?["rating"] == .integer(5))
  #expect(try await store.related("Picture", "P1", "labels") == [])
  let position = try await store.replica.position()
  #expect(position.modelHash == "photos-2" && position.importToken == "t2")
  // A client with the earlier model leaves the file alone.
  await store.replica.close()
  await #expect(throws: StoreError.unknownModel(hash: "photos-2")) {
    try await Replica.open(World.configuration(path, seed: 2), Photos.model)
  }
}

@Test func `what waits to be sent has the values that the later types have, as the file does`() async throws {
  let folder = try World.folder()
  let path = "\(folder.path)/store.sqlite"
  let converting = ManagedObjectModel(
    hash: "photos-4",
    entities: [
      EntityDescription(
        "Photo",
        attributes: [
          AttributeDescription("sizeText", .string, renamingIdentifier: "size"),
          AttributeDescription("hiddenCount", .integer64, renamingIdentifier: "isHidden"),
          AttributeDescription("priceText", .string, renamingIdentifier: "price"),
          AttributeDescription("legacyPrice", .decimal, renamingIdentifier: "legacyID"),
        ])
    ], earlierVersions: [Photos.model])
  let replica = try await Replica.open(World.configuration(path), Photos.model)
  _ = try await replica.save(SaveOptions()) { save in
    let values: [String: Literal] = [
      "size": .integer(7), "isHidden": .integer(1), "price": .text("2.50"), "legacyID": .integer(3),
    ]
    try save.insert("Photo", "P1", values)
  }
  await replica.close()
  let store = TestStore(folder: folder, replica: try await Replica.open(World.configuration(path, seed: 1), converting))
  #expect(
    try await store.values("Photo", "P1") == [
      "sizeText": .text("7"), "hiddenCount": .integer(1), "priceText": .text("2.50"), "legacyPrice": .text("3"),
    ])
  #expect(
    try await store.outbox()[0].changes.first?.attributes == [
      "sizeText": .string("7"), "hiddenCount": .integer(1), "priceText": .string("2.50"), "legacyPrice": .string("3"),
    ])
}

@Test func `a step in code is a save of its own, in the same commit`() async throws {
  let folder = try World.folder()
  let path = "\(folder.path)/store.sqlite"
  try await makeEarlier(path)
  struct Interruption: Error {}
  var configuration = World.configuration(path, seed: 1)
  configuration.stages = [
    MigrationStage(fromHash: "photos-1") { save in
      try save.insert("Place", "L1", ["name": .text("Sylt")])
      throw StoreError.invalid("interrupted")
    }
  ]
  await #expect(throws: StoreError.invalid("interrupted")) { try await Replica.open(configuration, later) }
  configuration.stages = [
    MigrationStage(fromHash: "photos-1") { try $0.insert("Place", "L1", ["name": .text("Sylt")]) }
  ]
  let store = TestStore(folder: folder, replica: try await Replica.open(configuration, later))
  #expect(try await store.names(Query("Place")) == ["L1"])
  #expect(try await store.replica.history(HistoryQuery()).transactions.last?.author == "migration")
  #expect(try await store.outbox().count == 2)
}

@Test func `what can't be inferred is told at once, and the file stays as it is`() async throws {
  let folder = try World.folder()
  let path = "\(folder.path)/store.sqlite"
  try await makeEarlier(path)
  let impossible = ManagedObjectModel(
    hash: "photos-3",
    entities: [
      EntityDescription(
        "Photo", attributes: [AttributeDescription("title", .date), AttributeDescription("owner", .string, .required)]),
      EntityDescription("Tag", attributes: [AttributeDescription("name", .binary)]),
    ], earlierVersions: [Photos.model])
  let error = await #expect(throws: StoreError.self) {
    try await Replica.open(World.configuration(path, seed: 1), impossible)
  }
  guard case .migration(let problems)? = error else {
    Issue.record("the file was migrated")
    return
  }
  #expect(problems.map { String($0.prefix { $0 != ":" }) } == ["Photo.title", "Photo.owner", "Tag.name"])
  let store = TestStore(
    folder: folder, replica: try await Replica.open(World.configuration(path, seed: 1), Photos.model))
  #expect(try await store.values("Photo", "P1")?["title"] == .text("mine"))
}
