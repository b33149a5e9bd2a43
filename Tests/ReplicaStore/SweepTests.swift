// Files of contents that nothing names: which of them go, and which stay.

import FoundationEssentials
import MirrorWire
import Testing

@testable import ReplicaStore

/// So far ahead of the disk's clock that all files are old but those that a test makes young.
private let now = Date(milliseconds: 4_000_000_000_000)

private func name(_ text: String) -> ContentName {
  let data = Data(text.utf8)
  return ContentName(checksum: SHA256.name(of: data), byteCount: Int64(data.count))
}

private func configuration(_ folder: Folder, _ didSweep: @escaping @Sendable (SweptContents) -> Void)
  -> ReplicaConfiguration
{
  var configuration = World.configuration("\(folder.path)/store.sqlite")
  configuration.now = { now }
  configuration.didSweep = didSweep
  return configuration
}

extension TestStore {
  /// Opens a store, and waits until what follows an opening is done.
  fileprivate static func open(in folder: Folder) async throws -> (store: TestStore, swept: SweptContents) {
    let (sweeps, told) = AsyncStream<SweptContents>.makeStream()
    let replica = try await Replica.open(configuration(folder) { told.yield($0) }, Photos.model)
    var sweep = sweeps.makeAsyncIterator()
    let swept = await sweep.next()
    return (TestStore(folder: folder, replica: replica), try #require(swept))
  }

  fileprivate var contentFolder: String { "\(folder.path)/store.sqlite-contents" }

  fileprivate var files: Set<String> {
    get throws { Set(try FileManager.default.contentsOfDirectory(atPath: contentFolder)) }
  }

  /// - Parameter age: in seconds; nil: old.
  fileprivate func put(_ file: String, byteCount: Int = 1, age: Double? = nil) throws {
    try FileManager.default.createDirectory(atPath: contentFolder, withIntermediateDirectories: true)
    let path = "\(contentFolder)/\(file)"
    try Data(repeating: 1, count: byteCount).write(to: URL(filePath: path))
    if let age { try FileManager.default.setAttributes([.modificationDate: now - age], ofItemAtPath: path) }
  }

  fileprivate func insert(_ photo: String, _ name: ContentName, _ source: ContentSource) async throws {
    try await save { save in
      let columns = try save.schema.entity("Photo").columns
      try save.insert(
        AnyObjectID(entityName: "Photo", recordName: photo),
        columns.map { $0.name == "image" ? .text(name.text) : .null }, contents: [name.checksum: source])
    }
  }

  fileprivate func insert(_ photo: String, _ text: String) async throws {
    try await insert(photo, name(text), .data(Data(text.utf8)))
  }
}

@Test func `a file that no row names goes, but not in its first hour`() async throws {
  let (store, _) = try await TestStore.open(in: World.folder())
  try await store.insert("P1", "here")
  let there = name("there")
  let asset = AssetReference(fileChecksum: there.fileChecksum, size: there.byteCount, downloadURL: "http://127.0.0.1/a")
  try await store.replica.apply(page("t", saved("Photo", "P2", ["image": .asset(asset)])), event: nil)
  let (here, lost, young) = (name("here").checksum, name("lost").checksum, name("young").checksum)
  let others = ["notes.txt", String(lost.dropLast()), "\(lost).tmp", "\(lost)0", lost.uppercased(), "\(lost).part.new"]
  for file in others + ["\(there.checksum).part"] { try store.put(file) }
  for suffix in ["", ".part", ".new"] { try store.put(young + suffix, age: 3599) }
  let folder = name("folder").checksum
  try FileManager.default.createDirectory(
    atPath: "\(store.contentFolder)/\(folder)", withIntermediateDirectories: true)
  let stay = try store.files
  try store.put(lost, byteCount: 7)
  try store.put("\(lost).part", byteCount: 11)
  try store.put("\(name("late").checksum)", byteCount: 13, age: 3601)
  // The content came another way than by its download.
  try store.put("\(here).part", byteCount: 17)
  // Nothing is being written.
  try store.put("\(here).new", byteCount: 19)
  try store.put("\(there.checksum).new", byteCount: 23)
  #expect(store.replica.sweep.run() == SweptContents(fileCount: 6, byteCount: 90))
  #expect(try store.files == stay)
  #expect(store.replica.contents.localPath(of: name("here")) != nil)
}

@Test func `a download that was moved to its place before the process died is here, and one of another length is not`()
  async throws
{
  let (store, _) = try await TestStore.open(in: World.folder())
  for (photo, text) in [("P1", "moved"), ("P2", "damaged")] {
    let name = name(text)
    let asset = AssetReference(fileChecksum: name.fileChecksum, size: name.byteCount, downloadURL: "http://127.0.0.1/a")
    try await store.replica.apply(page("t", saved("Photo", photo, ["image": .asset(asset)])), event: nil)
  }
  try store.put(name("damaged").checksum)
  try Data("moved".utf8).write(to: URL(filePath: "\(store.contentFolder)/\(name("moved").checksum)"))
  let before = try await store.replica.contentsToDownload(byteLimit: .max, limit: 9).map(\.checksum)
  #expect(Set(before) == [name("moved").checksum, name("damaged").checksum])
  #expect(store.replica.sweep.run() == SweptContents())
  let after = try await store.replica.contentsToDownload(byteLimit: .max, limit: 9).map(\.checksum)
  #expect(after == [name("damaged").checksum])
  #expect(try store.files == [name("moved").checksum, name("damaged").checksum])
}

@Test func `a download of a content that is damaged here goes on`() async throws {
  let (store, _) = try await TestStore.open(in: World.folder())
  try await store.insert("P1", "here")
  let here = name("here").checksum
  try store.put(here, byteCount: 2)
  try store.put("\(here).part")
  #expect(store.replica.sweep.run() == SweptContents())
  #expect(try store.files == [here, "\(here).part"])
}

@Test func `a content that only the second file of a reset names stays, and goes when the reset is given up`()
  async throws
{
  let (store, _) = try await TestStore.open(in: World.folder())
  for (photo, isDone) in [("P1", true), ("P2", false)] {
    let content = Data("picture of \(photo)".utf8)
    try await store.replica.beginReset(reason: "test")
    let told = saved("Photo", photo, ["image": .string(content.base64EncodedString())])
    try await store.replica.apply(page("r1", told, reset: ImportPage.Reset(reason: "test", done: false)), event: nil)
    #expect(try store.files.contains(SHA256.name(of: content)))
    #expect(store.replica.sweep.run() == SweptContents())
    if isDone {
      try await store.replica.apply(page("r2", reset: ImportPage.Reset(reason: "test", done: true)), event: nil)
      #expect(store.replica.sweep.run() == SweptContents())
    } else {
      try await store.replica.abandonReset()
      #expect(store.replica.sweep.run() == SweptContents(fileCount: 1, byteCount: Int64(content.count)))
    }
  }
  #expect(try store.files == [name("picture of P1").checksum])
}

@Test func `an opening to write removes all that no row names; readers and a closed store remove nothing`()
  async throws
{
  let (store, swept) = try await TestStore.open(in: World.folder())
  #expect(swept == SweptContents())
  try await store.insert("P1", "here")
  for number in 0..<200 { try store.put(name("lost \(number)").checksum, byteCount: 3) }
  var reading = configuration(store.folder) { swept in Issue.record("a reader removes \(swept)") }
  reading.isReadOnly = true
  let reader = try await Replica.open(reading, Photos.model)
  await store.replica.close()
  #expect(store.replica.sweep.run() == SweptContents())
  #expect(try store.files.count == 201)
  // One opening after the other is followed up, so the reader's would have been by now.
  let (again, sweptAgain) = try await TestStore.open(in: store.folder)
  #expect(sweptAgain == SweptContents(fileCount: 200, byteCount: 600))
  #expect(try again.files == [name("here").checksum])
  await reader.close()
}

@Test func `a file that changed since it was named takes the place of no content, and leaves nothing behind`()
  async throws
{
  let store = try await TestStore.make()
  try await store.insert("P1", "first")
  let picture = "\(store.folder.path)/picture"
  try Data("other".utf8).write(to: URL(filePath: picture))
  for text in ["first", "fresh"] {
    await #expect(throws: StoreError.invalid("a file changed before its content was saved")) {
      try await store.insert("P2", name(text), .file(path: picture))
    }
  }
  #expect(try store.files == [name("first").checksum])
  #expect(try ContentFile.measure("\(store.contentFolder)/\(name("first").checksum)") == name("first"))
  try await store.insert("P2", name("other"), .file(path: picture))
  #expect(try ContentFile.measure("\(store.contentFolder)/\(name("other").checksum)") == name("other"))
}
