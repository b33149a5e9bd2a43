// Saves: what they change, what they tell the server, and what they refuse.

import FoundationEssentials
import MirrorWire
import Testing

@testable import ReplicaStore

/// A store in a folder of its own.
struct TestStore {
  let folder: Folder
  let replica: Replica

  static func make(isMirrored: Bool = true, _ change: (inout ReplicaConfiguration) -> Void = { _ in }) async throws
    -> TestStore
  {
    let folder = try World.folder()
    var configuration = World.configuration("\(folder.path)/store.sqlite", isMirrored: isMirrored)
    change(&configuration)
    return TestStore(folder: folder, replica: try await Replica.open(configuration, Photos.model))
  }

  @discardableResult func save(_ body: @escaping @Sendable (SaveTransaction) throws -> Void) async throws -> Int64 {
    try await replica.save(SaveOptions(), body).number
  }

  /// Values of an object by property; nil: it is not here.
  func values(_ entity: String, _ name: String) async throws -> [String: Literal]? {
    let replica = replica
    return try await replica.read { snapshot in try snapshot.values(AnyObjectID(entityName: entity, recordName: name)) }
  }

  func names(_ query: Query) async throws -> [String] {
    try await replica.read { snapshot in try snapshot.names(query) }
  }

  func related(_ entity: String, _ name: String, _ relationship: String) async throws -> Set<String> {
    var query = Query(try replica.schema.toMany(relationship, of: replica.schema.entity(entity)).destination)
    query.related = .init(relationship, of: AnyObjectID(entityName: entity, recordName: name))
    return Set(try await names(query))
  }

  /// The transactions that wait to be sent.
  func outbox() async throws -> [Transaction] {
    try await replica.read { snapshot in
      try snapshot.rows("SELECT body FROM outbox ORDER BY key", []).map { row in
        guard case .data(let data) = row[0] else { throw StoreError.damaged("no body") }
        return try Transaction(json: [UInt8](data))
      }
    }
  }
}

extension Snapshot {
  func values(_ id: AnyObjectID) throws -> [String: Literal]? {
    let entity = try schema.entity(id.entityName)
    return try object(id) { row in
      var values: [String: Literal] = [:]
      for (place, column) in entity.columns.enumerated() {
        let value = row.literal(place + 1, isName: column.toOne != nil)
        if value != .null { values[column.name] = value }
      }
      return values
    }
  }

  func names(_ query: Query) throws -> [String] {
    var names: [String] = []
    try forEach(query) { row in names.append(row.recordName(0)) }
    return names
  }
}

extension SaveTransaction {
  /// Inserts an object with some properties.
  func insert(_ entity: String, _ name: String, _ properties: [String: Literal] = [:]) throws {
    let columns = try schema.entity(entity).columns
    try insert(AnyObjectID(entityName: entity, recordName: name), columns.map { properties[$0.name] ?? .null })
  }

  func update(_ entity: String, _ name: String, _ properties: [String: Literal]) throws {
    let id = AnyObjectID(entityName: entity, recordName: name)
    let columns = try schema.entity(entity).columns
    guard let current = try snapshot.values(id) else { throw StoreError.missing(id) }
    let old = columns.map { current[$0.name] ?? .null }
    try update(id, from: old, to: columns.enumerated().map { properties[$1.name] ?? old[$0] })
  }

  func delete(_ entity: String, _ name: String) throws { try delete(AnyObjectID(entityName: entity, recordName: name)) }

  func link(_ entity: String, _ name: String, _ relationship: String, _ target: String, _ isLinked: Bool = true) throws
  {
    let destination = try schema.toMany(relationship, of: schema.entity(entity)).destination
    try setPair(
      relationship, of: AnyObjectID(entityName: entity, recordName: name),
      with: AnyObjectID(entityName: destination, recordName: target), isLinked: isLinked)
  }
}

@Test func `a save is there after the store is opened again, with its history and its transaction`() async throws {
  let folder = try World.folder()
  let path = "\(folder.path)/store.sqlite"
  let replica = try await Replica.open(World.configuration(path), Photos.model)
  var options = SaveOptions()
  options.author = "app"
  let number = try await replica.save(options) { save in
    try save.insert("Tag", "T1", ["name": .text("sea")])
    try save.insert(
      "Photo", "P1",
      [
        "title": .text("Dunes \"at\" dawn\n"), "isHidden": .integer(1), "taken": .integer(1_700_000_000_123),
        "price": .text("1.50"),
      ])
    try save.link("Photo", "P1", "tags", "T1")
  }.number
  await replica.close()
  let again = TestStore(
    folder: folder, replica: try await Replica.open(World.configuration(path, seed: 1), Photos.model))
  #expect(
    try await again.values("Photo", "P1") == [
      "title": .text("Dunes \"at\" dawn\n"), "isHidden": .integer(1), "taken": .integer(1_700_000_000_123),
      "price": .text("1.50"), "tagCount": .integer(1),
    ])
  #expect(try await again.related("Tag", "T1", "photos") == ["P1"])
  let history = try await again.replica.history(HistoryQuery())
  #expect(history.transactions.map(\.number) == [number] && history.transactions[0].author == "app")
  #expect(history.transactions[0].changes.map(\.kind) == [.insert, .insert])
  let sent = try await again.outbox()
  #expect(sent.count == 1 && sent[0].author == "app")
  #expect(
    sent[0].changes == [
      ObjectChange(.insert, entity: "Tag", objectID: "T1", attributes: ["name": .string("sea")]),
      ObjectChange(
        .insert, entity: "Photo", objectID: "P1",
        attributes: [
          "title": .string("Dunes \"at\" dawn\n"), "isHidden": .boolean(true),
          "taken": .string("2023-11-14T22:13:20.123Z"), "price": .string("1.50"),
        ],
        relationships: ["tags": .toManyEdits(add: ["T1"], remove: [])]),
    ])
}

@Test func `an update tells the properties that differ, and one that changes nothing tells nothing`() async throws {
  let store = try await TestStore.make()
  try await store.save { try $0.insert("Photo", "P1", ["title": .text("a"), "size": .integer(1)]) }
  try await store.save {
    try $0.update("Photo", "P1", ["title": .text("a"), "size": .integer(2), "note": .text("mine")])
  }
  let before = store.replica.lastNumber
  try await store.save { save in
    try save.update("Photo", "P1", ["size": .integer(5)])
    try save.update("Photo", "P1", ["size": .integer(2)])
  }
  #expect(store.replica.lastNumber == before)
  #expect(
    try await store.outbox()[1].changes == [
      ObjectChange(.update, entity: "Photo", objectID: "P1", attributes: ["size": .integer(2)])
    ])
  let history = try await store.replica.history(HistoryQuery())
  #expect(history.transactions.last?.changes.first?.updatedProperties == ["size", "note"])
}

@Test func `an object whose edit came to nothing, and that is edited again, is told once`() async throws {
  let store = try await TestStore.make()
  try await store.save { save in
    try save.insert("Album", "A1", ["name": .text("Dunes")])
    try save.insert("Photo", "P1", ["album": .object("A1")])
  }
  try await store.save { save in
    try save.link("Album", "A1", "photos", "P1", false)
    try save.link("Album", "A1", "photos", "P1")
    try save.update("Photo", "P1", ["title": .text("Dawn")])
  }
  #expect(
    try await store.outbox()[1].changes == [
      ObjectChange(.update, entity: "Photo", objectID: "P1", attributes: ["title": .string("Dawn")])
    ])
}

@Test func `a one-to-one relationship ends former pairs at both ends in the same save`() async throws {
  let store = try await TestStore.make()
  try await store.save { save in
    for name in ["P1", "P2"] { try save.insert("Photo", name) }
    try save.insert("PhotoData", "D1", ["photo": .object("P1")])
    try save.insert("PhotoData", "D2", ["photo": .object("P2")])
  }
  try await store.save { try $0.update("Photo", "P1", ["data": .object("D2")]) }
  #expect(try await store.values("Photo", "P1")?["data"] == .object("D2"))
  #expect(try await store.values("Photo", "P2")?["data"] == nil)
  #expect(try await store.values("PhotoData", "D1")?["photo"] == nil)
  #expect(try await store.values("PhotoData", "D2")?["photo"] == .object("P1"))
  #expect(try await store.outbox()[1].changes.count == 4)
}

@Test func `deletions follow the delete rules and are explicit changes`() async throws {
  let store = try await TestStore.make()
  try await store.save { save in
    try save.insert("Album", "A1", ["name": .text("Coast")])
    try save.insert("Tag", "T1")
    try save.insert("PhotoData", "D1")
    try save.insert("Photo", "P1", ["data": .object("D1"), "album": .object("A1"), "legacyID": .integer(7)])
    try save.link("Tag", "T1", "photos", "P1")
  }
  try await store.save { try $0.delete("Album", "A1") }
  #expect(try await store.values("Photo", "P1")?["album"] == nil)
  try await store.save { try $0.delete("Photo", "P1") }
  #expect(try await store.values("PhotoData", "D1") == nil)
  #expect(try await store.related("Tag", "T1", "photos") == [])
  let changes = try await store.outbox()[2].changes
  #expect(Set(changes.map { "\($0.changeType) \($0.objectID)" }) == ["delete P1", "delete D1", "update T1"])
  #expect(changes.first { $0.objectID == "P1" }?.tombstone == ["legacyID": .integer(7)])
  #expect(
    try await store.replica.history(HistoryQuery()).transactions[2].changes.first { $0.object.recordName == "P1" }?
      .tombstone == ["legacyID": .integer(7)])
}

@Test func `a save that breaks rules of the model is refused with all problems, and nothing of it stays`() async throws
{
  let store = try await TestStore.make()
  let error = await #expect(throws: StoreError.self) {
    try await store.save { save in
      try save.insert("Album", "A1")
      try save.insert("Album", "A2", ["name": .text(String(repeating: "x", count: 41))])
      try save.insert("Photo", "P1", ["score": .real(.infinity), "album": .object("A1")])
    }
  }
  guard case .validation(let problems)? = error else {
    Issue.record("the save was not refused")
    return
  }
  #expect(problems.map { "\($0.object)/\($0.property)" } == ["Album/A1/name", "Album/A2/name", "Photo/P1/score"])
  #expect(try await store.names(Query("Album")).isEmpty)
  #expect(try await store.outbox().isEmpty && store.replica.lastNumber == 0)
}

@Test func `a transaction with many changes is sent in parts`() async throws {
  let store = try await TestStore.make()
  try await store.save { save in
    for number in 0..<2500 { try save.insert("Tag", "T\(number)", ["name": .text("\(number)")]) }
  }
  let parts = try await store.outbox()
  #expect(parts.map(\.changes.count) == [1000, 1000, 500])
  #expect(parts.map { $0.transactionID.split(separator: ".").last.map(String.init) } == ["1", "2", "3"])
  let first = try #require(try await store.replica.nextBatch(transactionLimit: 1, byteLimit: 1 << 20))
  try await store.replica.acknowledge(first, historyToken: "1")
  // All objects are pending until the last part is acknowledged.
  #expect(try await store.replica.figures().pendingObjects == 2500)
  let rest = try #require(try await store.replica.nextBatch(transactionLimit: 10, byteLimit: 1 << 30))
  try await store.replica.acknowledge(rest, historyToken: "2")
  #expect(try await store.replica.figures() == MirrorFigures())
}
