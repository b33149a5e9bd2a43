// Two subentities that declare relationships of the same name: each has its own.

import FoundationEssentials
import MirrorWire
import SQLite
import Testing

@testable import ReplicaStore

struct SiblingTests {
  private static func entity(
    _ name: String, parts: String, place: String, tags: String, _ inverse: String
  ) -> [EntityDescription] {
    [
      EntityDescription(
        name, parent: "Item",
        relationships: [
          RelationshipDescription("parts", to: parts, inverse: inverse, isToMany: true, .cascade),
          RelationshipDescription("place", to: place, inverse: inverse, isToMany: false),
          RelationshipDescription("tags", to: tags, inverse: inverse, isToMany: true),
        ]),
      EntityDescription(
        parts, relationships: [RelationshipDescription(inverse, to: name, inverse: "parts", isToMany: false)]),
      EntityDescription(
        place, relationships: [RelationshipDescription(inverse, to: name, inverse: "place", isToMany: true)]),
      EntityDescription(
        tags, relationships: [RelationshipDescription(inverse, to: name, inverse: "tags", isToMany: true)]),
    ]
  }

  private static let entities =
    [EntityDescription("Item", attributes: [AttributeDescription("title", .string)])]
    + entity("Photo", parts: "PhotoPart", place: "Place", tags: "Tag", "photo")
    + entity("Video", parts: "VideoPart", place: "Studio", tags: "Word", "video")
  private static let model = ManagedObjectModel(hash: "siblings-1", entities: entities)

  private let folder: Folder
  private var path: String { "\(folder.path)/store.sqlite" }

  init() throws { folder = try World.folder() }

  private func open(_ model: ManagedObjectModel = model) async throws -> TestStore {
    TestStore(folder: folder, replica: try await Replica.open(World.configuration(path), model))
  }

  private func insert(_ save: SaveTransaction) throws {
    for (kind, place, tags) in [("Photo", "Place", "Tag"), ("Video", "Studio", "Word")] {
      try save.insert(place, place)
      try save.insert(tags, tags)
      try save.insert(kind, kind, ["place": .object(place)])
      try save.insert("\(kind)Part", "part of \(kind)".replacing(" ", with: "-"), [kind.lowercased(): .object(kind)])
      try save.link(kind, kind, "tags", tags)
    }
  }

  @Test func `a deletion of either leaves what it led to, and takes its own parts`() async throws {
    let store = try await open()
    try await store.save { try insert($0) }
    try await store.save { save in
      try save.delete("Photo", "Photo")
      try save.delete("Video", "Video")
    }
    for part in ["PhotoPart", "VideoPart", "Item"] { #expect(try await store.names(Query(part)).isEmpty) }
    for (name, inverse) in [("Place", "photo"), ("Studio", "video"), ("Tag", "photo"), ("Word", "video")] {
      #expect(try await store.related(name, name, inverse).isEmpty)
      #expect(try await store.names(Query(name)) == [name])
    }
  }

  @Test func `each has pairs of its own, saved and imported`() async throws {
    let store = try await open()
    try await store.save { try insert($0) }
    #expect(try await store.related("Photo", "Photo", "tags") == ["Tag"])
    #expect(try await store.related("Video", "Video", "tags") == ["Word"])
    func imported(_ kind: String, _ tags: String) -> Link {
      Link(relationship: "tags", entity: kind, objectID: kind, targetEntity: tags, targetID: "\(tags)2")
    }
    try await store.replica.apply(
      page(
        "t1", saved("Tag", "Tag2"), saved("Word", "Word2"), .link(imported("Photo", "Tag")),
        .link(imported("Video", "Word"))), event: nil)
    #expect(try await store.related("Photo", "Photo", "tags") == ["Tag", "Tag2"])
    #expect(try await store.related("Video", "Video", "tags") == ["Word", "Word2"])
  }

  @Test(arguments: [false, true])
  func `a file that lacks the table of one gets it when it opens, also with a later model`(isLater: Bool) async throws {
    let store = try await open()
    try await store.save { try $0.insert("Photo", "P1") }
    await store.replica.close()
    let connection = try Connection(shared: path, mode: .readWrite)
    try connection.execute("DROP TABLE l_Video_tags")
    connection.close()
    let later = ManagedObjectModel(hash: "siblings-2", entities: Self.entities, earlierVersions: [Self.model])
    let again = try await open(isLater ? later : Self.model)
    try await again.save { save in
      try save.insert("Video", "V1")
      try save.insert("Word", "W1")
      try save.link("Video", "V1", "tags", "W1")
    }
    #expect(try await again.related("Video", "V1", "tags") == ["W1"])
    #expect(try await again.names(Query("Photo")) == ["P1"])
  }
}
