// A directory moves from a file to a database, and back.

import Assets
import Foundation
import PrivateCluster
import SQLite
import Testing

@testable import ShareService

@Suite(.timeLimit(.minutes(2))) struct DirectoryCopyTests {
  /// Every row of a directory's file, but the epoch.
  private func rows(of path: String) throws -> [String] {
    let file = try DirectoryFormat.open(path)
    defer { file.close() }
    var rows: [String] = []
    for table in try file.prepare(
      SQL("tables", "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name")
    ).all({ $0.text(0) }) {
      let columns = try file.prepare(SQL("columns", "PRAGMA table_info(\"\(table)\")")).all {
        "quote(\"\($0.text(1))\")"
      }
      let text = columns.joined(separator: " || ' ' || ")
      rows += try file.prepare(SQL("rows", "SELECT \(text) FROM \"\(table)\" ORDER BY 1")).all {
        "\(table): \($0.text(0))"
      }
    }
    return rows.filter { !$0.hasPrefix("value: 'epoch'") }
  }

  private func filled() async throws -> World {
    let world = try await World.withContainer()
    _ = try await world.user("alice")
    _ = try await world.apiToken()
    try await world.ok("POST", "/admin/1/users", #"{"name":"bob","email":"Bob@Example.org"}"#)
    try await world.ok("POST", "/admin/1/roles", #"{"user":"alice","role":"operator"}"#)
    return world
  }

  @Test func `all rows arrive in the database and come back, and new keys go on behind them`() async throws {
    let world = try await filled()
    let path = world.folder.path + "/directory.sqlite"
    await world.service.close()
    let before = try rows(of: path)
    #expect(before.count > 8)

    let folder = TemporaryFolder()
    var place = try DirectoryEngine.database(of: folder)
    place.formerFile = path
    func open() throws -> Directory {
      try World.whenFree {
        try Directory(
          .database(place), shardCount: nil, operatorToken: { World.operatorToken }, clock: world.clock,
          random: SeededRandom(seed: 5))
      }
    }
    let directory = try open()
    try await directory.copy(to: folder.path + "/copy.sqlite")
    #expect(try rows(of: folder.path + "/copy.sqlite") == before)
    let file = try DirectoryFormat.open(folder.path + "/copy.sqlite")
    #expect(try DirectoryFormat.epoch(in: .sqlite(file)) == directory.epoch + 1)
    file.close()
    // Another one has the address in other letters already.
    await #expect(throws: (any Error).self) {
      try await directory.createUser(NewUser(name: "robert", emailAddress: "BOB@example.org"))
    }
    _ = try await directory.createUser(NewUser(name: "carol"))
    #expect(try await directory.user(emailAddress: "bob@EXAMPLE.org")?.name == "bob")
    await directory.close()
    // A later start copies nothing.
    let again = try open()
    #expect(try await !again.recordName(ofUser: "carol").isEmpty)
    #expect(again.epoch == directory.epoch + 1)
    await again.close()
  }

  @Test func `the epoch goes on behind that of the file, and a missing file is no directory`() async throws {
    let folder = TemporaryFolder()
    let path = folder.path + "/directory.sqlite"
    let file = try DirectoryFormat.open(path)
    _ = try DirectoryFormat.settleEpoch(7, in: .sqlite(file))
    file.close()
    var place = try DirectoryEngine.database(of: folder)
    place.formerFile = path + "s"
    #expect(throws: InstallationProblem.self) { try PostgreSQLDirectory(place, leastEpoch: 0) { _ in } }
    place.formerFile = path
    let directory = try World.whenFree { try PostgreSQLDirectory(place, leastEpoch: 0) { _ in } }
    #expect(directory.epoch == 8)
    directory.close()
  }

  @Test func `a directory that is there stays with its own installation's file, and refuses that of another`() throws {
    let folder = TemporaryFolder()
    func file(_ name: String, seed: UInt64) throws -> (path: String, installation: String) {
      let path = "\(folder.path)/\(name).sqlite"
      let file = try DirectoryFormat.open(path)
      defer { file.close() }
      let key = try DirectoryFormat.settleSigningKey(in: .sqlite(file), random: SeededRandom(seed: seed))
      return (path, InstallationID(signingKey: key).text)
    }
    func lead(from path: String?, in folder: TemporaryFolder) throws -> PostgreSQLDirectory {
      var place = try DirectoryEngine.database(of: folder)
      place.formerFile = path
      return try World.whenFree { try PostgreSQLDirectory(place, leastEpoch: 0) { _ in } }
    }
    let (own, other) = (try file("own", seed: 1), try file("other", seed: 2))
    let first = try lead(from: own.path, in: folder)
    first.close()
    let problem = #expect(throws: InstallationProblem.self) { try lead(from: other.path, in: folder) }
    let text = problem?.description ?? ""
    #expect(text.contains(own.installation) && text.contains(other.installation), "\(text)")
    // The option stays set, or the file is gone.
    for (number, path) in [own.path, folder.path + "/none"].enumerated() {
      let later = try lead(from: path, in: folder)
      #expect(later.epoch == first.epoch + 1 + Int64(number))
      later.close()
    }

    let begun = TemporaryFolder()
    let directory = try lead(from: nil, in: begun)
    try directory.change { try DirectoryFormat.set("shardCount", Array("4".utf8), in: directory.connection) }
    directory.close()
    #expect(throws: InstallationProblem.self) { try lead(from: own.path, in: begun) }
  }
}
