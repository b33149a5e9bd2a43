// The index of what waiting saves name: it is what the rows say, whatever becomes of them.

import FoundationEssentials
import MirrorWire
import SQLite
import Testing

@testable import ReplicaStore

extension TestStore {
  /// What the index of waiting saves has and the rows do not say, or they say and it has not; nil: it is as they are.
  func indexDifference() async throws -> String? {
    try await replica.write { writer, outcome in
      outcome.changesFigures = false
      let connection = writer.connection
      try WaitingSaves(connection).readAll()
      let indexed = try connection.prepare(SQL("words", "SELECT word, isContent FROM waitingWord")).all { row in
        row.bool(1) ? "content \(row.text(0))" : "object \(RecordName.read(row, 0))"
      }
      let waiting = try connection.prepare(SQL("waiting", "SELECT body FROM outbox")).all { $0.blob(0) }
      let rejected = try connection.prepare(SQL("refused", "SELECT body FROM rejected")).all { $0.blob(0) }
      var said: Set<String> = []
      for change in try waiting.flatMap({ try Transaction(json: $0).changes }) {
        said.insert("object \(change.objectID)")
        for case .toManyEdits(let add, let remove) in (change.relationships ?? [:]).values {
          said.formUnion((add + remove).map { "object \($0)" })
        }
      }
      for change in try (waiting + rejected).flatMap({ try Transaction(json: $0).changes }) {
        for case .asset(let asset) in (change.attributes ?? [:]).values {
          let name = ContentName(fileChecksum: asset.fileChecksum, byteCount: asset.size)
          said.insert("content \(try #require(name).checksum)")
        }
      }
      let difference = said.symmetricDifference(indexed)
      return difference.isEmpty ? nil : "index: \(difference.sorted())"
    }
  }

  fileprivate func savePhoto(_ photo: String, _ text: String) async throws {
    let data = Data(text.utf8)
    let name = ContentName(checksum: SHA256.name(of: data), byteCount: Int64(data.count))
    try await save { save in
      let columns = try save.schema.entity("Photo").columns
      try save.insert(
        AnyObjectID(entityName: "Photo", recordName: photo),
        columns.map { $0.name == "image" ? .text(name.text) : .null }, contents: [name.checksum: .data(data)])
      try save.link("Photo", photo, "tags", "T1")
    }
  }

  fileprivate func refuseNext() async throws -> [Rejected] {
    let batch = try #require(try await replica.nextBatch(transactionLimit: 1, byteLimit: 1))
    let error = ServerError(status: 403, serverErrorCode: "ACCESS_DENIED", reason: "no")
    return try await replica.refuse(batch, at: nil, error: error)
  }
}

@Test func `the index of waiting saves is what the rows say, while these come, change, are refused and go`()
  async throws
{
  let store = try await TestStore.withZones()
  var step = 0
  func check() async throws {
    step += 1
    #expect(try await store.indexDifference() == nil, "step \(step)")
  }
  try await check()
  for number in 0..<3 { try await store.savePhoto("new\(number)", "picture \(number)") }
  try await check()
  let refused = try #require(try await store.refuseNext().first?.identifier)
  try await check()
  // Kept, sent, and refused again under its identifier.
  try await store.replica.keep(refused)
  try await store.replica.retry(refused)
  try await check()
  let first = try #require(try await store.replica.nextBatch(transactionLimit: 2, byteLimit: 1 << 20))
  try await store.replica.acknowledge(first, historyToken: "h")
  try await check()
  #expect(try await store.refuseNext().map(\.identifier) == [refused])
  try await check()
  // A row that takes the place of another tells nobody that the other goes.
  try await store.replica.write { writer, _ in
    try writer.connection.execute(
      "INSERT OR REPLACE INTO rejected(identifier, number, body, error, isConsequence, at) "
        + "SELECT identifier, number, (SELECT body FROM exported ORDER BY key LIMIT 1), error, isConsequence, at "
        + "FROM rejected")
  }
  try await check()
  try await store.replica.discard(refused)
  try await check()
  // A row that loses some of its objects, and one that the server may have lost.
  try await store.replica.apply(page("t2", ended(.reupload)), event: nil)
  try await check()
  try await store.replica.apply(
    page("t3", .move(objectID: "A1", from: zone, to: trips), ended(.delete, trips)), event: nil)
  try await check()
  try await store.replica.sendAgain()
  try await check()
  try await store.export()
  try await check()
}

@Test func `an object that a purge took out of what waits is asked for, though others of its row wait`() async throws {
  let store = try await TestStore.withZones()
  try await store.save { try $0.update("Album", "A1", ["name": .text("refused")]) }
  #expect(try await store.refuseNext().count == 1)
  try await store.replica.apply(page("t2", ended(.reupload)), event: nil)
  #expect(try await store.replica.objectsToReread(limit: 10).isEmpty)
  try await store.replica.apply(
    page("t3", .move(objectID: "A1", from: zone, to: trips), ended(.delete, trips)), event: nil)
  #expect(try await store.outbox().flatMap(\.changes).contains { $0.objectID == "P1" })
  #expect(try await store.replica.objectsToReread(limit: 10).map(\.recordName) == ["A1"])
}
