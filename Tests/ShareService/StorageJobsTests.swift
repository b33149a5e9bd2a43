import Foundation
import JSON
import Records
import ServiceKit
import Testing

@testable import ShareService

/// Backups that can't begin, and the answers about them.
struct StorageJobsTests {
  @Test(arguments: ["monday/yesterday", "monday.partial/archive"])
  func `a backup that is refused removes nothing`(name: String) async throws {
    let world = try World()
    let folder = TemporaryFolder()
    let file = URL(filePath: folder.path + "/" + name)
    let draft = URL(filePath: folder.path + "/monday.partial/kept")
    for file in [file, draft] {
      try FileManager.default.createDirectory(at: file.deletingLastPathComponent(), withIntermediateDirectories: true)
      try Data("kept".utf8).write(to: file)
    }
    let jobs = world.service.jobs
    _ = try await jobs.backUp(to: folder.path + "/monday")
    await jobs.close()
    #expect(await jobs.job(.backup)?.state == .failed)
    for file in [file, draft] { #expect(try String(contentsOf: file, encoding: .utf8) == "kept") }
    await world.service.close()
  }

  @Test func `each job is found by its start, also after another one has begun`() async throws {
    let world = try World()
    let folder = TemporaryFolder()
    let jobs = world.service.jobs
    var starts: [String: Int64] = [:]
    for name in ["monday", "tuesday"] {
      // It has a file already, so that the backup fails at once.
      try FileManager.default.createDirectory(atPath: folder.path + "/" + name, withIntermediateDirectories: true)
      try Data("kept".utf8).write(to: URL(filePath: folder.path + "/\(name)/kept"))
      starts[name] = try await jobs.backUp(to: folder.path + "/" + name).startedAt
      await jobs.close()
    }
    for (name, start) in starts {
      let answer = try await world.ok("GET", "/admin/1/backup", query: ["startedAt": String(start)])
      #expect(answer["directory"]?.string == folder.path + "/" + name && answer["state"]?.string == "failed")
    }
    #expect(try await world.ok("GET", "/admin/1/backup")["startedAt"]?.int64 == starts["tuesday"])
    try await world.refused("GET", "/admin/1/backup", query: ["startedAt": "1"], status: 404)
    try await world.refused("GET", "/admin/1/backup", query: ["startedAt": "monday"], status: 400)
    await world.service.close()
  }
}
