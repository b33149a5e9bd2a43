// Files of earlier formats, as the versions that had them wrote them: nothing of them is lost.

import FoundationEssentials
import MirrorWire
import SQLite
import Testing

@testable import ReplicaStore

/// A store of an earlier format. `Files` has the statements that make it, written by SQLite's `.dump` of a file that a
/// version of that format made.
private func makeFile(_ format: Int, _ path: String) throws {
  let folder = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "Files")
  let text = try String(contentsOf: folder.appending(path: "format-\(format).sql"), encoding: .utf8)
  let connection = try Connection(shared: path, mode: .readWrite)
  try connection.execute(text)
  // The file was not copied, as far as it knows.
  let identity = try #require(FileIdentity.read(path, machine: "machine"))
  try Meta(connection).set("identity", identity)
  connection.close()
}

struct FormatTests {
  let folder: Folder
  private var path: String { "\(folder.path)/store.sqlite" }

  init() throws { folder = try World.folder() }

  private func open(_ format: Int) async throws -> TestStore {
    try makeFile(format, path)
    var configuration = World.configuration(path, seed: 9)
    // Soon after the file's last save, so that nothing is too old to be kept.
    configuration.now = { Date(milliseconds: 2_000_000) }
    return TestStore(folder: folder, replica: try await Replica.open(configuration, Photos.model))
  }

  @Test(arguments: 1...5) func `a file of an earlier format has its objects and pairs`(format: Int) async throws {
    let store = try await open(format)
    #expect(
      try await store.values("Photo", "P1")
        == ["title": .text("waits"), "size": .integer(9), "legacyID": .integer(11), "tagCount": .integer(0)])
    #expect(
      try await store.values("Photo", "P3")
        == ["size": .integer(7), "note": .text("n"), "album": .object("A1"), "tagCount": .integer(1)])
    #expect(try await store.values("Photo", "P2") == nil)
    #expect(try await store.values("Album", "A1") == ["name": .text("Dunes")])
    #expect(try await Set(store.names(Query("Tag"))) == ["T1", "S1", "R1"])
    #expect(try await store.related("Photo", "P3", "tags") == ["S1"])
    #expect(try await store.replica.position().importToken == "t1")
    await store.replica.close()
    // Now it has the present format: it opens for readers, and a second opening has nothing to do.
    var configuration = World.configuration(path)
    configuration.isReadOnly = true
    let reader = TestStore(folder: folder, replica: try await Replica.open(configuration, Photos.model))
    #expect(try await reader.names(Query("Photo")).count == 2)
  }

  @Test(arguments: 1...5)
  func `what waits in a file of an earlier format is sent in its order, and stays the user's until then`(format: Int)
    async throws
  {
    let store = try await open(format)
    let waiting = try await store.outbox()
    #expect(waiting.map { $0.changes.map(\.objectID) } == [["P1", "A1", "P3", "S1"], ["P2"], ["P1"]])
    #expect(try await store.replica.rejected().map { $0.objects.map(\.recordName) } == [["R1"]])
    #expect(try await store.replica.undecided().isEmpty)
    try await store.replica.apply(
      page(
        "t2", saved("Photo", "P1", ["title": .string("theirs"), "size": .integer(1)]), saved("Photo", "P2"),
        saved("Tag", "R1", ["name": .string("theirs")]), .link(link("P1", "T1"))), event: nil)
    let shown = try #require(try await store.values("Photo", "P1"))
    #expect(shown["title"] == .text("waits") && shown["size"] == .integer(9))
    #expect(try await store.values("Photo", "P2") == nil)
    #expect(try await store.values("Tag", "R1") == ["name": .text("refused")])
    #expect(try await store.related("Photo", "P1", "tags") == [])
    // The batch that was sent goes again; a later save goes behind all of them.
    try await store.save { try $0.insert("Tag", "T9") }
    var sent: [[String]] = []
    while let batch = try await store.replica.nextBatch(transactionLimit: 10, byteLimit: 1 << 20) {
      #expect(batch.isRepeated == sent.isEmpty)
      for body in batch.transactions { sent.append(try Transaction(json: body).changes.map(\.objectID)) }
      try await store.replica.acknowledge(batch, historyToken: "h2")
    }
    #expect(sent == [["P1", "A1", "P3", "S1"], ["P2"], ["P1"], ["T9"]])
    try await store.replica.apply(
      page("t3", saved("Photo", "P1", ["title": .string("theirs"), "size": .integer(1)])), event: nil)
    #expect(try await store.values("Photo", "P1")?["title"] == .text("theirs"))
    #expect(try await store.values("Photo", "P1")?["size"] == .integer(1))
    #expect(try await store.values("Tag", "R1") == ["name": .text("refused")])
    try await store.replica.sendAgain()
    // Format 1 did not keep what was exported.
    #expect(try await store.outbox().count == (format == 1 ? 4 : 5))
  }

  @Test(arguments: 1...5) func `the history of a file of an earlier format reads as before, and goes on`(format: Int)
    async throws
  {
    let store = try await open(format)
    let replica = store.replica
    var query = HistoryQuery()
    let before = try await replica.history(query)
    #expect(before.transactions.map(\.number) == [1, 2, 3, 4, 5, 6])
    #expect(before.transactions.map(\.author) == [MirroringAuthor.importing, "app", "app", "app", "app", "app"])
    #expect(before.transactions.map(\.contextName) == [nil, nil, nil, "main", "main", "main"])
    #expect(before.transactions.allSatisfy { $0.processID == "1" })
    #expect(
      before.transactions[3].changes.map { "\($0.kind) \($0.object.recordName) \($0.updatedProperties.sorted())" } == [
        #"update P1 ["size", "tags", "title"]"#, #"insert A1 ["name"]"#, #"insert P3 ["album", "note", "size"]"#,
        #"update S1 ["photos"]"#,
      ])
    #expect(before.transactions[4].changes.map(\.tombstone) == [["legacyID": .integer(12)]])
    #expect(try await replica.consumerPosition("widgets") == 2)
    #expect(try await store.save { try $0.insert("Tag", "T9") } == 7)
    query.after = 6
    #expect(try await replica.history(query).transactions.map { $0.changes.map(\.object.recordName) } == [["T9"]])
    #expect(try await replica.purgeHistory(before: .distantFuture, force: false) == 2)
  }

  @Test(arguments: 1...5) func `a file of an earlier format is not opened to be read only, and stays as it is`(
    format: Int
  ) async throws {
    try makeFile(format, path)
    var configuration = World.configuration(path)
    configuration.isReadOnly = true
    await #expect(
      throws: StoreError.migration(problems: ["the file has format \(format), and it is opened to be read only"])
    ) { try await Replica.open(configuration, Photos.model) }
    let connection = try Connection(shared: path, mode: .readOnly)
    #expect(try Meta(connection).number("format") == Int64(format))
    connection.close()
  }

  @Test func `what waited to be sent again in a file of format 4 waits on, until it is sent`() async throws {
    try makeFile(4, path)
    let connection = try Connection(shared: path, mode: .readWrite)
    try connection.execute(
      "INSERT INTO pending(object, property, number) SELECT _pk, -2, 5 FROM object WHERE name = 'T1'")
    connection.close()
    let store = TestStore(folder: folder, replica: try await Replica.open(World.configuration(path), Photos.model))
    let tag = AnyObjectID(entityName: "Tag", recordName: "T1")
    try await store.replica.reread(tag, as: nil)
    #expect(try await store.values("Tag", "T1") != nil)
    try await store.export()
    try await store.replica.reread(tag, as: nil)
    #expect(try await store.values("Tag", "T1") == nil)
  }

  @Test(arguments: 1...5) func `a save that a file of an earlier format keeps is sent when the app tries it again`(
    format: Int
  ) async throws {
    let store = try await open(format)
    let kept = try #require(try await store.replica.rejected().first?.identifier)
    try await store.replica.retry(kept)
    #expect(try await store.outbox().last?.changes.map(\.objectID) == ["R1"])
    #expect(try await store.replica.rejected().isEmpty)
    try await store.export()
    #expect(try await store.replica.figures().pendingObjects == 0)
  }

  @Test func `an undone save of a file of format 5 is not taken for kept because of objects that are sent again`()
    async throws
  {
    try makeFile(5, path)
    let connection = try Connection(shared: path, mode: .readWrite)
    try connection.execute(
      "UPDATE rejected SET isDecided = 1; DELETE FROM pending WHERE number < 0; "
        + "INSERT INTO sentAgain(object, number) SELECT o._pk, -r.number FROM object o, rejected r WHERE o.name = 'T1'")
    connection.close()
    let replica = try await Replica.open(World.configuration(path), Photos.model)
    let decisions = try await replica.read { snapshot in
      try snapshot.connection.prepare(SQL("decisions", "SELECT isDecided FROM rejected")).all { $0.int64(0) }
    }
    #expect(decisions == [1])
    await replica.close()
  }

  @Test func `a file of a later format is refused`() async throws {
    let store = try await open(2)
    await store.replica.close()
    let connection = try Connection(shared: path, mode: .readWrite)
    try Meta(connection).set("format", Tables.format + 1)
    connection.close()
    await #expect(throws: StoreError.damaged("\(path) has a format that this version does not know")) {
      try await Replica.open(World.configuration(path), Photos.model)
    }
  }
}

@Test(arguments: 0..<20)
func `packed changes are read as they were written, and damaged bytes never end the process`(
  seed: Int
) throws {
  var random = SeededGenerator(seed)
  var packed = PackedChanges()
  let changes = (0..<Int.random(in: 0...40, using: &random)).map { _ in
    PackedChanges.Change(
      object: Int64.random(in: 1...(1 << Int64.random(in: 1...62, using: &random)), using: &random),
      kind: HistoryChange.Kind(rawValue: Int.random(in: 0...2, using: &random)) ?? .insert,
      properties: (0..<Int.random(in: 0...20, using: &random)).map { _ in Int64.random(in: 1...40_000, using: &random)
      },
      tombstone: (0..<(Bool.random(using: &random) ? 0 : 300)).map { _ in UInt8.random(in: 0...255, using: &random) })
  }
  for change in changes { packed.append(change) }
  var read: [PackedChanges.Change] = []
  try PackedChanges.forEach(in: packed.bytes) { read.append($0) }
  #expect(read == changes)
  #expect(packed.count == changes.count)
  for length in packed.bytes.indices {
    var part: [PackedChanges.Change] = []
    _ = try? PackedChanges.forEach(in: Array(packed.bytes[..<length])) { part.append($0) }
    #expect(part.count < changes.count && part == Array(changes.prefix(part.count)))
  }
  for _ in 0..<200 where !packed.bytes.isEmpty {
    var bytes = packed.bytes
    for _ in 0..<3 { bytes[Int.random(in: bytes.indices, using: &random)] = UInt8.random(in: 0...255, using: &random) }
    do { try PackedChanges.forEach(in: bytes) { _ in } } catch {
      #expect(error as? StoreError == .damaged("a transaction of the history can't be read"))
    }
  }
}
