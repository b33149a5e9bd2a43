// Stores that lie in no file of the app's.

import FoundationEssentials
import MirrorWire
import Testing

@testable import ReplicaStore

#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

private func open(in folder: Folder) async throws -> TestStore {
  var configuration = World.configuration(nil)
  configuration.temporaryFolder = folder.path
  return TestStore(folder: folder, replica: try await Replica.open(configuration, Photos.model))
}

extension Folder {
  fileprivate var names: [String] { get throws { try FileManager.default.contentsOfDirectory(atPath: path) } }
}

@Test func `a store in memory lies in a folder that nobody else can read, and takes all of it along`() async throws {
  let folder = try World.folder()
  let store = try await open(in: folder)
  try await store.save { try $0.insert("Tag", "T1", ["name": .text("sea")]) }
  try await store.replica.apply(
    page("t1", saved("Photo", "P1", ["image": .string(Data("picture".utf8).base64EncodedString())])), event: nil)
  try await store.replica.beginReset(reason: "test")
  let isUnderWay = ImportPage.Reset(reason: "test", done: false)
  try await store.replica.apply(page("r1", saved("Photo", "P1"), reset: isUnderWay), event: nil)
  let names = try folder.names
  #expect(names.count == 1)
  var status = stat()
  #expect(stat("\(folder.path)/\(try #require(names.first))", &status) == 0 && status.st_mode & 0o777 == 0o700)
  #expect(try await store.names(Query("Tag")) == ["T1"])
  await store.replica.close()
  #expect(try folder.names.isEmpty)
}

@Test func `the folder of a process that was killed is removed once it is old, and none that is in use`() async throws {
  let folder = try World.folder()
  let store = try await open(in: folder)
  let inUse = try folder.names
  let killed = "aquifer-AB000000-0000-0000-0000-0000000000FF"
  for name in [killed, "aquifer-photos"] {
    try FileManager.default.createDirectory(atPath: "\(folder.path)/\(name)", withIntermediateDirectories: true)
    for file in ["lock", "store.sqlite", "store.sqlite-wal"] {
      try Data("left".utf8).write(to: URL(filePath: "\(folder.path)/\(name)/\(file)"))
    }
  }
  TemporaryFolder.removeAbandoned(in: folder.path, now: 1_000_000)
  #expect(try Set(folder.names) == Set(inUse + [killed, "aquifer-photos"]))
  TemporaryFolder.removeAbandoned(in: folder.path, now: 4_000_000_000_000)
  #expect(try Set(folder.names) == Set(inUse + ["aquifer-photos"]))
  try await store.save { try $0.insert("Tag", "T1") }
  #expect(try await store.names(Query("Tag")) == ["T1"])
  await store.replica.close()
}
