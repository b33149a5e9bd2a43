import Foundation
import JSON
import ObjectModel
import Records
import SQLite
import ServiceBus
import Testing

@testable import ShareService

@Suite struct DurabilityTests {
  @Test func `a restart keeps everything`() async throws {
    var world = try await World.withContainer()
    let (alice, bob, api) = (try await world.user("alice"), try await world.user("bob"), try await world.apiToken())
    try await world.ok("POST", "/admin/1/users/bob/disable")
    let body =
      #"""
      {"container":"\#(World.photos)","publicKey":\#
      "\#(AccountsTests.publicKey.replacingOccurrences(of: "\n", with: "\\n"))"}
      """#
    try await world.ok("POST", "/admin/1/keys", body)
    for environment in ["development", "production"] {
      try await world.ok("PUT", "/mirror/1/\(World.photos)/\(environment)/model", modelXML())
    }
    let (key, before) = (world.service.directory.signingKey, try await world.schema(.production))
    try await world.service.directory.store(ClusterMap(version: 7, members: [], holders: ["worker-1", nil]))

    world = try await world.restarted()
    #expect(world.service.directory.signingKey == key && key.count == 32)
    #expect(try await world.authenticate(api: api, user: alice.token).userRecordName == alice.recordName)
    #expect(try await world.authenticate(user: bob.token).refusal == .userToken)
    #expect(try await world.ok("GET", "/admin/1/keys")["keys"]?.count == 1)
    let after = try await world.schema(.production)
    #expect(
      after.version == before.version && after.models == before.models && after.schema == before.schema
        && after.latestModelHash == before.latestModelHash)
    let stored = try await world.service.directory.clusterMap()
    #expect(stored.version == 7 && stored.map?.holders == ["worker-1", nil])
  }

  @Test func `a process that dies without closing loses nothing it answered`() async throws {
    let folder = TemporaryFolder()
    let copy = TemporaryFolder()
    let world = try await World.withContainer(in: folder)
    let alice = try await world.user("alice")
    // The files on disk while the first process still holds them.
    for name in try FileManager.default.contentsOfDirectory(atPath: folder.path) where !name.hasSuffix("-shm") {
      try FileManager.default.copyItem(atPath: folder.path + "/" + name, toPath: copy.path + "/" + name)
    }
    let survivor = try World(in: copy, seed: 2)
    #expect(try await survivor.authenticate(user: alice.token).userRecordName == alice.recordName)
    await world.service.close()
  }

  @Test func `a directory from a backup gives its environments no version that the lost one gave`() async throws {
    let (folder, backup) = (TemporaryFolder(), TemporaryFolder())
    let world = try await World.withContainer(in: folder)
    let path = "/mirror/1/\(World.photos)/development/model"
    try await world.ok("PUT", path, modelXML())
    let kept = try await world.schema().version
    for name in try FileManager.default.contentsOfDirectory(atPath: folder.path) where !name.hasSuffix("-shm") {
      try FileManager.default.copyItem(atPath: folder.path + "/" + name, toPath: backup.path + "/" + name)
    }
    var lost: [Int64] = []
    for number in 0..<3 {
      try await world.ok("PUT", path, modelXML(attributes: ["lost\(number)": "String"]))
      lost.append(try await world.schema().version)
    }
    await world.service.close()
    let successor = try World(in: backup, seed: 2, clock: world.clock)
    #expect(try await successor.schema().version == kept)
    for number in 0..<3 {
      try await successor.ok("PUT", path, modelXML(attributes: ["new\(number)": "String"]))
      #expect(try await !lost.contains(successor.schema().version))
    }
    await successor.service.close()
  }

  @Test func `the directory answers while it is copied, and the copy has what was written meanwhile`() async throws {
    let world = try await World.withContainer()
    let directory = world.service.directory
    let byteCount = 32 << 20
    try await directory.fill(byteCount)
    let path = world.folder.path + "/copy"
    let copied = Task { try await directory.copy(to: path) }
    while !FileManager.default.fileExists(atPath: path) { await Task.yield() }
    let alice = try await world.user("alice")
    // The call was answered before the copy ended.
    let size = try FileManager.default.attributesOfItem(atPath: path)[.size] as? Int ?? 0
    #expect(size < byteCount)
    try await copied.value
    let copy = TemporaryFolder()
    try FileManager.default.copyItem(atPath: path, toPath: copy.path + "/directory.sqlite")
    let survivor = try World(in: copy, seed: 2)
    #expect(try await survivor.authenticate(user: alice.token).userRecordName == alice.recordName)
    #expect(try await survivor.service.directory.problems() == [])
    await world.service.close()
  }

  @Test func `credentials are nowhere in the files`() async throws {
    let world = try await World.withContainer()
    let (alice, api) = (try await world.user("alice"), try await world.apiToken())
    let second = try #require(try await world.ok("POST", "/admin/1/users/alice/tokens")["webAuthToken"]?.string)
    func files() throws -> [Data] {
      try FileManager.default.contentsOfDirectory(atPath: world.folder.path).map {
        try Data(contentsOf: URL(fileURLWithPath: world.folder.path + "/" + $0))
      }
    }
    let open = try files()
    await world.service.close()
    for data in open + (try files()) {
      for secret in [alice.token, second, api, World.operatorToken] {
        #expect(data.firstRange(of: Data(secret.utf8)) == nil)
        #expect(data.firstRange(of: Data(secret.utf8.prefix(20))) == nil)
      }
    }
    // Shows that the search works: the record name is found.
    #expect(open.contains { $0.firstRange(of: Data(alice.recordName.utf8)) != nil })
  }

  @Test func `the number of shards is settled at creation`() async throws {
    var world = try World(shardCount: 8)
    #expect(world.service.directory.shardCount == 8)
    await world.service.close()
    let folder = world.folder
    let problem = #expect(throws: InstallationProblem.self) { try World(in: folder, shardCount: 4) }
    #expect(
      problem?.description
        == "This installation has 8 shards, and the number can't change: start it with --shards 8 or without --shards.")
    world = try World(in: folder, shardCount: 8)
    #expect(world.service.directory.shardCount == 8)
    await world.service.close()
    world = try World(in: folder)
    #expect(world.service.directory.shardCount == 8)
    await world.service.close()
    #expect(try World().service.directory.shardCount == 4)
    for count in [0, -1, 5000] { #expect(throws: InstallationProblem.self) { try World(shardCount: count) } }
  }

  @Test func `the files are readable by their owner only`() async throws {
    let world = try World()
    for name in try FileManager.default.contentsOfDirectory(atPath: world.folder.path) {
      let mode =
        try FileManager.default.attributesOfItem(atPath: world.folder.path + "/" + name)[.posixPermissions] as? Int
      #expect(mode == 0o600, "\(name)")
    }
    await world.service.close()
  }

  @Test func `a folder in use is refused`() async throws {
    let world = try World()
    // The second waits a while for the first to release the file before it gives up.
    let problem = #expect(throws: InstallationProblem.self) { try World(in: world.folder) }
    #expect(problem?.description.contains("Another process uses") == true)
    await world.service.close()
    await (try World(in: world.folder)).service.close()
  }

  @Test func `a file that is no directory, or of a newer release, is refused`() async throws {
    let folder = TemporaryFolder()
    let path = folder.path + "/directory.sqlite"
    try Data("this is no database at all, but a text of some length".utf8).write(to: URL(fileURLWithPath: path))
    let damaged = #expect(throws: InstallationProblem.self) { try World(in: folder) }
    #expect(damaged?.description.contains("damaged or not a directory") == true)
    try FileManager.default.removeItem(atPath: path)
    let world = try World(in: folder)
    try await world.service.directory.execute("PRAGMA user_version=99")
    await world.service.close()
    let newer = #expect(throws: InstallationProblem.self) { try World(in: folder) }
    #expect(newer?.description.contains("has format 99") == true)
  }

  @Test func `a data folder that can't be made is refused`() {
    #expect(throws: InstallationProblem.self) { try DataFolder("/proc/nothing/here") }
  }

  @Test func `the operator's token is made once and readable by its owner only`() throws {
    let parent = TemporaryFolder()
    let folder = try DataFolder(parent.path + "/made/on/the/way")
    // Share services of one directory need the same token, so none makes its own.
    #expect(throws: InstallationProblem.self) {
      try folder.operatorToken(given: nil, isShared: true, random: SeededRandom(seed: 1))
    }
    let token = try folder.operatorToken(given: nil, isShared: false, random: SeededRandom(seed: 1))
    #expect(try folder.operatorToken(given: nil, isShared: true, random: SeededRandom(seed: 2)) == token)
    #expect(token.wholeMatch(of: /[0-9a-f]{64}/) != nil)
    #expect(try folder.operatorToken(given: nil, isShared: false, random: SeededRandom(seed: 2)) == token)
    let mode = try FileManager.default.attributesOfItem(atPath: folder.operatorTokenPath)[.posixPermissions] as? Int
    #expect(mode == 0o600)
    #expect(try String(contentsOfFile: folder.operatorTokenPath, encoding: .utf8) == token + "\n")
    #expect(
      try folder.operatorToken(given: "  given by an option\n", isShared: false, random: SeededRandom(seed: 3))
        == "given by an option")
    #expect(try String(contentsOfFile: folder.operatorTokenPath, encoding: .utf8) == token + "\n")
    #expect(throws: InstallationProblem.self) {
      try folder.operatorToken(given: "short", isShared: false, random: SeededRandom(seed: 3))
    }
    try Data().write(to: URL(fileURLWithPath: folder.operatorTokenPath))
    #expect(throws: InstallationProblem.self) {
      try folder.operatorToken(given: nil, isShared: false, random: SeededRandom(seed: 3))
    }
    // Kept alive until here, because its end removes the folder.
    withExtendedLifetime(parent) {}
  }
}

extension Directory {
  fileprivate func execute(_ text: String) throws { try connection.execute(text) }
}

extension Directory {
  /// Makes the file this long.
  fileprivate func fill(_ byteCount: Int) throws {
    try change { try DirectoryFormat.set("ballast", [UInt8](repeating: 7, count: byteCount), in: connection) }
  }
}
